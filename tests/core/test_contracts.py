"""A caller's own parts: each mistake ends in one line with argument, value and cure."""

import jax
import numpy as np
import pytest

import fedjax_links as fl
from fedjax_links import participation, simulation
from fedjax_links.core import contracts
from tests import refusals
from tests.core.wrong_parts import (
    COINS,
    FEDAVG,
    KEY,
    MISTAKES,
    PROBLEM,
    PROGRAM,
    begin,
    run,
)
from tests.tiers import cases


@pytest.mark.parametrize('mistake', MISTAKES)
def test_a_mistake_costs_one_line(mistake):
    field, words, make = MISTAKES[mistake]
    with refusals.names(field, *words):
        make()


OTHER_LINKS = {
    'masks': COINS,
    'masks by direction': participation.duplex(uplink=COINS, downlink=COINS),
}


@pytest.mark.parametrize('kind', OTHER_LINKS)
@pytest.mark.parametrize('num_devices', cases([None, 1], [None]))
def test_a_state_goes_on_under_links_of_another_kind(kind, num_devices):
    """Given links leave the carry of a pattern alone."""
    state = run(links=participation.markov([0.5, 0.5])).state
    links = simulation.realised_links(KEY, OTHER_LINKS[kind], num_rounds=2)
    mesh = num_devices and fl.devices.mesh(num_devices)
    after = run(links=links, initial_state=state, mesh=mesh).state
    assert int(after.round) == 4
    np.testing.assert_array_equal(after.participation.up, state.participation.up)
    np.testing.assert_array_equal(after.links.mask, links.mask[-1])


@pytest.mark.parametrize(
    ('field', 'algorithm', 'links', 'initial_links'),
    [
        ('initial_state.algorithm', fl.ALGORITHMS['fedpbc'](PROGRAM), COINS, COINS),
        # As many leaves as fit.
        ('initial_state.algorithm', fl.ALGORITHMS['gossip'](PROGRAM), COINS, COINS),
        (
            'initial_state.participation',
            FEDAVG,
            participation.markov([0.5, 0.5]),
            COINS,
        ),
    ],
)
def test_a_state_of_other_parts_is_refused_on_a_mesh(
    field, algorithm, links, initial_links
):
    state = begin(links=initial_links)
    with refusals.names(field):
        run(algorithm, links=links, initial_state=state, mesh=fl.devices.mesh(1))


@pytest.mark.parametrize(
    ('changed', 'message'),
    [
        (
            lambda state, metrics: state,
            r'return \(state, RoundMetrics\) from `round_step`, got a ServerState\.',
        ),
        (lambda state, metrics: (metrics, state), 'the state .* got a RoundMetrics'),
        (lambda state, metrics: (state, {}), 'got a ServerState and a dict'),
        (lambda state, metrics: None, 'got None'),
    ],
)
def test_a_round_that_returns_something_else_is_named(changed, message):
    def round_step(state, ctx, problem):
        return changed(*FEDAVG.round_step(state, ctx, problem))

    with pytest.raises(ValueError, match=f'^`algorithm` must .*{message}'):
        run(FEDAVG._replace(round_step=round_step))


def test_models_without_names_are_refused():
    bare = FEDAVG._replace(models=lambda state: state.server)
    message = r"return models by name, such as \{'server': params\}, got float32\[2\]"
    with pytest.raises(ValueError, match=message):
        run(bare, eval_every=2)


@pytest.mark.parametrize('names', [[], [0], ['client_mean']])
def test_models_without_a_server_are_listed(names):
    other = FEDAVG._replace(models=lambda state: dict.fromkeys(names, state.server))
    with refusals.names('algorithm', 'have a model `server`', f'got {names}.'):
        run(other, eval_every=2)


def test_nothing_of_the_checks_is_left_in_a_program(monkeypatch):
    def program():
        text = jax.jit(
            lambda key: fl.simulate(key, FEDAVG, COINS, PROBLEM, num_rounds=3)
        ).lower(KEY)
        return text.as_text()

    checked = program()
    for name in dir(contracts):
        if name.startswith('check_'):
            monkeypatch.setattr(contracts, name, lambda *args, **options: None)
    assert program() == checked
