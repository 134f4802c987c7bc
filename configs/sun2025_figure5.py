"""Figure 5 of Sun et al. (ICLR 2025): how fast the selection law becomes stationary.

  python -m fedjax_links figure --config=configs/sun2025_figure5.py --workdir=runs/sun5

It takes about 30 seconds on two CPU cores, 15 with `--quick`. It was not measured on a GPU.

The paper reports for N = 100, B = 1 that the "effective" selection law approaches pi_R faster for
larger R, without numbers. It does not specify p. The figure shows two readings, which disagree:

* The law eta_R(t) of the client selected in round t, as its Eq. (5) defines it. Larger R is SLOWER:
  R = 0 is stationary from the start, R = 1 after two rounds, R = 80 not after 300. The enumerated
  chain of small federations agrees. For N = 6 and equal weights, R = 0 to 4 have spectral gaps of
  1, 0.8, 0.5, 0.275 and 0.115. Their mixing times tau_mix are 1, 1, 3, 7 and 15, and with weights
  i^-1.5 they are 1, 2, 8, 20 and 65.
* The fractions of the selections up to round t in one run, which is what counting measures. Larger
  R is faster, as the paper reports: waiting spreads the selections evenly.

Deviations: uniform draws replace p. The law is exact for R <= 1. Otherwise 2000 runs estimate it,
between two estimates that are too small and too large on average.
"""

from ml_collections import ConfigDict


def get_config() -> ConfigDict:
    """Returns the figure's settings."""
    return ConfigDict(
        {
            'title': 'Approach of the selection law to pi_R (Sun et al. 2025, Figure 5)',
            'figure': {
                'name': 'figures.sun2025:selection_mixing',
                'weights': {'name': 'uniform', 'seed': 0},
                'separations': (0, 1, 5, 20, 50, 80),
                'num_rounds': 300,
                'num_seeds': 2000,
            },
            'caption': (
                'N = 100, B = 1. Left: law of the client selected in round t (Eq. 5); exact for '
                'R <= 1, else between a lower and an upper estimate (band), drawn where the upper '
                'one is more than twice its noise floor (dots). Right: shares of the selections of '
                'a run so far. '
                'The paper reports faster convergence for larger R; that comes out for the shares '
                'only, while the law itself becomes stationary later the larger R is. Deviations: '
                'p and the start are not stated in the paper; here uniform draws, and everybody '
                'selectable in round 0.'
            ),
            'quick': {'figure': {'num_seeds': 200}},
        }
    )
