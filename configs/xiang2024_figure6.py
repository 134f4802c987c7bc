"""Figure 6 of Xiang et al. (2024): example traces of the six kinds of unreliable links.

  python -m fedjax_links figure --config=configs/xiang2024_figure6.py --workdir=runs/xiang6

It takes nine seconds on two CPU cores, and the same with `--quick`, which has nothing to shorten.
It was not measured on a GPU.

The paper shows one link for each of p = 0.01, 0.1, 0.5, 0.9 over 80 rounds, and over 400 for the
cyclic kinds (cycle of 100). It says that links are up less often in (b) than in (a), and even less
in (c) and (d). That is false for (c), which is up as often as (a): `python -m studies.computed`.

Deviations: its random draws are not published, so ours differ. It does not state gamma; 0.4 is the
default of the released code. The non-homogeneous Markov links keep their memory, as the text says.
After a colon, :as_released shows the links of the released code. That redraws them in every round
and resets cyclic links at 0.6 of their probability.
"""

from ml_collections import ConfigDict

from fedjax_links.papers import common
from fedjax_links.papers.xiang2024 import presets

PANELS = {
    'bernoulli': ('(a) Bernoulli, time-invariant', 80),
    'bernoulli_sine': ('(b) Bernoulli, time-varying', 80),
    'markov': ('(c) Markov, homogeneous', 80),
    'markov_sine': ('(d) Markov, non-homogeneous', 80),
    'cyclic': ('(e) Cyclic without reset', 400),
    'cyclic_reset': ('(f) Cyclic with periodic reset', 400),
}


def get_config(argument: str = '') -> ConfigDict:
    """Returns the figure's settings.

    Args:
      argument: ``as_released`` for the links of the released code.
    """
    (code,) = common.chosen(argument, presets.CODES[:2])
    links = presets.patterns(code)
    for section in links.values():
        del section['probs']  # the figure shows four of its own
    return ConfigDict(
        {
            'title': 'Example link traces (Xiang et al. 2024, Figure 6)',
            'figure': {
                'name': 'figures.xiang2024:link_traces',
                'probs': (0.01, 0.1, 0.5, 0.9),
                'panels': {
                    title: {'links': links[label], 'rounds': rounds}
                    for label, (title, rounds) in PANELS.items()
                },
            },
            'caption': (
                'Dark where the uplink delivers; lines: probability of the round; all '
                'panels share their random numbers, so (a) to (d) resemble each other. The '
                'paper shows the same six kinds, four probabilities and lengths, and says that '
                'links are up less often in (b) than in (a) and even less in (c) and (d); in (c) '
                'they are up as often as in (a), by definition. Deviations: its '
                'draws are not published; gamma is not stated (0.4, the default of the released '
                f'code). {presets.departures(code, "links")} Cyclic links have '
                'at least one round up per cycle, in the released code too.'
            ),
            'height': 80,
            'quick': {},
        }
    )
