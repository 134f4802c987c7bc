"""Figure 5 of Sun et al. (ICLR 2025): how fast the selection law becomes stationary.

  python -m fedjax_links figure --config=configs/sun2025_figure5.py --workdir=runs/sun5

About 30 seconds on two CPU cores, 15 with `--quick`; not measured on a GPU.

The paper reports for N = 100, B = 1 that the "effective" selection law approaches pi_R faster for
larger R, without numbers; p is not specified. Two readings are drawn, and they disagree:

* the law eta_R(t) of the client selected in round t, as its Eq. (5) defines it. Larger R is SLOWER:
  R = 0 is stationary from the start, R = 1 after two rounds, R = 80 not after 300. The enumerated
  chain says the same of small federations (N = 6, equal weights: spectral gap 1, 0.8, 0.5, 0.275,
  0.115 for R = 0 to 4; mixing time tau_mix 1, 1, 3, 7, 15, and 1, 2, 8, 20, 65 with weights
  i^-1.5).
* the shares of the selections up to round t in one run, which is what counting sees. Larger R is
  faster, as the paper reports: waiting spreads the selections evenly.

Deviations: uniform draws stand in for p; the law is exact for R <= 1 and estimated from 2000 runs
otherwise, between two estimates that are too small and too large on average.
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
                'R <= 1, else between a lower and an upper estimate (band), drawn where twice '
                'above the noise floor (dots). Right: shares of the selections of a run so far. '
                'The paper reports faster convergence for larger R; that comes out for the shares '
                'only, while the law itself becomes stationary later the larger R is. Deviations: '
                'p and the start are not stated in the paper; here uniform draws, and everybody '
                'selectable in round 0.'
            ),
            'quick': {'figure': {'num_seeds': 200}},
        }
    )
