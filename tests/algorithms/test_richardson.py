"""Extrapolation over the local rate: two runs of an algorithm, and the promises of any."""

import functools

import numpy as np
import pytest

from fedjax_links import algorithms, testing
from tests.reference import harness, quadratic_loops
from tests.tiers import cases


def at_rate(program, factor):
    """A client program at its rate times a factor."""
    return program._replace(run=functools.partial(program.run, lr_scale=factor))


def extrapolated(name):
    """``program -> algorithm``, at the program's own rate and at twice that."""

    def make(program):
        return algorithms.richardson(
            lambda learning_rate: algorithms.ALGORITHMS[name](
                at_rate(program, learning_rate)
            )
        )(1.0)

    return make


@pytest.mark.parametrize('name', ['fedavg', 'fedpbc'])
def test_it_is_two_runs_on_the_same_links(x64, name):
    setting = quadratic_loops.gentle_setting()._replace(server_lr=1.0)
    loop = getattr(quadratic_loops, name)
    twice = setting._replace(rate=lambda t: 2 * setting.rate(t))
    once = np.asarray(loop(setting)[0] if name == 'fedpbc' else loop(setting))
    double = np.asarray(loop(twice)[0] if name == 'fedpbc' else loop(twice))
    algorithm = extrapolated(name)(harness.client_program(setting))
    path, result = harness.run(setting, algorithm)
    np.testing.assert_allclose(path, 2 * once - double, rtol=0, atol=1e-12)
    computing = setting.mask.sum(axis=1) if name == 'fedavg' else len(setting.targets)
    np.testing.assert_array_equal(
        result.rounds.num_computing, computing * np.ones(80, int)
    )


@pytest.mark.slow
def test_it_keeps_the_promises_of_an_algorithm():
    testing.check_algorithm(extrapolated('fedavg'), full_participation_is_fedavg=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    'name', cases(['fedpbc', 'mifa'], [], 'test_it_keeps_the_promises_of_an_algorithm')
)
def test_it_keeps_them_around_algorithms_with_tables(name):
    testing.check_algorithm(
        extrapolated(name),
        full_participation_is_fedavg=False,
        empty_round_keeps_server=name == 'fedpbc',
    )
