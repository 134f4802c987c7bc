"""Tuning at the points of a grid."""

import numpy as np

from fedjax_links import experiment


def test_every_point_of_problem_and_links_is_tuned_for_itself():
    probs = {'name': 'label_dependent', 'sigma': 1.0, 'minimum': 0.1, 'seed': 0}
    run = experiment.build(
        {
            'title': 'Tuned by point',
            'problem': {'name': 'gaussians', 'num_clients': 4, 'examples_per_client': 9},
            'links': {'name': 'bernoulli', 'probs': probs},
            'client': {'local_steps': 1, 'batch_size': 4},
            'algorithms': {'fedavg': {}},
            'grid': {
                'problem': {'bayes_accuracy': [0.3, 0.9]},
                'links': {'probs': {'sigma': [0.0, 5.0]}},
            },
            'tuning': {
                'learning_rates': (0.1, 0.6, 1.5),
                'pattern': 'links',
                'num_rounds': 2,
                'num_seeds': 2,
            },
            'metric': 'train_loss',
            'num_rounds': 4,
            'eval_every': 2,
        }
    ).run()
    rows, names = run.columns, ('problem.bayes_accuracy', 'links.probs.sigma')
    points = list(zip(*(rows[name].tolist() for name in names), strict=True))
    scores = {}
    for place in np.flatnonzero((rows['stage'] == 'tuning') & (rows['round'] == 2)):
        key = points[place], rows['client.learning_rate'][place]
        scores.setdefault(key, []).append(rows['server/train_loss'][place])
    assert len(scores) == 4 * 3
    assert {len(values) for values in scores.values()} == {2}
    best = set()
    for place in np.flatnonzero(rows['stage'] == 'main'):
        own = {rate: np.mean(v) for (point, rate), v in scores.items() if point == points[place]}
        assert rows['client.learning_rate'][place] == min(own, key=own.get)
        best.add(rows['client.learning_rate'][place])
    assert len(best) > 1
