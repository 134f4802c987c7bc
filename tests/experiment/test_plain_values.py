"""NumPy's numbers and arrays are numbers and lists, in configs and in Python, also on disk."""

import dataclasses
import json

import jax.numpy as jnp
import numpy as np

from fedjax_links import experiment, runs
from fedjax_links.cli import configs
from tests.experiment.configs import values
from tests.runner import running
from tests.runner.made_in_python import in_python


def test_a_config_may_hold_the_numbers_of_numpy(tmp_path):
    probs = np.linspace(0.25, 1, 8)
    inputs = {
        'num_rounds': np.int64(4),
        'num_seeds': np.int32(1),
        'links': {'name': 'bernoulli', 'probs': probs},
        'algorithms': {'fedavg': {'server_lr': np.float64(0.5)}},
        'client': {'local_steps': jnp.int32(2), 'batch_size': 4},
        'grid': {'client': {'learning_rate': np.array([0.25, 0.5])}},
    }
    plain = {
        'num_rounds': 4,
        'num_seeds': 1,
        'links': {'name': 'bernoulli', 'probs': probs.tolist()},
        'algorithms': {'fedavg': {'server_lr': 0.5}},
        'client': {'local_steps': 2, 'batch_size': 4},
        'grid': {'client': {'learning_rate': [0.25, 0.5]}},
    }
    built = experiment.build(values(**inputs))
    assert built == experiment.build(values(**plain))
    running.start(built, tmp_path)
    config = runs.read_json(tmp_path, runs.CONFIG)
    assert config == json.loads(json.dumps(config)) == built.config
    assert config['links']['probs'] == probs.tolist()


def test_a_file_may_hold_an_array_that_a_flag_replaces_in_part(tmp_path):
    path = tmp_path / 'array.py'
    path.write_text(
        'import numpy as np\n'
        'def get_config():\n'
        "    return {'links': {'probs': np.array([0.25, 0.5])}, 'num_rounds': np.int64(3)}\n"
    )
    result = configs.load(str(path), {'links.probs[1]': '1.0', 'num_rounds': '4'})
    assert result['links'] == {'probs': [0.25, 1.0]}
    assert result['caption'] == (
        'Changed from the config: links.probs = [0.25, 1.0] ([0.25, 0.5]), num_rounds = 4 (3).'
    )


def test_an_experiment_in_python_may_hold_the_numbers_of_numpy(tmp_path):
    rates = np.array([0.25, 0.5], np.float32)
    tuning = experiment.Tuning(
        grid={'learning_rate': rates},
        num_rounds=np.int64(4),
        num_seeds=np.int8(1),
        grow=0,
    )
    inputs = dataclasses.replace(
        in_python(),
        num_rounds=np.int64(4),
        eval_every=np.int16(4),
        seeds=np.arange(2),
        grid={},
        tuning=tuning,
    )
    results = inputs.run(tmp_path)
    again = runs.read(tmp_path)
    assert again.facts == json.loads(json.dumps(results.facts))
    numbers = [again.facts[name] for name in ('num_rounds', 'eval_every', 'seeds')]
    assert numbers == [4, 4, [0, 1]]
    assert again.facts['tuning']['grid'] == {'learning_rate': [0.25, 0.5]}
    tuned = again['stage'] == 'tuning'
    assert set(again['learning_rate'][tuned]) == {0.25, 0.5}
    until = experiment.UntilDecided(
        least=np.int64(2), most=np.int64(3), margin=np.float32(0.5)
    )
    assert json.loads(json.dumps(until.facts()))['margin'] == 0.5
