"""What a fork takes over depends on the seeds of the draws."""

from fedjax_links import experiment
from fedjax_links.experiment.looking import forking
from tests.experiment.looking.test_forking import by_lane, small


def drawn(**changes):
    """Tuned FedAvg on quadratics that every seed draws anew."""
    rates = {'learning_rates': (0.1, 0.2), 'num_rounds': 2, 'num_seeds': 1, 'pattern': 'links'}
    return experiment.build(
        small(
            problem={'name': 'counterexample', 'num_clients': 6, 'dimension': 3},
            client={'local_steps': 1},
            algorithms={'fedavg': {}, 'fedpbc': {}},
            tuning=rates,
            num_rounds=4,
            **changes,
        )
    )


def test_the_same_ways_may_be_said_otherwise_and_links_go_on_where_they_were(tmp_path):
    drawn().run(tmp_path / 'silent')
    said = drawn(redraw={'data': 'by_seed'})
    forking.run(said, tmp_path / 'fork', fork_from=tmp_path / 'silent', at_round=2)
    assert by_lane(tmp_path / 'fork') == by_lane(tmp_path / 'silent', after=2)
