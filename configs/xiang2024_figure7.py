"""Figures 7 and 8 of Xiang et al. (2024): the transition rates of Markov links.

  python -m fedjax_links figure --config=configs/xiang2024_figure7.py --workdir=runs/xiang7

It takes two seconds on two CPU cores, as with `--quick`. It was not measured on a GPU.

The paper gives a table of q* = P(off -> on) = 0.05 and q = 0.05 (1 - p) / p, or q = 1 and q* = p /
(1 - p) where that q would exceed one, and a diagram of the two states. It prints nothing else.
Deviations: curves instead of the table and the diagram. What the rates imply is added (fraction of
rounds up, correlation of adjacent rounds, mean durations), with links drawn at eight values of p.
"""

from ml_collections import ConfigDict


def get_config() -> ConfigDict:
    """Returns the figure's settings."""
    return ConfigDict(
        {
            'title': 'Markov links (Xiang et al. 2024, Figures 7 and 8)',
            'figure': {
                'name': 'figures.xiang2024:markov_links',
                'probs': (0.01, 0.02, 0.05, 0.1, 0.3, 0.5, 0.7, 0.9),
                'num_links': 200,
            },
            'caption': (
                'Lines exact, dots simulated with 4.5 standard errors (mostly smaller than the '
                'dots). The paper defines the rates of the left panel: 0.05 up and 0.05 (1 - p) / '
                'p down, or p / (1 - p) up and 1 down where that would exceed one. Deviations: '
                'curves instead of its table and its diagram of two states; the correlation of '
                'adjacent rounds and the mean durations follow from the rates and are added.'
            ),
            'width': 120,
            'height': 40,
            'quick': {'figure': {'num_links': 50}},
        }
    )
