"""What a report predicts of clients and algorithms."""

from fedjax_links.report import client_stats
from tests.report import plans

GAUSSIANS = {'name': 'gaussians', 'num_clients': 6, 'examples_per_client': 30}


def predicted_labels(algorithms):
    """Labels of a config's algorithms whose end a report predicts."""
    built = plans.planned(
        {
            'links': plans.KNOWN['bernoulli'],
            'problem': GAUSSIANS,
            'algorithms': algorithms,
        }
    )
    pattern = next(iter(built.patterns))
    return list(client_stats.predictions_of(built, pattern))


def test_a_label_alone_does_not_make_an_algorithm_fedavg():
    assert predicted_labels({'fedavg': {}, 'mifa': {}}) == ['fedavg']
    algorithms = {'fedavg': {'name': 'fedavg_all'}, 'fedpbc': {}}
    assert predicted_labels(algorithms) == ['fedpbc']
