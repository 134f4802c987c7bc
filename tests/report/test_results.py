"""Run folders as results: order, divergence, what is missing, and folders that hold nothing."""

import json

import numpy as np
import pytest

from fedjax_links import comparison, experiment, runs
from fedjax_links.report import results

RUN = {
    'title': 'A run',
    'problem': {'name': 'images', 'dataset': 'nowhere_to_be_found'},
    'links': {'name': 'bernoulli'},
    'client': {'learning_rate': 0.1},
    'algorithms': {'fedpbc': {}, 'fedavg': {}},
    'num_rounds': 4,
    'eval_every': 2,
    'num_seeds': 2,
}


def line(label, round, accuracy):
    evals = {'eval_accuracy': accuracy, 'train_loss': [1.0, 2.0]}
    models = ('server', 'client_mean') if label == 'fedpbc' else ('server',)
    return json.dumps({'algorithm': label, 'round': round, 'evals': dict.fromkeys(models, evals)})


WHOLE = [line('fedavg', 2, [0.1, 0.2]), line('fedavg', 4, [0.3, None])]


def write_run(folder, *lines, config=RUN, end='\n'):
    (folder / runs.CONFIG).write_text(json.dumps(config))
    (folder / runs.METRICS).write_text('\n'.join(lines) + end)


def config(**changes):
    """A comparison's config; its problem is never built."""
    base = {
        'title': 'A comparison',
        'problem': {'name': 'images', 'dataset': 'nowhere_to_be_found'},
        'patterns': {'first': {}, 'second': {}},
        'client': {},
        'algorithms': {'fedavg': {}, 'mifa': {}, 'fedau': {}},
        'baseline': 'fedavg',
        'metric': 'eval_accuracy',
        'num_rounds': 4,
        'eval_every': 4,
        'num_seeds': 1,
    }
    return {**base, **changes}


def outcome(**accuracies):
    """One seed and one evaluation per pattern; patterns in the order given."""
    values = np.reshape(list(accuracies.values()), (-1, 1, 1))
    return comparison.Outcome(
        patterns=tuple(accuracies),
        learning_rates=np.arange(1.0, 1 + len(accuracies)),
        server_lr=np.nan,
        tuning={},
        rounds=np.array([4]),
        evals={'client_mean': {'eval_accuracy': values}, 'server': {'eval_accuracy': values}},
    )


def parsed(**changes):
    return experiment.parse_as(comparison.ComparisonConfig, config(**changes))


def test_a_run_is_read_without_its_data(tmp_path):
    write_run(tmp_path, *WHOLE, line('fedpbc', 2, [0.5, 0.6]))
    found, reports = results.read(tmp_path)
    assert reports == {}
    assert (found.title, found.metric, found.baseline) == ('A run', 'eval_accuracy', 'fedavg')
    assert found.missing == ['fedpbc']
    np.testing.assert_array_equal(found.rounds, [2, 4])
    np.testing.assert_array_equal(
        found.curves['fedavg']['server']['eval_accuracy'], [[[0.1, 0.3], [0.2, np.nan]]]
    )
    assert found.num_seeds == 2
    assert found.metrics == ['eval_accuracy', 'train_loss']


def test_a_line_that_was_being_written_is_ignored(tmp_path):
    half = line('fedpbc', 4, [0.7, 0.8])
    both = [*WHOLE, line('fedpbc', 2, [0.5, 0.6])]
    write_run(tmp_path, *both, half[: len(half) // 2], end='')
    assert results.read(tmp_path)[0].missing == ['fedpbc']
    write_run(tmp_path, *both, half)
    found = results.read(tmp_path)[0]
    assert found.missing == []
    assert found.main_model('fedpbc') == 'client_mean'
    assert found.main_model('fedavg') == 'server'


def test_patterns_and_algorithms_come_in_the_order_of_their_names():
    """Names may change between two algorithms of one folder; their rows stay with their labels."""
    names = (('second', 'B'), ('mifa', 'MIFA'), ('first', 'A'))
    outcomes = {
        'fedavg': outcome(first=0.1, second=0.2),
        'mifa': outcome(second=0.4, first=0.3),
    }
    found = results.from_comparison(parsed(names=names), outcomes)
    assert list(found.patterns) == ['second', 'first']
    assert list(found.curves) == ['mifa', 'fedavg']
    assert found.missing == ['fedau']
    ends = {
        label: models['server']['eval_accuracy'].ravel() for label, models in found.curves.items()
    }
    assert {label: end.tolist() for label, end in ends.items()} == {
        'mifa': [0.4, 0.3],
        'fedavg': [0.2, 0.1],
    }
    assert found.learning_rates['fedavg'].tolist() == [2, 1]
    assert found.learning_rates['mifa'].tolist() == [1, 2]
    assert list(found.curves['mifa']) == ['server', 'client_mean']
    assert found.name('second') == 'B'
    assert found.name('fedavg') == 'fedavg'


def test_what_is_not_finite_diverged():
    found = results.from_comparison(parsed(), {'fedavg': outcome(first=np.inf, second=0.2)})
    np.testing.assert_array_equal(
        found.curves['fedavg']['server']['eval_accuracy'].ravel(), [np.nan, 0.2]
    )


def test_an_unfinished_comparison_is_read_without_its_data(tmp_path):
    reports = {'levels': {'name': 'levels'}}
    (tmp_path / runs.CONFIG).write_text(json.dumps(config(reports=reports)))
    with pytest.raises(ValueError, match='`workdir` must hold at least one finished algorithm'):
        results.read(tmp_path)
    comparison.save(tmp_path / 'mifa.npz', outcome(first=0.1, second=0.2))
    found, sections = results.read(tmp_path)
    assert found.missing == ['fedau', 'fedavg']
    assert sections == reports
    assert results.recorded_masks(tmp_path) == {}


def test_recorded_masks_of_a_run_and_of_a_comparison(tmp_path, rng):
    masks = {label: rng.random((5, 11)) < 0.5 for label in ('first', 'second')}
    packed = {f'mask/{label}': np.packbits(mask, axis=-1) for label, mask in masks.items()}
    np.savez(tmp_path / results.LINKS, num_clients=11, **packed)
    found = results.recorded_masks(tmp_path)
    assert found.keys() == masks.keys()
    for label, mask in masks.items():
        np.testing.assert_array_equal(found[label], mask)
    np.savez(tmp_path / results.LINKS, mask=masks['first'], prob=np.ones((5, 11)))
    (mask,) = results.recorded_masks(tmp_path).values()
    np.testing.assert_array_equal(mask, masks['first'])


def test_a_folder_without_a_run_costs_one_line(tmp_path):
    with pytest.raises(ValueError, match=r'`workdir` must hold a run \(config\.json\), got '):
        results.read(tmp_path)
    write_run(tmp_path, end='')
    with pytest.raises(ValueError, match='`workdir` must hold at least one finished algorithm'):
        results.read(tmp_path)
    write_run(tmp_path, config={'figure': {}})
    with pytest.raises(ValueError, match="`config` has no 'figure'"):
        results.read(tmp_path)
