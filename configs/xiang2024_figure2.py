"""Figure 2 of Xiang et al. (2024): where FedAvg's expected model goes with two clients.

  python -m fedjax_links figure --config=configs/xiang2024_figure2.py --workdir=runs/xiang2

It takes seven seconds on two CPU cores, six with `--quick`. It was not measured on a GPU.

The paper reports the exact limit 150 p2 / (1 + p2) for p1 = 0.5 and u = (0, 100). Deviation: the
simulated points are ours; step size, local steps and rounds are free, as the limit does not depend
on them.
"""

from ml_collections import ConfigDict


def get_config() -> ConfigDict:
    """Returns the figure's settings."""
    return ConfigDict(
        {
            'title': "Limit of FedAvg's expected model, two clients (Xiang et al. 2024, Figure 2)",
            'figure': {
                'name': 'figures.xiang2024:two_client_limit',
                'num_points': 20,
                'num_seeds': 1000,
            },
            'caption': (
                'p1 = 0.5, u = (0, 100). The paper reports the curve 150 p2 / (1 + p2), which is '
                'the exact one here (from the implicit weights). Deviation: simulated points are '
                'added, one compiled sweep over p2 with the same seeds at every point, so their '
                'errors move together; eta = 0.02 and s = 5 are ours, as the limit does not '
                'depend on them.'
            ),
            'quick': {'figure': {'num_points': 5, 'num_seeds': 200}},
        }
    )
