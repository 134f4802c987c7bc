"""Costs of rounds: by hand, against a NumPy loop, and against the counts of the algorithms."""

import re

import jax
import numpy as np
import pytest

from fedjax_links import local_training, participation, problems, simulation
from fedjax_links.algorithms import ALGORITHMS
from fedjax_links.config import registries
from fedjax_links.report import cost_model
from tests import ROOT
from tests.tiers import cases

MASK = np.array([[1, 0, 1], [0, 0, 0], [0, 1, 0]], bool)
TABLE = cost_model.devices(
    3, step=[1.0, 2.0, 3.0], uplink=[10.0, 20.0, 5.0], downlink=100.0
)


def test_a_model_both_ways_by_hand():
    costs = cost_model.round_costs(
        MASK, cost_model.Traffic(), TABLE, model_bytes=100, local_steps=2
    )
    # 100 bytes down in 1 s; 2, 4 and 6 s of steps; up in 10, 5 and 20 s.
    np.testing.assert_allclose(costs.seconds, [0, 27, 27, 37])
    np.testing.assert_allclose(costs.uplink, [0, 200, 200, 300])
    np.testing.assert_allclose(costs.downlink, [0, 200, 200, 300])
    np.testing.assert_allclose(costs.compute, [0, 8, 8, 12])


def test_two_models_and_training_without_uploads_by_hand():
    two_models = cost_model.TRAFFIC['scaffold']
    costs = cost_model.round_costs(
        MASK, two_models, TABLE, model_bytes=100, local_steps=2, overhead=0.5
    )
    # 2 + 6 + 40, then 2 + 4 + 10.
    np.testing.assert_allclose(costs.seconds, [0, 48.5, 49, 65.5])
    np.testing.assert_allclose(costs.uplink, [0, 400, 400, 600])
    everyone = cost_model.round_costs(
        MASK, cost_model.TRAFFIC['fedpbc'], TABLE, model_bytes=100, local_steps=2
    )
    np.testing.assert_allclose(everyone.compute, [0, 12, 24, 36])
    np.testing.assert_allclose(everyone.seconds, [0, 27, 27, 37])
    paused = cost_model.round_costs(
        MASK,
        cost_model.TRAFFIC['fedpbc'],
        TABLE,
        model_bytes=100,
        local_steps=2,
        options={'compute': 'active'},
    )
    np.testing.assert_allclose(paused.compute, [0, 8, 8, 12])


def test_arrivals_are_not_waited_for():
    costs = cost_model.round_costs(
        MASK, cost_model.TRAFFIC['fedbuff'], TABLE, model_bytes=100, local_steps=9
    )
    np.testing.assert_allclose(costs.seconds, [0, 21, 21, 27])


def test_costs_equal_a_loop():
    rng = np.random.default_rng(0)
    mask = rng.random((50, 12)) < 0.2
    step, uplink, downlink = rng.lognormal(size=(3, 12))
    steps = rng.integers(1, 9, 12)
    table = cost_model.devices(12, step=step, uplink=uplink, downlink=downlink)
    traffic = cost_model.Traffic(up=2, down=3, everyone=True)
    result = cost_model.round_costs(
        mask, traffic, table, model_bytes=7.0, local_steps=steps, overhead=0.25
    )
    seconds = up = down = compute = 0.0
    for t, row in enumerate(mask):
        last = 0.0
        for i in range(12):
            compute += steps[i] * step[i]
            if row[i]:
                took = 21 / downlink[i] + steps[i] * step[i] + 14 / uplink[i]
                last = max(last, took)
                up = up + 14
                down = down + 21
        seconds += last + 0.25
        ours = [getattr(result, name)[t + 1] for name in result._fields]
        np.testing.assert_allclose(ours, [seconds, up, down, compute, 0], rtol=1e-12)


def test_every_registered_algorithm_has_its_traffic():
    assert cost_model.TRAFFIC.keys() == ALGORITHMS.keys()


def test_two_models_go_where_a_control_goes_with_the_model():
    # SCAFFOLD sends (Delta_i, change of c_i), the amplified form (Delta_i, mean gradient), and
    # both receive (x, c). Every other algorithm needs one model each way, gossip none.
    two = {
        name
        for name, traffic in cost_model.TRAFFIC.items()
        if (traffic.up, traffic.down) == (2, 2)
    }
    assert two == {'scaffold', 'amplified_scaffold'}
    one = {
        name
        for name, traffic in cost_model.TRAFFIC.items()
        if (traffic.up, traffic.down) == (1, 1)
    }
    assert one | two == set(cost_model.TRAFFIC) - {'gossip'}
    to_peers = {name for name, traffic in cost_model.TRAFFIC.items() if traffic.peers}
    assert to_peers == {'cogc', 'colrel', 'gossip', 's2a', 's2s'}


def rows_of_the_page():
    """The table of what algorithms send and compute, as cells of text."""
    _, table = (ROOT / 'docs' / 'cost.md').read_text().split('| up / down |')
    lines = table.split('\n\n')[0].splitlines()
    return [[cell.strip() for cell in line.strip('|').split('|')] for line in lines[2:]]


def check_row(row, traffic):
    """Compares a row of the page with what an algorithm sends and computes."""
    both_ways, over_edges, senders, trains, _ = row
    assert both_ways == f'{traffic.up} / {traffic.down}'
    assert over_edges == f'{traffic.peers}'
    usual = 'active clients' if traffic.up else 'nobody'
    assert (senders == usual) == (traffic.senders is None)
    assert traffic.everyone in (None, trains == 'all clients')


def test_the_page_has_what_every_algorithm_sends_and_computes():
    *rows, row_of_others = rows_of_the_page()
    named = set()
    for row in rows:
        names = set(re.findall(r'`(\w+)`', row[-1]))
        assert names
        assert not names & named
        named |= names
        for name in names:
            check_row(row, cost_model.TRAFFIC[name])
    chooses = {
        name for name, traffic in cost_model.TRAFFIC.items() if traffic.everyone is None
    }
    assert chooses <= named
    for name in cost_model.TRAFFIC.keys() - (named - chooses):
        check_row(row_of_others, cost_model.TRAFFIC[name])


def example(name, **changes):
    """The example of a registered algorithm with changed options, and all of these."""
    entry = ALGORITHMS[name]
    program = entry.client_program or local_training.local_sgd
    client = program(0.05, local_steps=2, **entry.client_example)
    options = {**entry.example, **changes}
    return entry(client, **options), options


SPECIAL = [
    ('f3ast', {'budget': 2, 'beta': 0.3}),
    ('fedpbc', {}),
    ('wait_for_all', {'start_round': 4}),
    ('s2s', {'server_every': 3}),
]
# FedPBC is among the cases above. CoGC reports all clients as active, or none.
OTHERS = ALGORITHMS.keys() - {'fedpbc', 'cogc'}
PLAIN = [('fedavg', {'compute': 'all'}), ('fedpbc', {'compute': 'active'})]


@pytest.mark.parametrize(
    'name, options',
    cases([*SPECIAL, *PLAIN, *((name, {}) for name in sorted(OTHERS))], SPECIAL),
)
def test_senders_and_training_clients_are_those_of_the_algorithm(name, options):
    """Compared with the counts that the algorithm reports of every round."""
    mask = np.random.default_rng(1).random((17, 5)) < 0.5
    mask[6] = False
    problem = problems.quadratic(np.eye(5))
    algorithm, options = example(name, **options)
    pattern = participation.replay(mask, np.full(mask.shape, 0.5))
    rounds = jax.jit(
        lambda key: (
            simulation.simulate(key, algorithm, pattern, problem, num_rounds=17).rounds
        )
    )(jax.random.key(0))
    table = cost_model.devices(5, step=1.0, uplink=1.0, downlink=1.0)
    traffic = cost_model.TRAFFIC[name]
    result = cost_model.round_costs(
        mask, traffic, table, model_bytes=1.0, options=options
    )
    np.testing.assert_array_equal(
        np.diff(result.uplink), traffic.up * rounds.num_active
    )
    np.testing.assert_array_equal(np.diff(result.compute), rounds.num_computing)


def test_senders_of_f3ast_are_those_that_it_selects():
    """Compared by the rates, a moving average of the selections."""
    mask = np.random.default_rng(2).random((40, 6)) < 0.6
    algorithm, options = example('f3ast', budget=2, beta=0.1)
    problem = problems.quadratic(np.eye(6))
    state = simulation.simulate(
        jax.random.key(0), algorithm, participation.replay(mask), problem, num_rounds=40
    ).state
    senders = cost_model.TRAFFIC['f3ast'].senders(mask, options)
    rate = np.ones(6)
    for row in senders:
        rate = 0.9 * rate + 0.1 * row
    np.testing.assert_allclose(state.algorithm.rate, rate, rtol=1e-5)


def test_speeds_from_a_law_and_from_a_table(tmp_path):
    samples = registries.lognormal(100_000, median=3.0, sigma=0.5, seed=1)
    # Standard error of the median 0.2 %.
    assert np.median(samples) == pytest.approx(3, rel=0.01)
    assert np.log(samples).std() == pytest.approx(0.5, rel=0.01)
    assert (registries.lognormal(4, median=3.0, sigma=0.0) == 3).all()
    path = tmp_path / 'devices.csv'
    path.write_text('name,up\na,1\nb,2.5\n')
    assert registries.from_table(2, path=str(path), column='up').tolist() == [1.0, 2.5]
    ragged = tmp_path / 'ragged.csv'
    ragged.write_text('name,up\na,1\nb,2,5\n')
    for change, message in (
        (
            {'num_clients': 3},
            f'`path` must name a table of 3 clients, got {path} with 2.',
        ),
        ({'column': 'upp'}, "`column` has no 'upp'; did you mean 'up'?"),
        (
            {'column': 'name'},
            f'`path` must name a readable table, got {path}: could not convert',
        ),
        ({'path': str(tmp_path / 'no')}, 'no: No such file or directory.'),
        ({'path': str(ragged)}, 'Expected 2 fields in line 3, saw 3.'),
    ):
        options = {'num_clients': 2, 'path': str(path), 'column': 'up', **change}
        with pytest.raises(ValueError, match=re.escape(message)):
            registries.from_table(options.pop('num_clients'), **options)


@pytest.mark.parametrize(
    'change, message',
    [
        (
            {'mask': MASK.astype(int)},
            r'`mask` must be bool\[T, N\], got int64\[3, 3\].',
        ),
        ({'mask': MASK[:, :2]}, '`table` must have 2 clients, got 3.'),
        ({'model_bytes': 0}, '`model_bytes` must be positive, got 0.'),
        ({'overhead': -1.0}, r'`overhead` must lie in \[0, 1e\+300\], got -1.0.'),
        (
            {'local_steps': [1, 2]},
            r'`local_steps` must be a number or have 3 entries, got shape',
        ),
    ],
)
def test_a_mistake_is_named(change, message):
    options = {'mask': MASK, 'model_bytes': 1.0, **change}
    with pytest.raises(ValueError, match=message):
        cost_model.round_costs(
            options.pop('mask'), cost_model.Traffic(), TABLE, **options
        )


@pytest.mark.parametrize(
    'change, message',
    [
        ({'uplink': 0.0}, '`uplink` must be positive, got 0.0.'),
        ({'step': -1.0}, '`step` must lie in '),
        ({'downlink': [1.0, 2.0]}, '`downlink` must be a number or have 3 entries'),
    ],
)
def test_speeds_out_of_range_are_named(change, message):
    with pytest.raises(ValueError, match=message):
        cost_model.devices(3, **{'step': 1.0, 'uplink': 1.0, 'downlink': 1.0, **change})


@pytest.mark.parametrize(
    'links, has_directions',
    [
        ({'links': {'name': 'bernoulli', 'probs': 0.5}}, False),
        ({'links': {'name': 'unavailable', 'pattern': 'always'}}, True),
        ({'links': {'name': 'replay', 'mask': [[1, 0]]}}, False),
        ({'links': {'name': 'replay', 'mask': [[1, 0]], 'compute': [[1, 1]]}}, True),
        ({'links': {'name': 'quorum', 'times': {'step': 1.0, 'downlink': 9.0}}}, False),
        (
            {
                'patterns': {
                    'plain': 'always',
                    'capped': {'name': 'cap', 'pattern': {'name': 'duplex'}, 'size': 2},
                }
            },
            True,
        ),
    ],
)
def test_costs_say_what_they_leave_out_of_directions(links, has_directions):
    assert bool(cost_model.directions_text(links)) == has_directions
