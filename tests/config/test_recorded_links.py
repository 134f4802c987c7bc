"""Links from files: those of an earlier run, and logs of availability."""

import json
import shutil

import numpy as np
import pytest

from fedjax_links import datasets, experiment, participation, runs
from fedjax_links.config import recorded_links, resolver
from fedjax_links.participation import PARTICIPATION
from fedjax_links.preview.links import record_links
from tests import refusals
from tests.experiment.configs import values

MARKOV = {'name': 'markov', 'probs': {'name': 'equal', 'value': 0.5}, 'up_rate': 0.3}
CYCLIC = {'name': 'cyclic', 'probs': {'name': 'equal', 'value': 0.5}, 'cycle_length': 4}
TWO = {'links': None, 'patterns': {'markov': MARKOV, 'cyclic': CYCLIC}}
SQUARES = {'name': 'counterexample', 'num_clients': 8, 'dimension': 2}


def build(**changes):
    return experiment.build(values(**{'problem': SQUARES, **changes}))


def realised(planned, label, seed):
    """The links of all four rounds, as a simulation draws them."""
    return record_links(planned.pattern_at(label, {}), num_rounds=4, seed=seed)


@pytest.fixture(scope='module')
def past(tmp_path_factory):
    """The folder of a run of two patterns that recorded the links of both seeds."""
    folder = tmp_path_factory.mktemp('past') / 'run'
    build(**TWO, log=('links',)).run(folder)
    return folder


def test_probabilities_may_be_unknown_in_a_list_of_patterns():
    """As in a section of their own."""
    mask = [[True] * 8, [False] * 8]
    part = {'name': 'replay', 'mask': mask, 'prob': [[float('nan')] * 8] * 2}
    links = {'name': 'switch', 'patterns': [part, MARKOV], 'at_rounds': [2]}
    for section in (part, links):
        prob = realised(build(links=section), 'links', 0).prob
        assert np.isnan(prob[:2]).all()


@pytest.mark.slow
def test_replayed_links_give_the_same_run_to_the_bit(tmp_path):
    """Masks and probabilities: the algorithm that divides by them sees no difference."""
    known = {'fedavg': {}, 'fedavg_known': {}}
    original_run = build(**TWO, algorithms=known, log=('links',)).run(tmp_path)
    for label, seed in (('markov', 1), ('cyclic', 0)):
        section = {
            'name': 'recorded',
            'folder': str(tmp_path),
            'pattern': label,
            'seed': seed,
        }
        replayed = build(links=section, algorithms=known, num_seeds=1, first_seed=seed)
        original = realised(build(**TWO), label, seed)
        ours = realised(replayed, 'links', seed)
        np.testing.assert_array_equal(ours.mask, original.mask)
        np.testing.assert_array_equal(ours.prob, original.prob)
        results = replayed.run()
        same = (original_run['pattern'] == label) & (original_run['seed'] == seed)
        for name in ('server/loss', 'rounds/num_active'):
            np.testing.assert_array_equal(results[name], original_run[name][same])


def test_masks_repeat_and_unrecorded_probabilities_are_nan(tmp_path):
    build(links=MARKOV).run(tmp_path)
    pattern = recorded_links.recorded(tmp_path, num_clients=8)
    ours = record_links(pattern, num_rounds=8, seed=7)
    mask = realised(build(links=MARKOV), 'links', 0).mask
    np.testing.assert_array_equal(ours.mask, np.concatenate([mask, mask]))
    assert np.isnan(ours.prob).all()
    with pytest.raises(
        ValueError, match=r'`seed` must be one whose links .* holds: 0, got 1\.$'
    ):
        recorded_links.recorded(tmp_path, num_clients=8, seed=1)


@pytest.mark.slow
def test_links_of_a_fork_stand_at_their_rounds(tmp_path):
    planned = build(links=MARKOV, num_rounds=8, eval_every=2)
    planned.run(tmp_path / 'run')
    planned.fork(tmp_path / 'run', 6, tmp_path / 'fork')
    links = [
        record_links(
            recorded_links.recorded(tmp_path / name, num_clients=8),
            num_rounds=8,
            seed=0,
        )
        for name in ('run', 'fork')
    ]
    np.testing.assert_array_equal(links[0].mask[6:], links[1].mask[6:])


def test_a_recorded_pattern_is_one_of_several_and_part_of_others(past):
    section = {'name': 'recorded', 'folder': str(past), 'pattern': 'cyclic'}
    out = {
        'name': 'outage',
        'pattern': section,
        'start': 1,
        'stop': 3,
        'clients': [0, 1],
    }
    planned = build(links=None, patterns={'same': section, 'out': out})
    mask = realised(build(**TWO), 'cyclic', 0).mask
    np.testing.assert_array_equal(realised(planned, 'same', 0).mask, mask)
    down = np.asarray(mask).copy()
    down[1:3, :2] = False
    np.testing.assert_array_equal(realised(planned, 'out', 0).mask, down)


@pytest.mark.parametrize(
    'section, message',
    [
        (
            {'folder': 'nowhere'},
            r'^`config\.links\.folder` must hold a run \(experiment\.json\), got nowhere\.$',
        ),
        ({}, r'^`config\.links\.folder` must be given, got None\.$'),
        ({'folder': 3}, r'^`config\.links\.folder` must be .*, got 3\.$'),
        (
            {'folder': 'PAST'},
            r'^`config\.links\.pattern` must be one of the patterns of .*: markov, cyclic, got',
        ),
        (
            {'folder': 'PAST', 'pattern': 'markof'},
            r"has no 'markof'; did you mean 'markov'\?$",
        ),
        ({'folder': 'PAST', 'pattern': 'markov', 'seed': 5}, r'holds: 0, 1, got 5\.$'),
        (
            {'folder': 'PAST', 'patern': 'markov'},
            r"has no 'patern'; did you mean 'pattern'\?$",
        ),
        (
            {'folder': 'FEWER', 'pattern': 'markov'},
            r'hold links of 9 clients, got .* with 8\.$',
        ),
        (
            {'folder': 'CUT'},
            r'must hold readable links \(links\.npz\), got .*CUT/links\.npz, which',
        ),
        ({'folder': 'NONE'}, r'must hold realised links \(links\.npz\), got .*NONE\.$'),
    ],
)
def test_a_recording_that_cannot_be_played_costs_one_line(
    tmp_path, past, section, message
):
    for name in ('CUT', 'NONE'):
        (tmp_path / name).mkdir()
        shutil.copy(past / runs.EXPERIMENT, tmp_path / name)
    (tmp_path / 'CUT' / runs.LINKS).write_bytes((past / runs.LINKS).read_bytes()[:-30])
    named = {
        'PAST': past,
        'FEWER': past,
        'CUT': tmp_path / 'CUT',
        'NONE': tmp_path / 'NONE',
    }
    folder = section.get('folder')
    changed = {**section, 'folder': str(named[folder])} if folder in named else section
    problem = {**SQUARES, 'num_clients': 9 if folder == 'FEWER' else 8}
    with refusals.one_line(message):
        build(links={'name': 'recorded', **changed}, problem=problem)


CSV = 'client,start,end\n' + ''.join(f'{i},{i},{i + 3}\n' for i in range(8))


@pytest.mark.parametrize(
    'text, options',
    [
        (CSV, {}),
        (CSV, {'format': 'csv'}),
        (CSV, {'format': {'name': 'csv', 'unit': 'min', 'clients': 8}, 'tick': 60}),
    ],
)
def test_a_trace_is_read_in_every_format(tmp_path, text, options):
    """Client i is up in rounds i to i + 2."""
    (tmp_path / 'log.csv').write_text(text)
    section = {'name': 'trace', 'path': str(tmp_path / 'log.csv'), 'tick': 1, **options}
    pattern = build(links=section).pattern_at('links', {})
    mask = record_links(pattern, num_rounds=10, seed=0).mask
    rounds = np.arange(10)[:, None] - np.arange(8)
    np.testing.assert_array_equal(mask, (rounds >= 0) & (rounds < 3))


def test_a_synthetic_trace_has_the_problems_clients(tmp_path):
    phones = {
        name: {'trace_start': 0, 'trace_end': 172_800, 'ready_time': [[3600, end]]}
        for name, end in (('a', 40_000), ('b', 20_000), ('c', 90_000))
    }
    (tmp_path / 'timers.json').write_text(json.dumps(phones))
    section = {'path': str(tmp_path / 'timers.json'), 'format': 'flash', 'tick': 3600}
    pattern = build(links={'name': 'synthetic_trace', **section}).pattern_at(
        'links', {}
    )
    assert (pattern.num_clients, pattern.cycle) == (8, 24)
    with pytest.raises(
        ValueError,
        match=r"the problem's clients, `num_clients` = 8 .*, got .* with 3\.$",
    ):
        build(links={'name': 'trace', **section})
    section['format'] = {'name': 'flash', 'clients': 9}
    with pytest.raises(ValueError, match='`clients` must be at most 3, got 9'):
        build(links={'name': 'synthetic_trace', **section})


def test_a_name_of_an_earlier_version_still_works(tmp_path):
    (tmp_path / 'log.csv').write_text('client,start,end\na,0,40000\nb,3600,90000\n')
    section = {'path': str(tmp_path / 'log.csv'), 'tick': 3600.0, 'rounds': 24}
    masks = [
        record_links(
            build(links={'name': name, **section}).pattern_at('links', {}),
            num_rounds=48,
            seed=0,
        ).mask
        for name in ('look_alike', 'synthetic_trace')
    ]
    np.testing.assert_array_equal(*masks)
    assert participation.look_alike is participation.synthetic_trace
    assert PARTICIPATION['look_alike'] is PARTICIPATION['synthetic_trace']
    assert 'look_alike' not in PARTICIPATION


def test_relative_paths_are_beside_the_config_or_in_the_folder(tmp_path, monkeypatch):
    config_folder = tmp_path / 'beside'
    here = tmp_path / 'here'
    for folder in (config_folder, here):
        folder.mkdir()
        (folder / 'log.csv').write_text(CSV)
    (here / 'other.csv').write_text(CSV)
    monkeypatch.chdir(here)
    assert recorded_links.locate('path', 'log.csv').resolve() == here / 'log.csv'
    with resolver.importable(config_folder):
        assert recorded_links.locate('path', 'log.csv') == config_folder / 'log.csv'
        assert (
            recorded_links.locate('path', 'other.csv').resolve() == here / 'other.csv'
        )
        assert recorded_links.locate('path', str(here / 'log.csv')) == here / 'log.csv'
        monkeypatch.setenv('HOME', str(here))
        assert recorded_links.locate('path', '~/log.csv') == here / 'log.csv'
        build(links={'name': 'trace', 'path': 'other.csv', 'tick': 1})


def test_tables_and_data_are_beside_the_config(tmp_path):
    text = 'step\n' + '0.5\n' * 8
    (tmp_path / 'devices.csv').write_text(text)
    rows = np.arange(32, dtype=np.uint8).reshape(16, 2)
    labels = np.tile([0, 1], 8)
    owners = np.repeat(np.arange(8), 2)
    data = datasets.Dataset(rows, labels, owners, num_classes=2)
    datasets.save_npz(data, tmp_path / 'mine.npz')
    step = {'name': 'table', 'path': 'devices.csv', 'column': 'step'}
    times = {'name': 'devices', 'step': step, 'local_steps': 2}
    times |= {'uplink': 1e6, 'downlink': 1e6}
    problem = {
        'name': 'images',
        'dataset': 'npz',
        'data': {'path': 'mine.npz'},
        'partition': 'natural',
        'model': 'softmax',
    }
    changes = {
        'problem': problem,
        'links': {'name': 'quorum', 'times': times, 'quorum': 3},
    }
    with resolver.importable(tmp_path):
        planned = build(**changes)
        assert planned.problem_at('links', {}).num_clients == 8
    with pytest.raises(ValueError, match=r'mine\.npz'):
        build(**changes)


@pytest.mark.parametrize(
    'text, options, message',
    [
        (
            None,
            {},
            r'links\.path` must name a readable log, got .*log\.csv: No such file or dir',
        ),
        (
            b'\xff\xfe\x00',
            {},
            r'must name a readable log, got .*log\.csv, which is no text in utf-8',
        ),
        (b'client,start\n', {}, r"log\.csv: must have a column 'end' on line 1"),
        (
            b'client,start,end\n0,1,2\n',
            {},
            r"the problem's clients, `num_clients` = 8 \(.* who never came; .*, got .* with 1\.$",
        ),
        (
            CSV.encode(),
            {'format': 'csw'},
            r"links\.format` has no 'csw'; did you mean 'csv'\?$",
        ),
        (
            CSV.encode(),
            {'format': {'name': 'csv', 'unitt': 's'}},
            r"did you mean 'unit'\?$",
        ),
        (
            CSV.encode(),
            {'tik': 3},
            r"`config\.links` has no 'tik'; did you mean 'tick'\?$",
        ),
    ],
)
def test_a_log_that_cannot_be_read_costs_one_line(tmp_path, text, options, message):
    path = tmp_path / 'log.csv'
    if text is not None:
        path.write_bytes(text)
    with refusals.one_line(message):
        build(links={'name': 'trace', 'path': str(path), 'tick': 1, **options})


def test_a_config_says_how_long_a_round_of_a_log_is(tmp_path):
    path = tmp_path / 'log.csv'
    path.write_text(CSV)
    with refusals.one_line(r'^`config\.links\.tick` must be given, got None\.$'):
        build(links={'name': 'trace', 'path': str(path)})
    with refusals.one_line(r"`config\.links` has no 'tik'; did you mean 'tick'\?$"):
        build(links={'name': 'trace', 'path': str(path), 'tik': 3})


def rounds_of_a_second(intervals, tick=1.0):
    return participation.trace(intervals, tick=tick)


def test_a_factory_of_the_users_keeps_its_default_tick(tmp_path):
    path = tmp_path / 'log.csv'
    path.write_text(CSV)
    name = f'{__name__}:rounds_of_a_second'
    masks = []
    for options in ({}, {'tick': 1.0}):
        planned = build(links={'name': name, 'path': str(path), **options})
        pattern = planned.pattern_at('links', {})
        links = record_links(pattern, num_rounds=30, seed=0)
        masks.append(links.mask)
    np.testing.assert_array_equal(*masks)
