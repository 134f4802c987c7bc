"""A log and data that both name their clients meet by name, whatever their order."""

import jax
import numpy as np
import pytest
from flax import linen as nn

from fedjax_links import (
    ALGORITHMS,
    datasets,
    experiment,
    local_training,
    participation,
    problems,
    simulation,
)
from fedjax_links.core import errors
from fedjax_links.links import graphs
from fedjax_links.participation.traces import trace_formats
from fedjax_links.preview.links import record_links
from fedjax_links.problems import adapters

NAMES = ('zoe', 'ann', 'kim', 'bob', 'eve', 'dan')
UP = {'zoe': 10, 'ann': 1, 'kim': 2, 'bob': 3, 'eve': 4, 'dan': 5}
"""Rounds of ten in which each is up, by hand."""
EXAMPLES = {'ann': 3, 'bob': 4, 'dan': 5, 'eve': 6, 'kim': 7, 'zoe': 8}
CLIENT = local_training.local_sgd(0.1, local_steps=1)


def write_log(folder, names=NAMES, name='log.csv'):
    """A log in which each is up from round 0 on, in this order."""
    lines = [f'{client},0,{UP.get(client, 10)}' for client in names]
    path = folder / name
    path.write_text('\n'.join(['client,start,end', *lines, '']))
    return path


def write_data(folder, names=EXAMPLES):
    """Data with owners, of whom each has another number of examples."""
    owners = np.repeat(list(names), [EXAMPLES.get(name, 2) for name in names])
    features = np.random.default_rng(0).normal(size=(len(owners), 2)).astype(np.float32)
    labels = np.arange(len(owners)) % 2
    data = datasets.Dataset(features, labels, owners)
    datasets.save_npz(data, folder / 'data.npz')
    return data


def config(folder, log, **changes):
    """An experiment on these data under this log."""
    problem = {
        'name': 'images',
        'dataset': 'npz',
        'data': {'path': str(folder / 'data.npz')},
        'partition': 'natural',
        'model': 'softmax',
        **changes.pop('problem', {}),
    }
    return {
        'title': 'By name',
        'problem': problem,
        'links': {
            'name': 'trace',
            'path': str(log),
            'tick': 1,
            **changes.pop('links', {}),
        },
        'client': {'learning_rate': 0.1, 'local_steps': 1},
        'algorithms': {'fedavg': {}},
        'num_rounds': 10,
        'eval_every': 10,
        **changes,
    }


def rounds_up(planned, seed=None):
    """Each client's number of active rounds, by its number of examples, which identifies it."""
    point = planned.plan.points[0]
    problem = planned.problem_at('links', point, seed)
    pattern = planned.pattern_at('links', point, seed)
    links = record_links(pattern, num_rounds=10, seed=0)
    return dict(
        zip(
            np.asarray(problem.counts).tolist(),
            links.mask.sum(axis=0).tolist(),
            strict=True,
        )
    )


EXPECTED = {EXAMPLES[name]: UP[name] for name in EXAMPLES}


@pytest.mark.parametrize('order', [NAMES, tuple(sorted(NAMES))])
def test_a_log_finds_its_clients_in_any_order(tmp_path, order):
    write_data(tmp_path)
    planned = experiment.build(config(tmp_path, write_log(tmp_path, order)))
    assert rounds_up(planned) == EXPECTED
    assert 'by number' not in planned.describe()


def test_clients_held_out_keep_their_rows_out(tmp_path):
    """Each seed holds out other clients; those who train keep their rows of the log."""
    write_data(tmp_path)
    changes = {'problem': {'holdout_clients': 2}, 'num_seeds': 2}
    planned = experiment.build(config(tmp_path, write_log(tmp_path), **changes))
    results = [rounds_up(planned, seed) for seed in range(2)]
    assert results[0].keys() != results[1].keys()
    for counts in results:
        assert counts == {count: EXPECTED[count] for count in counts}
        assert len(counts) == 4
    names = [planned.problem_at('links', {}, seed).client_names for seed in range(2)]
    for seed_names, counts in zip(names, results, strict=True):
        assert [EXAMPLES[name] for name in seed_names] == list(counts)


def test_other_names_are_refused_with_the_first_that_miss(tmp_path):
    write_data(tmp_path)
    log = write_log(tmp_path, ('zoe', 'ann', 'kim', 'bob', 'eve', 'other'))
    with pytest.raises(
        errors.InvalidError, match="none of 'dan', and 'other', whom the data"
    ):
        experiment.build(config(tmp_path, log))
    log = write_log(tmp_path, tuple(f'dev-{k}' for k in range(6)))
    with pytest.raises(
        errors.InvalidError, match="none of 'ann', 'bob', 'dan' and 3 more"
    ) as result:
        experiment.build(config(tmp_path, log))
    assert result.value.path == 'config.links.path'
    planned = experiment.build(config(tmp_path, log, links={'match': 'numbers'}))
    assert rounds_up(planned) == dict.fromkeys(EXAMPLES.values(), 10)
    assert 'are the clients of the data by number, not by name' in planned.describe()
    with pytest.raises(errors.InvalidError, match=r'`config\.links\.match`'):
        experiment.build(config(tmp_path, log, links={'match': 'name'}))


def test_data_without_names_meet_a_log_by_number_and_say_so(tmp_path):
    write_data(tmp_path)
    changes = {'problem': {'partition': 'iid', 'num_clients': 6}}
    planned = experiment.build(config(tmp_path, write_log(tmp_path), **changes))
    assert planned.problem_at('links', {}).client_names == ()
    assert (
        'those recorded for links are the clients of the data by number'
        in planned.describe()
    )


def in_python(order=NAMES):
    """A log, and a problem of the same clients."""
    result = adapters.from_columns(np.zeros((6, 1)), [0, 1] * 3, sorted(NAMES))
    client = np.arange(6)
    log = participation.intervals(client, np.zeros(6), [UP[name] for name in order])
    log = log._replace(names=tuple(order), has_names=True)
    make = {'module': nn.Dense(2), 'client_names': result.names}
    return log, problems.from_flax(*result[:3], **make)


def test_python_meets_by_name_too():
    log, problem = in_python()
    mask = participation.availability(
        log, tick=1, rounds=10, clients=problem.client_names
    )
    assert dict(zip(problem.client_names, mask.sum(axis=0).tolist(), strict=True)) == UP
    pattern = participation.trace(log, tick=1, clients=problem.client_names)
    assert pattern.client_names == problem.client_names
    links = record_links(pattern, num_rounds=10, seed=0)
    np.testing.assert_array_equal(links.mask, mask)


def test_python_refuses_another_order_and_others():
    log, problem = in_python()
    algorithm = ALGORITHMS['fedavg'](CLIENT)
    for pattern in (
        participation.trace(log, tick=1),
        participation.both(participation.always(6), participation.trace(log, tick=1)),
        participation.cap(participation.trace(log, tick=1), 2),
        participation.shared_shocks(
            participation.trace(log, tick=1), [0] * 6, up_rate=0.5, down_rate=0.5
        ),
        participation.peers(participation.trace(log, tick=1), graphs.ring(6), prob=0.5),
        participation.by_group([0] * 6, [participation.trace(log, tick=1)]),
    ):
        with pytest.raises(errors.InvalidError, match="'zoe' in the place of 'ann'"):
            simulation.simulate(
                jax.random.key(0), algorithm, pattern, problem, num_rounds=1
            )
        with pytest.raises(
            errors.InvalidError, match=r'`patterns\.log` must have the data'
        ):
            experiment.Experiment(
                title='Log',
                problem=problem,
                patterns={'log': pattern},
                algorithms={'fedavg': algorithm},
                num_rounds=1,
                eval_every=1,
            ).describe()
    with pytest.raises(errors.InvalidError, match="none of 'ada'"):
        participation.trace(log, tick=1, clients=('ada', *NAMES[1:]))
    numbered = participation.trace(log.numbered(), tick=1)
    assert numbered.client_names == ()
    jax.eval_shape(
        lambda key: simulation.simulate(
            key, algorithm, numbered, problem, num_rounds=1
        ),
        jax.random.key(0),
    )


def test_groups_keep_the_names_of_their_recordings():
    log, _ = in_python()
    first = participation.trace(log, tick=1)
    second = participation.trace(log._replace(names=tuple('uvwxyz')), tick=1)
    pattern = participation.by_group([1, 0] * 6, [first, second])
    assert pattern.client_names[1::2] == tuple(NAMES)
    assert pattern.client_names[::2] == tuple('uvwxyz')
    numbered = participation.by_group([1, 0] * 6, [first, participation.always(6)])
    assert numbered.client_names == ()
    unrecorded = participation.by_group([0, 1], [participation.always(1)] * 2)
    assert unrecorded.client_names is None


def test_names_change_no_program():
    traced = []

    @jax.jit
    def measure(problem):
        traced.append(1)
        return problem.data.features.sum()

    _, problem = in_python()
    for names in (problem.client_names, NAMES[::-1], ()):
        result = adapters.from_columns(np.zeros((6, 1)), [0, 1] * 3, sorted(NAMES))
        other = problems.from_flax(
            *result[:3], module=nn.Dense(2), client_names=names or None
        )
        assert other.client_names == tuple(names)
        measure(other)
    assert len(traced) == 1


def test_readers_name_clients_unless_these_are_numbers(tmp_path):
    log = write_log(tmp_path, ('1', '0'))
    assert trace_formats.from_csv(log).has_names
    assert not trace_formats.from_csv(log, clients=2).has_names
    assert not participation.intervals([0], [0.0], [1.0]).has_names
