"""Run folders: exact resume, and no run overwritten by another."""

import json

import jax
import numpy as np
import pytest

from fedjax_links import algorithms, local_training, participation, problems, runs, simulation

CONFIG = {'num_rounds': 40, 'nested': {'rate': 0.1}}


def program(compute='all', seeds=(0, 3), batching=None):
    targets = np.random.default_rng(0).normal(size=(6, 3))
    problem = problems.quadratic(targets)
    algorithm = algorithms.fedpbc(local_training.local_sgd(0.1, local_steps=2), compute=compute)
    built = runs.build_program(
        algorithm,
        participation.bernoulli(np.linspace(0.2, 0.9, 6)),
        problem,
        seeds=seeds,
        eval_every=4,
        batching=batching,
    )
    return algorithm, problem, built


def train(folder, label, *, on_chunk=lambda done: None, compute='all'):
    _, problem, built = program(compute)
    folder.train(label, built, problem, num_rounds=40, on_chunk=on_chunk)


def test_metrics_hold_what_simulate_returns_for_every_seed(tmp_path):
    folder = runs.RunFolder(tmp_path, CONFIG)
    train(folder, 'fedpbc')
    lines = folder.metrics()
    assert [line['round'] for line in lines] == list(range(4, 41, 4))
    algorithm, problem, _ = program()
    for column, seed in enumerate((0, 3)):
        alone = jax.jit(
            lambda key, problem: simulation.simulate(
                key,
                algorithm,
                participation.bernoulli(np.linspace(0.2, 0.9, 6)),
                problem,
                num_rounds=40,
                eval_every=4,
            )
        )(jax.random.key(seed), problem)
        for model in ('server', 'client_mean'):
            np.testing.assert_array_equal(
                np.float32([line['evals'][model]['distance'][column] for line in lines]),
                alone.evals[model]['distance'],
            )
        np.testing.assert_array_equal(
            [line['sums']['num_active'][column] for line in lines],
            np.asarray(alone.rounds.num_active).reshape(10, 4).sum(axis=1),
        )


@pytest.mark.parametrize('crash_after', [4, 24, 36])
@pytest.mark.parametrize('checkpoint_seconds', [0.0, 1e9])
def test_an_interrupted_run_ends_byte_for_byte_like_an_unbroken_one(
    tmp_path, monkeypatch, crash_after, checkpoint_seconds
):
    monkeypatch.setattr(runs, '_CHECKPOINT_SECONDS', checkpoint_seconds)
    unbroken = runs.RunFolder(tmp_path / 'unbroken', CONFIG)
    train(unbroken, 'first')
    train(unbroken, 'second', compute='active')

    class PowerCutError(Exception):
        pass

    def crash(done):
        if done == crash_after:
            raise PowerCutError

    train(runs.RunFolder(tmp_path / 'cut', CONFIG), 'first')
    with pytest.raises(PowerCutError):
        train(runs.RunFolder(tmp_path / 'cut', CONFIG), 'second', on_chunk=crash, compute='active')
    with (tmp_path / 'cut' / runs.METRICS).open('a') as metrics:
        metrics.write('{"algorithm": "second", "rou')  # torn in the middle of a line

    starts = {}
    for label, compute in (('first', 'all'), ('second', 'active')):
        progress = []
        train(
            runs.RunFolder(tmp_path / 'cut', CONFIG),
            label,
            on_chunk=progress.append,
            compute=compute,
        )
        starts[label] = progress[0]
    assert starts == {'first': 40, 'second': crash_after if checkpoint_seconds == 0 else 0}
    resumed = (tmp_path / 'cut' / runs.METRICS).read_bytes()
    assert resumed == (tmp_path / 'unbroken' / runs.METRICS).read_bytes()


def test_a_folder_with_another_config_is_refused_and_left_alone(tmp_path):
    runs.RunFolder(tmp_path, CONFIG)
    other = {'num_rounds': 40, 'nested': {'rate': 0.2}}
    with pytest.raises(ValueError, match=r'config\.nested\.rate is 0\.1 and not 0\.2\.$'):
        runs.RunFolder(tmp_path, other)
    assert json.loads((tmp_path / runs.CONFIG).read_text()) == CONFIG


def test_fields_that_change_no_result_may_differ_and_are_kept(tmp_path):
    config = {'num_rounds': 40, 'rates': (0.1, 0.2), 'title': 'before'}
    runs.RunFolder(tmp_path, config)
    changed = {**config, 'title': 'after', 'caption': 'new'}
    with pytest.raises(ValueError, match=r"where config\.caption is None and not 'new'"):
        runs.RunFolder(tmp_path, changed)
    runs.RunFolder(tmp_path, changed, may_differ=('title', 'caption'))
    as_run = json.loads((tmp_path / runs.CONFIG).read_text())
    assert as_run == {'num_rounds': 40, 'rates': [0.1, 0.2], 'title': 'after', 'caption': 'new'}
    for other, message in (
        ({'num_rounds': 80}, 'where config.num_rounds is 40 and not 80'),
        ({'rates': (0.1, 0.3)}, r'where config.rates is \[0.1, 0.2\] and not \[0.1, 0.3\]'),
    ):
        with pytest.raises(ValueError, match=message):
            runs.RunFolder(tmp_path, {**changed, **other}, may_differ=('title', 'caption'))
    assert json.loads((tmp_path / runs.CONFIG).read_text()) == as_run


def test_a_half_written_line_is_no_metric(tmp_path):
    assert runs.read_metrics(tmp_path) == []
    (tmp_path / runs.METRICS).write_text('{"round": 1}\n{"round": 2}\n{"rou')
    assert runs.read_metrics(tmp_path) == [{'round': 1}, {'round': 2}]
    (tmp_path / runs.METRICS).write_text('{"round": 1}\n{"round": 2}')
    assert runs.read_metrics(tmp_path) == [{'round': 1}]


def test_a_diverged_value_is_null_in_the_metrics(tmp_path):
    targets = np.full((2, 1), 1e30)
    problem = problems.quadratic(targets)
    built = runs.build_program(
        algorithms.fedavg(local_training.local_sgd(3.0, local_steps=50)),
        participation.always(2),
        problem,
        seeds=[0],
        eval_every=5,
    )
    folder = runs.RunFolder(tmp_path, CONFIG)
    folder.train('fedavg', built, problem, num_rounds=5)
    (line,) = folder.metrics()
    assert line['finite'] == [False]
    assert line['evals']['server']['distance'] == [None]
    assert 'NaN' not in (tmp_path / runs.METRICS).read_text()


def test_the_program_says_what_it_needs():
    _, _, built = program()
    per_seed = 4 * (3 + 6 * 3) + 4 + 4 + 1 + 2 * 4 * 6 + 6 + 4 * 6
    assert built.state_bytes == 2 * per_seed
    assert built.peak_bytes is None or built.peak_bytes >= built.state_bytes
