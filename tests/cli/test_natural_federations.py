"""Natural federations by name: fetched, trained from a config under a log, tested on strangers."""

import json

import numpy as np
import pytest

from fedjax_links import runs
from tests.cli.command import run
from tests.datasets import owned

TICK = 600
DAY = 144


def write_log(path, num_clients):
    """Everybody is there twice a day, for longer or shorter, at hours of their own."""
    rng = np.random.default_rng(0)
    starts = rng.uniform(0, DAY / 2, num_clients) * TICK
    stays = rng.uniform(0.02, 0.4, num_clients) * DAY * TICK
    rows = [
        f'phone {k},{start + half * DAY * TICK / 2},{start + half * DAY * TICK / 2 + stay / 2}'
        for k, (start, stay) in enumerate(zip(starts, stays, strict=True))
        for half in (0, 1)
    ]
    path.write_text('\n'.join(['client,start,end', *rows]))


def train(folder, problem, client, num_clients, rounds):
    """A run of FedPBC under the log, from a config that names the data alone, without a network."""
    write_log(folder / 'log.csv', num_clients)
    config = {
        'title': 'natural',
        'problem': {
            **problem,
            'holdout_clients': 0.1,
            'data': {'data_dir': str(folder / 'data')},
        },
        'links': {
            'name': 'trace',
            'path': str(folder / 'log.csv'),
            'format': 'csv',
            'tick': TICK,
            'rounds': DAY,
            'match': 'numbers',  # phones of a log stand for writers of the data
        },
        'client': client,
        'algorithms': {'fedpbc': {}},
        'num_rounds': rounds,
        'eval_every': rounds,
        'num_seeds': 1,
        'metric': 'eval_accuracy_p10',
    }
    file = folder / 'config.py'
    file.write_text(f'def get_config():\n    return {config!r}\n')
    done = run('simulate', f'--config={file}', f'--workdir={folder}/run')
    assert done.returncode == 0, done.stderr
    (line,) = map(
        json.loads, (folder / 'run' / 'metrics.jsonl').read_text().splitlines()
    )
    clients = runs.read(folder / 'run').clients
    assert '| p10 |' in (folder / 'run' / 'report.md').read_text()
    return {
        name.removeprefix('client_mean/'): value for name, value in line.items()
    }, clients


def check_clients(line, clients, num_clients, examples):
    """Tenth percentile and mean of the clients' mean model are those of the strangers by name."""
    accuracies = np.squeeze(clients['accuracy'].values)
    assert accuracies.shape == (num_clients,)
    strangers = accuracies[~np.isnan(accuracies)]
    assert len(strangers) == round(num_clients / 10)
    np.testing.assert_allclose(
        strangers * examples, np.rint(strangers * examples), atol=1e-4
    )
    np.testing.assert_allclose(
        line['eval_accuracy_p10'], np.percentile(strangers, 10), rtol=1e-5
    )
    np.testing.assert_allclose(
        line['eval_accuracy_clients'], strangers.mean(), rtol=1e-5
    )
    np.testing.assert_allclose(line['eval_accuracy'], strangers.mean(), rtol=1e-5)


@pytest.mark.slow
def test_femnist_with_writers_held_out(tmp_path):
    pytest.importorskip('datasets')
    pytest.importorskip('pooch')
    owned.write_femnist(tmp_path / 'given', writers=200, examples=10)
    data_flag = f'--data_dir={tmp_path}/data'
    done = run('data', 'fetch', 'femnist', data_flag, f'--mirror={tmp_path}/given')
    assert (done.returncode, done.stderr) == (0, '')
    line, clients = train(
        tmp_path,
        {
            'name': 'images',
            'dataset': 'femnist',
            'partition': 'natural',
            'model': 'softmax',
        },
        {'learning_rate': 0.1, 'local_steps': 5, 'batch_size': 5},
        num_clients=180,
        rounds=60,
    )
    check_clients(line, clients, 200, 10)
    assert line['eval_accuracy_p10'] > 0.5  # of ten classes among 62


@pytest.mark.slow
@pytest.mark.release('test_femnist_with_writers_held_out')
def test_shakespeare_with_speakers_held_out(tmp_path):
    pytest.importorskip('pooch')
    _, after, _ = owned.write_shakespeare(
        tmp_path / 'given', characters=20, examples=50
    )
    data_flag = f'--data_dir={tmp_path}/data'
    done = run('data', 'fetch', 'shakespeare', data_flag, f'--mirror={tmp_path}/given')
    assert (done.returncode, done.stderr) == (0, '')
    line, clients = train(
        tmp_path,
        {
            'name': 'text',
            'dataset': 'shakespeare',
            'model': {'name': 'gru', 'hidden': 32},
        },
        {
            'learning_rate': 0.02,
            'local_steps': 5,
            'batch_size': 10,
            'optimizer': {'name': 'adam'},
        },
        num_clients=18,
        rounds=100,
    )
    check_clients(line, clients, 20, 50)
    most_frequent = max(after.count(character) for character in {*after}) / len(after)
    assert line['eval_accuracy_p10'] > 2 * most_frequent
