"""Where FedPBC is ahead of FedAvg and by how much, by theory alone: thousands of points.

  python -m fedjax_links figure --config=configs/predicted_map.py --workdir=runs/predicted_map

Twenty seconds on one busy CPU core, a few with --quick. With --config.figure.folder=runs/map
--config.height=110 it takes points and seeds from the folder of a run of configs/map.py. Below the
predicted differences it then draws the simulated ones and the remainder. studies/map.md says more.
"""

from ml_collections import ConfigDict


def get_config() -> ConfigDict:
    """Returns the figure's settings."""
    return ConfigDict(
        {
            'title': 'FedPBC minus FedAvg on Gaussian classes',
            'figure': {
                'name': 'figures.predicted_map:predicted_map',
                'bayes_accuracies': tuple(k / 100 for k in range(50, 99, 2)),
                'sigmas': tuple(k / 2 for k in range(21)),
                'alphas': (0.05, 0.1, 1.0),
                'num_draws': 20,
                'first_seed': 0,
                'num_clients': 100,
                'examples_per_client': 200,
                'num_classes': 10,
                'minimum': 0.02,
                'folder': '',
                'best_over': (),
                'tail': 0.4,
            },
            'caption': (
                'Ten Gaussian classes at equal distances, softmax regression, 100 clients of 200 '
                'examples with Dirichlet(alpha) labels, uplinks max(0.02, <r, nu_i>), r lognormal '
                'of the given sigma. Limits of small steps and many rounds over the population: '
                "FedAvg at its exact implicit weights, the mean of FedPBC's client models at equal "
                'ones. Points of accuracy, mean over the draws. With a simulated map: levels at '
                'the end of its rounds, each algorithm at its rate; hatched where a 95 % interval '
                'over draws includes zero.'
            ),
            'width': 120,
            'height': 42,
            'quick': {
                'figure': {
                    'bayes_accuracies': (0.5, 0.6, 0.7, 0.8, 0.9, 0.98),
                    'sigmas': (0.0, 0.5, 1.0, 2.0, 5.0, 10.0),
                    'num_draws': 3,
                }
            },
        }
    )
