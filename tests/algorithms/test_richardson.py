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
        def at_factor(factor):
            return algorithms.ALGORITHMS[name](at_rate(program, factor))

        return algorithms.richardson(at_factor)(1.0)

    return make


def server_path(name, setting):
    """The server model after each round, by the listing's loop."""
    if name == 'fedpbc':
        path, _ = quadratic_loops.fedpbc(setting)
        return path
    return quadratic_loops.fedavg(setting)


@pytest.mark.parametrize('name', ['fedavg', 'fedpbc'])
def test_it_is_two_runs_on_the_same_links(x64, name):
    setting = quadratic_loops.gentle_setting()._replace(server_lr=1.0)
    doubled = setting._replace(rate=lambda t: 2 * setting.rate(t))
    expected = 2 * server_path(name, setting) - server_path(name, doubled)
    path, result = harness.run(setting, extrapolated(name))
    np.testing.assert_allclose(path, expected, rtol=0, atol=1e-12)
    num_rounds, num_clients = setting.mask.shape
    num_computing = np.full(num_rounds, num_clients)
    if name == 'fedavg':
        num_computing = setting.mask.sum(axis=1)
    np.testing.assert_array_equal(result.rounds.num_computing, num_computing)


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
