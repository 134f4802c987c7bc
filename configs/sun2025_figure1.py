"""Figure 1 of Sun et al. (ICLR 2025): minimum separation draws the selection law to uniform.

  python -m fedjax_links figure --config=configs/sun2025_figure1.py --workdir=runs/sun1

It takes three seconds on two CPU cores, as with `--quick`. It was not measured on a GPU. Every
point is exact, nothing is simulated.

The paper reports that the L1 distance of pi_R to the uniform law falls with R for N = 500, B = 1,
and prints no numbers. Deviations: its "random p_i > 0" are not specified, so three kinds of weights
stand in for them; the law comes from its closed form instead of a linear system.
"""

from ml_collections import ConfigDict


def get_config() -> ConfigDict:
    """Returns the figure's settings."""
    return ConfigDict(
        {
            'title': 'Distance of the selection law to uniform (Sun et al. 2025, Figure 1)',
            'figure': {
                'name': 'figures.sun2025:separation_distance',
                'num_clients': 500,
                'weights': {
                    'uniform draws': {'name': 'uniform', 'seed': 0},
                    'lognormal draws, sigma 1': {
                        'name': 'lognormal',
                        'sigma': 1.0,
                        'seed': 0,
                    },
                    'power law, exponent -3/2': {'name': 'power', 'exponent': 1.5},
                },
            },
            'caption': (
                'N = 500, B = 1, every R, exact. The paper reports a decreasing curve without '
                'numbers. Deviations: its random p_i are not specified; three kinds of weights '
                'stand in for them (uniform draws on (0, 1], exp of standard normal draws, and '
                'the power law of its group experiments), and pi_R is computed from its product '
                'form, not by solving for the stationary vector of the chain.'
            ),
            'quick': {'figure': {'num_clients': 100}},
        }
    )
