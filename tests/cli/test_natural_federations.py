"""Natural federations by name: fetched, trained under a log, tested on held-out clients."""

import json

import numpy as np
import pytest

from fedjax_links import runs
from tests.cli.command import run
from tests.datasets import owned

pytestmark = pytest.mark.usefixtures('unrendered')
TICK = 600
DAY = 144


def write_log(path, num_clients):
    """A log in which each client is up twice a day, at its own hours and for its own time."""
    rng = np.random.default_rng(0)
    starts = rng.uniform(0, DAY / 2, num_clients) * TICK
    stays = rng.uniform(0.02, 0.4, num_clients) * DAY * TICK
    rows = ['client,start,end']
    for k in range(num_clients):
        for half in (0, 1):
            start = starts[k] + half * DAY * TICK / 2
            rows.append(f'phone {k},{start},{start + stays[k] / 2}')
    path.write_text('\n'.join(rows))


def train(folder, problem, client, num_clients, rounds):
    """Runs FedPBC under the log, from a config that names the data; returns metrics and clients."""
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
    assert '| p10 |' in (folder / 'run' / 'report.md').read_text()
    metrics = {name.removeprefix('client_mean/'): line[name] for name in line}
    return metrics, runs.read(folder / 'run').clients


def check_clients(line, clients, num_clients, examples):
    """Metrics of the clients' mean model are those of the held-out clients' accuracies."""
    accuracies = np.squeeze(clients['accuracy'].values)
    assert accuracies.shape == (num_clients,)
    held_out = accuracies[~np.isnan(accuracies)]
    assert len(held_out) == round(num_clients / 10)
    num_correct = held_out * examples
    np.testing.assert_allclose(num_correct, np.rint(num_correct), atol=1e-4)
    np.testing.assert_allclose(
        line['eval_accuracy_p10'], np.percentile(held_out, 10), rtol=1e-5
    )
    np.testing.assert_allclose(
        line['eval_accuracy_clients'], held_out.mean(), rtol=1e-5
    )
    np.testing.assert_allclose(line['eval_accuracy'], held_out.mean(), rtol=1e-5)


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
