"""Rounds as operators on columns, against moves group by group and enumerated clients."""

import numpy as np
import pytest

from fedjax_links import analysis
from fedjax_links.analysis import link_chains
from fedjax_links.analysis.link_chains import (
    fixed_points,
    linear_systems,
    moment_columns,
    moment_maps,
    round_operators,
)
from tests.analysis.linear_algorithms import options_of
from tests.analysis.link_chains import group_moves
from tests.tiers import cases

CHAINS = {
    'one group': link_chains.markov([0.4] * 3, 0.1),
    'two groups and a listed client': link_chains.markov(
        [0.6, 0.6, 0.3, 0.3, 0.8], 0.1
    ),
    'periodic': link_chains.markov([[0.6, 0.6, 0.3, 0.3], [0.2, 0.2, 0.9, 0.9]], 0.1),
    'three states': link_chains.b_min_sep([0.5] * 4, 2),
    'shocks': link_chains.shared_shocks(
        link_chains.markov([0.6] * 4, 0.1), [0, 0, 1, 1], up_rate=0.2, down_rate=0.1
    ),
    'listed': link_chains.markov([0.6, 0.3, 0.8], 0.1),
}
MEMORIES = (
    'area',
    'feddyn',
    'fedpbc',
    'fedstale',
    'fedvarp',
    'mifa',
    'mimic',
    'scaffold',
)


def linear_system(name, chain, targets, rate=0.1):
    return linear_systems.linear_system(
        name,
        chain,
        targets,
        rate,
        2,
        curvature=1.0,
        noise=0.0,
        neighbours=None,
        edge_probs=0.0,
        lump=True,
        options=options_of(name),
        is_centred=True,
    )


def targets_of(chain):
    return np.random.default_rng(0).normal(size=chain.num_clients)


def operators_of(maps):
    """Yields the map of all moments, and the operator of each part of them."""
    yield maps.mean, round_operators.round_operator(maps.mean, maps.mean_part)
    if maps.cross_part.columns.size:
        yield maps.second, round_operators.round_operator(maps.second, maps.cross_part)
    operator = round_operators.round_operator(
        maps.second, maps.second_part, is_symmetric=True
    )
    yield maps.second, operator


def assert_same_moments(result, expected):
    np.testing.assert_allclose(result.products, expected.products, atol=1e-13)
    assert len(result.squares) == len(expected.squares)
    for square, other in zip(result.squares, expected.squares, strict=True):
        np.testing.assert_allclose(square, other, atol=1e-13)


@pytest.mark.parametrize('is_sparse', [True, False])
@pytest.mark.parametrize('chain', CHAINS)
def test_an_operator_moves_columns_as_a_map_moves_moments(
    chain, is_sparse, monkeypatch
):
    """Links move by `group_moves`, which takes clients out of the counts and back again."""
    monkeypatch.setattr(round_operators, '_MIN_SPARSE_SIZE', 0 if is_sparse else np.inf)
    links = CHAINS[chain]
    system = linear_system('scaffold', links, targets_of(links))
    rng = np.random.default_rng(1)
    for moment_map, operator in operators_of(system.maps):
        values = rng.normal(size=(operator.size, 1))
        moments = operator.columns.to_moments(values)
        np.testing.assert_allclose(operator.columns.from_moments(moments), values)
        part_map = moment_map.restricted(operator.part)
        models = part_map.move_models(moments)
        result = operator.columns.to_moments(operator.apply(values))
        assert_same_moments(result, group_moves.move_links(part_map, models))


@pytest.mark.parametrize('chain', CHAINS)
def test_columns_move_links_of_all_moments(chain):
    """Clients have two numbers here, a row and a target offset, and models two coordinates."""
    links = CHAINS[chain]
    targets = np.random.default_rng(0).normal(size=(links.num_clients, 2))
    system = linear_system('scaffold', links, targets)
    law = system.layout.stationary_law()
    _, moments = moment_maps.start_moments(system.maps, system.targets, law)
    columns = moment_columns.moment_columns(system.maps.second, is_symmetric=False)
    for _ in range(3):
        models = system.maps.second.move_models(moments)
        moved = columns.move_links(columns.from_moments(models))
        moments = columns.to_moments(moved)
        expected = group_moves.move_links(system.maps.second, models)
        assert_same_moments(moments, expected)


@pytest.mark.slow
@pytest.mark.parametrize('name', MEMORIES)
@pytest.mark.parametrize('chain', ['two groups and a listed client', 'periodic'])
def test_iterative_limits_are_those_of_enumerated_clients(name, chain, monkeypatch):
    """Counted clients by GMRES and Arnoldi, listed clients by dense matrices."""
    links = CHAINS[chain]
    arguments = links, targets_of(links), 0.1, 2
    # Equal curvatures would give FedPBC a double eigenvalue, which no solver finds exactly.
    options = {'curvature': np.linspace(0.5, 1.0, 3)[links.kind_of_client]}
    options.update(options_of(name))
    listed = analysis.linear_limit(name, *arguments, lump=False, **options)
    monkeypatch.setattr(round_operators, '_MIN_SPARSE_SIZE', 0)
    monkeypatch.setattr(fixed_points, '_DENSE_SYSTEM', 0)
    monkeypatch.setattr(fixed_points, '_DENSE_EIGENVALUES', 0)
    counted = analysis.linear_limit(name, *arguments, lump=True, **options)
    for model, mean in listed.means.items():
        np.testing.assert_allclose(counted.means[model], mean, rtol=0, atol=1e-12)
        np.testing.assert_allclose(
            counted.covariances[model], listed.covariances[model], rtol=0, atol=1e-12
        )
    assert abs(counted.second_moment_rate - listed.second_moment_rate) < 1e-9


@pytest.mark.parametrize('name', cases(MEMORIES, ['scaffold']))
def test_a_curve_of_many_clients_ends_at_its_limit(name):
    """A curve applies rounds one after another, so it does not share the solver."""
    chain = link_chains.markov(np.repeat([0.7, 0.5], 12), 0.5)
    targets = targets_of(chain)
    options = options_of(name)
    arguments = chain, targets, 0.3, 2
    limit = analysis.linear_limit(name, *arguments, **options)
    rounds = int(-25 / np.log(max(limit.rate, limit.second_moment_rate)))
    curve = analysis.linear_curve(name, *arguments, num_rounds=rounds, **options)
    for model, mean in limit.means.items():
        np.testing.assert_allclose(curve.means[model][-1], mean, atol=1e-9)
        covariance = curve.covariances[model][-1]
        np.testing.assert_allclose(covariance, limit.covariances[model], atol=1e-9)


def radius_and_applications(operator, law):
    """The spectral radius, and how often computing it applies the operator."""
    applied = []

    def apply(columns):
        applied.append(1)
        return operator.apply(columns)

    radius = fixed_points.radius(operator._replace(apply=apply), law)
    return radius, len(applied)


@pytest.mark.slow
@pytest.mark.parametrize('name', MEMORIES)
def test_the_stationary_law_saves_applications_of_a_round(name):
    """The rate of the second moment, from the stationary law and from a uniform vector."""
    probs = np.repeat([0.5, 0.3], 50)
    chain = link_chains.markov(probs, 0.05)
    targets = np.random.default_rng(0).normal(size=100) + 10 * probs
    system = linear_system(name, chain, targets, 0.05)
    operator = round_operators.round_operator(
        system.maps.second, system.maps.second_part, is_symmetric=True
    )
    law = system.layout.stationary_law()
    radius, num_applied = radius_and_applications(operator, law)
    uniform = np.full_like(law, 1 / len(law))
    expected, num_from_uniform = radius_and_applications(operator, uniform)
    assert abs(radius - expected) < 1e-9
    assert num_applied < 0.85 * num_from_uniform
    assert num_applied <= 110
