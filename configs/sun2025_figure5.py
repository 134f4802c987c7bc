"""Figure 5 of Sun et al. (ICLR 2025): how fast the selection law becomes stationary.

  python -m fedjax_links.cli.figure --config=configs/sun2025_figure5.py --workdir=runs/sun5

About TIME on two CPU cores.

The paper reports for N = 100, B = 1 that the total variation of eta_R(t) to pi_R falls faster for
larger R. PLACEHOLDER
"""

from ml_collections import ConfigDict


def get_config() -> ConfigDict:
    """The figure's settings."""
    return ConfigDict(
        {
            'title': 'Approach of the selection law to pi_R (Sun et al. 2025, Figure 5)',
            'figure': {
                'name': 'selection_mixing',
                'num_clients': 100,
                'weights': {'name': 'uniform', 'seed': 0},
                'separations': (0, 1, 5, 20, 50, 80),
                'num_rounds': 300,
                'num_seeds': 2000,
                'quick': False,
            },
            'caption': 'PLACEHOLDER',
        }
    )
