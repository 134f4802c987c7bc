"""Figure 6 of Xiang et al. (2024): example traces of the six kinds of unreliable links.

  python -m fedjax_links.cli.figure --config=configs/xiang2024_figure6.py --workdir=runs/xiang6

Nine seconds on two CPU cores, and the same with `--quick`, which has nothing to shorten; not
measured on a GPU.

The paper shows one link for each of p = 0.01, 0.1, 0.5, 0.9 over 80 rounds, and over 400 for the
cyclic kinds (cycle of 100). Deviations: its random draws are not published, so ours differ; gamma
is not stated, 0.4 is the default of the released code; the non-homogeneous Markov links keep their
memory as the text says (the released code redraws them in every round).
"""

from ml_collections import ConfigDict


def get_config() -> ConfigDict:
    """The figure's settings."""
    sine = {'name': 'sine', 'gamma': 0.4, 'period': 40}
    return ConfigDict(
        {
            'title': 'Example link traces (Xiang et al. 2024, Figure 6)',
            'figure': {
                'name': 'link_traces',
                'probs': (0.01, 0.1, 0.5, 0.9),
                'panels': {
                    '(a) Bernoulli, time-invariant': {'links': {'name': 'bernoulli'}, 'rounds': 80},
                    '(b) Bernoulli, time-varying': {
                        'links': {'name': 'bernoulli', 'schedule': sine},
                        'rounds': 80,
                    },
                    '(c) Markov, homogeneous': {
                        'links': {'name': 'markov', 'up_rate': 0.05},
                        'rounds': 80,
                    },
                    '(d) Markov, non-homogeneous': {
                        'links': {'name': 'markov', 'up_rate': 0.05, 'schedule': sine},
                        'rounds': 80,
                    },
                    '(e) Cyclic without reset': {
                        'links': {'name': 'cyclic', 'cycle_length': 100},
                        'rounds': 400,
                    },
                    '(f) Cyclic with periodic reset': {
                        'links': {'name': 'cyclic', 'cycle_length': 100, 'reset': True},
                        'rounds': 400,
                    },
                },
                'seed': 0,
            },
            'caption': (
                'Coloured where the uplink delivers; black lines: probability of the round; all '
                'panels share their random numbers, so (a) to (d) resemble each other. The '
                'paper shows the same six kinds, four probabilities and lengths. Deviations: its '
                'draws are not published; gamma is not stated (0.4, the default of the released '
                'code); non-homogeneous Markov links keep their memory as its text says, while '
                'the released code redraws every link in every round; cyclic links have at least '
                'one round up per cycle, in the released code too.'
            ),
            'height': 80,
            'quick': {},
        }
    )
