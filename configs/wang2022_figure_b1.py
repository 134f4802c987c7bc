"""Figure B.1 of Wang and Ji (NeurIPS 2022): FedAvg circles the optimum, without amplification.

  python -m fedjax_links figure --config=configs/wang2022_figure_b1.py --workdir=runs/wang_b1

It takes three to five seconds on two CPU cores, and the same with `--quick`, which has nothing to
shorten. It was not measured on a GPU.

The paper prints no numbers. It reports that the model goes round the optimum in a cycle that is
wide for large gamma. It comes near slowly for small gamma, and has not arrived after 15 rounds in
any panel. Deviation: it does not state the number of local steps I. It is 1 here, the only one
under which its Figure B.2 converges (see there).
"""

from ml_collections import ConfigDict


def get_config() -> ConfigDict:
    """Returns the figure's settings."""
    return ConfigDict(
        {
            'title': 'One client in turn, no amplification (Wang and Ji 2022, Figure B.1)',
            'figure': {
                'name': 'figures.wang2022:toy_trajectories',
                'settings': ((0.05, 1.0), (0.1, 1.0), (0.25, 1.0), (0.5, 1.0)),
            },
            'caption': (
                'Client 1, 2, 3, 1, ... alone takes part; x^0 = (1, 2), T = 15. The paper reports '
                'slow approach for small gamma, a wide cycle around the optimum for large gamma '
                'and a gap after round 15 in every panel, without numbers. Deviation: the number '
                'of local steps is not stated; I = 1 here, as its Figure B.2 would not converge '
                'with more.'
            ),
            'width': 120,
            'height': 40,
            'quick': {},
        }
    )
