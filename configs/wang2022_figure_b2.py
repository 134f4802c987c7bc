"""Figure B.2 of Wang and Ji (NeurIPS 2022): FedAvg with amplification.

  python -m fedjax_links figure --config=configs/wang2022_figure_b2.py --workdir=runs/wang_b2

It takes three to five seconds on two CPU cores, and the same with `--quick`, which has nothing to
shorten. It was not measured on a GPU.

The paper reports that amplifying every P = 3 rounds leads to the optimum, with gamma times eta as
in Figure B.1; it prints no numbers. Deviation: it does not state the number of local steps I. It is
1 here: a cycle multiplies the distance to its fixed point by 1 - eta (1 - (1 - gamma)^(3 I)), which
is -0.43 for eta = 10 and I = 1, and below -1 for I = 2 and more.
"""

from ml_collections import ConfigDict


def get_config() -> ConfigDict:
    """Returns the figure's settings."""
    return ConfigDict(
        {
            'title': 'One client in turn, amplified (Wang and Ji 2022, Figure B.2)',
            'figure': {
                'name': 'figures.wang2022:toy_trajectories',
                'settings': ((0.05, 1.0), (0.05, 2.0), (0.05, 5.0), (0.05, 10.0)),
            },
            'caption': (
                'Client 1, 2, 3, 1, ... alone takes part; x^0 = (1, 2), T = 15, P = 3; gamma times '
                'eta as in Figure B.1. The paper reports that the model arrives at the optimum '
                'with amplification (its cyan segments are light blue here), without numbers. '
                'Deviation: the number of local steps is not stated; I = 1 here, as eta = 10 '
                'diverges with more.'
            ),
            'width': 120,
            'height': 40,
            'quick': {},
        }
    )
