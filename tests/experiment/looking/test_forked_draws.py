"""What a fork takes over depends on the seeds of the draws."""

from fedjax_links import experiment
from fedjax_links.experiment.looking import forking
from fedjax_links.experiment.plan import lanes
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


def test_tuning_on_other_draws_is_repeated_and_the_same_ways_may_be_said_otherwise(tmp_path):
    fixed = {'init': 'fixed'}
    for name, redraw in (('silent', None), ('fixed', fixed)):
        drawn(redraw=redraw).run(tmp_path / name)

    def known(name, **changes):
        planned = drawn(**changes)
        origin = forking.origin(planned, tmp_path / name, 2)
        return bool(origin.tuning_lines(lanes.tuning_lanes(planned, 'fedavg')))

    said = {'data': 'by_seed'}
    assert known('silent')
    assert known('silent', redraw=said)
    assert not known('silent', redraw={'data': 'fixed'})
    assert not known('silent', redraw=fixed)
    assert known('silent', first_seed=1, num_seeds=1)
    assert known('fixed', redraw=fixed)
    assert not known('fixed', redraw=fixed, first_seed=1, num_seeds=1)
    # Links go on where they were, too.
    forking.run(drawn(redraw=said), tmp_path / 'fork', fork_from=tmp_path / 'silent', at_round=2)
    assert by_lane(tmp_path / 'fork') == by_lane(tmp_path / 'silent', after=2)
