"""Callbacks by name, and none of them can damage a folder."""

import dataclasses
import sys
import types

import pytest

import fedjax_links as fl
from fedjax_links import runs
from fedjax_links.experiment import Callback, Stop
from tests.docs import pages
from tests.runner.made_in_python import in_python
from tests.tiers import cases

SEEN = []


def mine(folder):
    """A callback of the user's own."""
    SEEN.append(folder)
    return Callback()


def raises(method):
    """A callback that fails."""

    def fail(*arguments):
        raise RuntimeError(method)

    return type('Raises', (Callback,), {method: fail})()


def no_callback(folder):
    return folder


def small(**changes):
    return in_python(**{'num_rounds': 8, 'seeds': (0,), **changes})


def test_the_documented_callback_sends_every_lane(tmp_path, monkeypatch):
    page = (pages.DOCS / 'runs.md').read_text()
    sent = []

    class Run:
        def __init__(self, **options):
            sent.append(options)

        def log(self, values, step):
            sent.append((values['server/loss'], step))

        def finish(self):
            sent.append('finish')

    monkeypatch.setitem(sys.modules, 'wandb', types.SimpleNamespace(init=Run))
    shown = {}
    exec(pages.code(page, 'python')[0], shown)
    wandb = shown['Wandb'](tmp_path)
    built = small(grid={}, algorithms=only_fedavg())
    losses = built.run(tmp_path, [wandb])['server/loss'].tolist()
    assert sent[0]['name'] == 'fedavg, some, seed 0'
    assert sent[1:] == [
        (pytest.approx(losses[0]), 4),
        (pytest.approx(losses[1]), 8),
        'finish',
    ]
    first = sent[0]
    sent.clear()
    built.run(tmp_path, [shown['Wandb'](tmp_path)])
    assert sent == []
    longer = dataclasses.replace(built, num_rounds=12)
    longer.run(tmp_path, [shown['Wandb'](tmp_path)])
    # The same run of wandb resumes.
    assert (sent[0]['id'], sent[0]['resume']) == (
        first['id'],
        'allow',
    )
    assert [step for _, step in sent[1:-1]] == [12]
    sent.clear()
    built.run(tmp_path / 'other', [shown['Wandb'](tmp_path / 'other')])
    assert sent[0]['id'] != first['id']
    sent.clear()
    built.run(None, [shown['Wandb'](None)])
    assert sent[0]['id'] is None


def only_fedavg():
    client = fl.local_training.local_sgd(0.1, local_steps=2)
    return {'fedavg': fl.ALGORITHMS['fedavg'](client)}


def test_a_user_s_callback_is_named_by_its_factory(tmp_path):
    SEEN.clear()
    small(log=(f'{__name__}:mine', 'links')).run(tmp_path)
    assert [tmp_path] == SEEN
    with pytest.raises(ValueError, match=r'`log` must name what returns a Callback \('):
        small(log=(f'{__name__}:no_callback',)).run(tmp_path / 'other')
    for name, nearest in (('link', 'links'), (f'{__name__}:min', 'mine')):
        with pytest.raises(ValueError, match=f'did you mean {nearest!r}'):
            small(log=(name,))


@pytest.mark.parametrize(
    'method', cases(['on_start', 'on_stage', 'on_period', 'on_end'], ['on_period'])
)
def test_a_callback_that_raises_leaves_a_folder_that_resumes(tmp_path, method):
    built = small(grid={}, algorithms=only_fedavg())
    built.run(tmp_path / 'whole')
    with pytest.raises(RuntimeError, match=method):
        built.run(tmp_path / 'broken', [raises(method)])
    built.run(tmp_path / 'broken')
    for name in (runs.METRICS, runs.EXPERIMENT):
        assert (tmp_path / 'broken' / name).read_bytes() == (
            tmp_path / 'whole' / name
        ).read_bytes()


@pytest.mark.parametrize('position', [0, 1])
def test_all_callbacks_receive_the_record_at_a_stop(position):
    received = []

    class Receive(Callback):
        def on_period(self, lane, record):
            received.append(record['round'])

    class End(Callback):
        def on_period(self, lane, record):
            raise Stop

    callbacks = [Receive()]
    callbacks.insert(position, End())
    with pytest.raises(Stop):
        small(num_rounds=4, grid={}, algorithms=only_fedavg()).run(callbacks=callbacks)
    assert received == [4]


def test_a_callback_cannot_change_what_others_receive():
    received = []

    class Change(Callback):
        def on_period(self, lane, record):
            record.clear()

    class Receive(Callback):
        def on_period(self, lane, record):
            received.append(record['round'])

    built = small(num_rounds=4, grid={}, algorithms=only_fedavg())
    results = built.run(callbacks=[Change(), Receive()])
    assert received == results['round'].tolist() == [4]


def test_what_is_logged_may_change_between_runs_of_a_folder(tmp_path):
    built = small(grid={}, algorithms=only_fedavg())
    built.run(tmp_path)
    assert not any(name.startswith('prob/') for name in runs.read_links(tmp_path))
    dataclasses.replace(built, log=('links',)).run(tmp_path)
    assert any(name.startswith('prob/') for name in runs.read_links(tmp_path))
    assert runs.read(tmp_path).facts['log'] == ['links']
