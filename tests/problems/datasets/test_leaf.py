"""LEAF's JSON as a data set by name."""

import json

import numpy as np
import pytest

import fedjax_links as fl
from fedjax_links import experiment, problems
from fedjax_links.problems import datasets
from fedjax_links.problems.datasets import characters
from tests.problems.datasets.sources import owned


def write(path, users):
    """A file of LEAF's, of ``{user: (x, y)}``."""
    data = {user: {'x': x, 'y': y} for user, (x, y) in users.items()}
    counts = [len(y) for _, y in users.values()]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({'users': [*users], 'num_samples': counts, 'user_data': data}))


def test_femnist_of_leaf_is_images(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (5, 784))
    shares = (pixels / 255).round(6).tolist()  # as LEAF writes them
    write(tmp_path / 'train' / 'a.json', {'f1': (shares[:2], [61, 3]), 'f0': (shares[2:3], [5])})
    write(tmp_path / 'train' / 'b.json', {'f2': (shares[3:4], [7])})
    write(tmp_path / 'test' / 'a.json', {'f0': (shares[4:], [1])})
    data = datasets.from_leaf(tmp_path / 'train', test=tmp_path / 'test', encode='pixels')
    assert data.train_features.dtype == np.uint8
    np.testing.assert_array_equal(data.train_features.reshape(4, 784), pixels[:4])
    assert data.train_features.shape[1:] == (28, 28, 1)
    assert data.train_labels.tolist() == [61, 3, 5, 7]
    assert [data.client_names[k] for k in data.train_clients] == ['f1', 'f1', 'f0', 'f2']
    assert [data.client_names[k] for k in data.test_clients] == ['f0']
    plain = datasets.from_leaf(tmp_path / 'train')
    np.testing.assert_allclose(plain.train_features, pixels[:4] / 255, atol=1e-6)


def test_shakespeare_of_leaf_from_a_config(tmp_path):
    path = tmp_path / 'given'
    texts, after, names = owned.write_shakespeare(path, characters=4, examples=6)
    users = {}
    for text, character, name in zip(texts, after, names, strict=True):
        x, y = users.setdefault(name, ([], []))
        x.append(text)
        y.append(character)
    write(tmp_path / 'train' / 'all.json', users)
    options = {'path': str(tmp_path / 'train'), 'encode': 'characters'}
    config = {
        'title': 'leaf',
        'problem': {
            'name': 'text',
            'dataset': 'leaf',
            'data': options,
            'model': {'name': 'gru', 'hidden': 4},
            'holdout_clients': 1,
        },
        'links': {'name': 'bernoulli', 'probs': 0.5},
        'client': {'learning_rate': 0.1, 'local_steps': 1},
        'algorithms': {'fedavg': {}},
        'num_rounds': 2,
        'eval_every': 2,
        'num_seeds': 1,
    }
    assert 'problem  3 clients' in experiment.build(config).describe()
    whole = fl.problems.text(dataset='leaf', data=options, model={'name': 'gru', 'hidden': 4})
    order = np.argsort(names, kind='stable')
    np.testing.assert_array_equal(
        whole.data.features, characters.encode([texts[place] for place in order])
    )
    expected = [characters.VOCABULARY.index(after[place]) for place in order]
    assert whole.data.labels.tolist() == expected


def test_mistakes_cost_one_line(tmp_path):
    write(tmp_path / 'a.json', {'u': ([[0.5] * 5], [0])})
    with pytest.raises(ValueError, match="`encode` has no 'pixel'; did you mean 'pixels'"):
        datasets.from_leaf(tmp_path, encode='pixel')
    with pytest.raises(ValueError, match=r'`encode` must be another for what is no square of num'):
        datasets.from_leaf(tmp_path, encode='pixels')
    settings = {'dataset': 'leaf', 'data': {'path': str(tmp_path / 'none')}, 'model': 'softmax'}
    with pytest.raises(ValueError, match=r"^`data.path` must name JSON of LEAF's form"):
        problems.images(**settings, partition='natural')
