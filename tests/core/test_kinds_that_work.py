"""What checks let through, and where they say that a value is."""

import types

import jax.numpy as jnp
import numpy as np
import pandas
import pytest
from ml_collections import ConfigDict

import fedjax_links as fl
from fedjax_links import analysis, choices, local_training, mixing, participation, plot
from fedjax_links.analysis import link_chains
from fedjax_links.report import cost_model
from tests import refusals

SWAP = np.array([[False, True], [True, False]])
PROBLEM = fl.problems.quadratic([[0.0], [4.0]])


def test_small_floats_are_numbers():
    probs = [0.5, 0.25, 0.75]
    weights = analysis.fedavg_weights(jnp.asarray(probs, jnp.bfloat16))
    np.testing.assert_array_equal(weights, analysis.fedavg_weights(probs))


def test_a_matrix_of_flags_is_one_of_zeros_and_ones():
    ones = np.ones((2, 2), bool)
    assert analysis.colrel_variance([0.5, 0.3], ones, np.eye(2)) == (
        analysis.colrel_variance([0.5, 0.3], np.ones((2, 2)), np.eye(2))
    )
    chain = link_chains.from_modes(SWAP, [[1, 0], [0, 1]])
    np.testing.assert_array_equal(chain.modes().transition.toarray(), SWAP)


def test_the_modes_of_a_chain_make_it_again():
    modes = link_chains.from_modes([[0.5, 0.5], [0.2, 0.8]], [[1, 0], [0, 1]]).modes()
    assert np.isnan(modes.probs).all()
    again = link_chains.from_modes(
        modes.transition, modes.masks, modes.start, modes.probs
    )
    np.testing.assert_array_equal(again.modes().masks, modes.masks)


@pytest.mark.parametrize('dtype', [int, float])
def test_masks_of_zeros_and_ones_mix(dtype):
    mask = jnp.array([1, 0, 1], dtype)
    np.testing.assert_array_equal(
        mixing.mixing_matrix(mask), mixing.mixing_matrix(mask == 1)
    )


@pytest.mark.parametrize('kind', [dict, ConfigDict])
def test_a_grid_is_any_mapping(kind):
    def make_algorithm(learning_rate):
        return fl.ALGORITHMS['fedavg'](
            local_training.local_sgd(learning_rate, local_steps=1)
        )

    swept = fl.sweep(
        make_algorithm,
        lambda: participation.bernoulli([0.5, 0.5]),
        PROBLEM,
        seeds=[0],
        num_rounds=2,
        eval_fn=lambda params, key, problem: params[0],
        grid=kind({'algorithm': {'learning_rate': [0.1, 0.2]}}),
    )
    assert swept.evals['server'].shape[:2] == (2, 1)


@pytest.mark.parametrize(
    'shown, other',
    [
        ('fedpbc_s2a', 'fedpbc_s2s'),
        ('lr_0.1', 'lr_0.01'),
        ('bernoulli_tv', 'bernoulli_ti'),
    ],
)
def test_names_of_variants_that_are_not_shown_pass(shown, other):
    plot.learning_curves({shown: [0.1, 0.2]}, 'loss', names={other: 'other'})


def test_names_may_have_spaces_of_any_width():
    names = {'fedavg': 'lr\u2009=\u20090.1', 'fedpbc': 'FedPBC\xa0(ours)'}
    plot.learning_curves({name: [0.1, 0.2] for name in names}, 'loss', names=names)


@pytest.mark.parametrize(
    'table, name, options',
    [
        ('PROBS', 'equal', {'value': 0.5}),
        ('PROBS', 'halves', {'first': 0.5, 'second': 0.2}),
        ('PROBS', 'listed', {'values': [0.1, 0.2, 0.3]}),
        ('WEIGHTS', 'power', {'exponent': 1.0}),
        ('GROUPS', 'contiguous', {'num_groups': 1}),
    ],
)
def test_tables_of_configs_take_edges_for_clients(table, name, options):
    """As for `peers` in a config, where there are as many entries as edges."""
    edges = types.SimpleNamespace(num_clients=3, data=None)
    assert len(getattr(choices, table)[name](edges, **options)) == 3


@pytest.mark.parametrize(
    'draw',
    [
        lambda: plot.mixing_matrix([1, 0, 1]),
        lambda: plot.mixing_matrix(7 * np.eye(2)),
        lambda: plot.label_distances([0.1, np.nan, 0.3]),
        lambda: plot.label_distances([np.nan]),
        lambda: plot.peer_graph([[0], [1]], [[0.0], [0.0]]),
        lambda: plot.peer_graph([[1], [0]], [[0.5], [0.5]], rates=0.5),
        lambda: plot.gap_law([[1, 0]] * 3, rates=iter((0.5, 0.5))),
        lambda: plot.heat_map([[0.1, 0.2]], x=('p', iter('ab'))),
        lambda: plot.heat_map([[0.1, 0.2]], texts=np.array([['a', 'b']])),
        lambda: plot.heat_map([[0.1, 0.2]], most=2**40),
        lambda: plot.heat_map([[0.1, 0.2]], least=-3, most=3),
        lambda: plot.heat_map(
            [[0.1, np.nan]], colours=[[[1, 1, 1], [np.nan, np.nan, np.nan]]]
        ),
        lambda: plot.link_map([[1, 0]] * 3, order=range(1)),
        lambda: plot.volumes([0, 0]),
        lambda: plot.participation_loss([0.5, 1.5], {3: [0.1, np.nan]}),
        lambda: plot.participation_loss([1, 2], pandas.DataFrame({'a': [0.1, 0.2]})),
        lambda: plot.metric_bars({'a': [[np.nan]]}, np.array(['one'])),
        lambda: plot.assign_styles(iter(['fedavg'])),
    ],
)
def test_pictures_of_what_is_clear_are_drawn(draw):
    draw()


@pytest.mark.parametrize(
    'name', ['half', 'single', 'double', 'float', '<f4', 'float16']
)
def test_a_dtype_has_all_the_names_of_numpy(name):
    state = choices.OPTIMIZERS['adam'](0.1, mu_dtype=name).init(jnp.zeros(2))
    same = choices.OPTIMIZERS['adam'](0.1, mu_dtype=jnp.dtype(name)).init(jnp.zeros(2))
    assert state[0].mu.dtype == same[0].mu.dtype


def test_on_the_host_integers_have_no_largest():
    speeds = {'step': 2**40, 'uplink': 10**10, 'downlink': 10**10}
    table = cost_model.devices(2, **speeds)
    cost = cost_model.round_costs(
        np.ones((1, 2), bool), cost_model.Traffic(), table, model_bytes=10**10
    )
    np.testing.assert_array_equal(cost.uplink, [0, 2e10])
    np.testing.assert_array_equal(cost.compute, [0, 2 * 2.0**40])
    times = choices.TIMES['devices'](
        PROBLEM, **speeds, local_steps=1, model_bytes=10**10
    )
    np.testing.assert_array_equal(times.fixed, [2.0, 2.0])


def test_what_is_out_of_range_stands_at_its_own_axis():
    pattern = participation.bernoulli([0.5, 0.5])
    with refusals.names('at_rounds', 'got -1 at entry 0'):
        participation.switch([pattern] * 3, [-1, 5])
    with refusals.names('schedule', 'got 2.0 at client 1'):
        participation.bernoulli([0.5, 2.0])
