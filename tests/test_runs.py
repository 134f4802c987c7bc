"""Run folders: what they hold, and what they refuse."""

import contextlib
import json
import shutil
import subprocess
import sys

import jax
import numpy as np
import pytest

from fedjax_links import runs
from fedjax_links.core import errors
from fedjax_links.runner import stores
from fedjax_links.storage import atomic_files, checksummed_npz
from tests.runner.identities import OneIdentity
from tests.runner.made_in_python import in_python
from tests.storage.flips import flip_bit

FACTS = {
    'title': 'before',
    'caption': '',
    'names': [],
    'reports': {},
    'num_rounds': 40,
    'eval_every': 1,
    'seeds': [0, 1, 2],
    'grid': {},
    'grid_mode': 'cross',
    'algorithms': ['fedavg'],
    'patterns': ['some'],
    'baseline': 'fedavg',
    'tuning': None,
    'metric': 'loss',
    'directions': {'loss': 'min'},
    'models': {'fedavg': ['server']},
}
A, B, C, D = (f'main-fedavg-0000-some-{seed}' for seed in range(4))
"""Names of lanes, as `about` describes them."""


def opened(folder, **changes):
    return stores.RunFolder(
        folder, facts={**FACTS, **changes}, identities=OneIdentity()
    )


def test_fields_that_change_no_result_may_differ_and_are_kept(tmp_path):
    opened(tmp_path).close()
    opened(tmp_path, title='after').close()
    assert json.loads((tmp_path / runs.EXPERIMENT).read_text())['title'] == 'after'
    with pytest.raises(ValueError, match=r'where config\.eval_every is 1 and not 8\.$'):
        opened(tmp_path, eval_every=8)
    with pytest.raises(
        ValueError, match=r'^`num_rounds` must be at least 40, the rounds of .*20'
    ):
        opened(tmp_path, num_rounds=20)
    assert json.loads((tmp_path / runs.EXPERIMENT).read_text())['num_rounds'] == 40
    opened(tmp_path, num_rounds=80).close()
    assert json.loads((tmp_path / runs.EXPERIMENT).read_text())['num_rounds'] == 80


@pytest.mark.parametrize(
    'name, value, there, here',
    [
        ('jax_default_prng_impl', 'rbg', "'threefry2x32'", "'rbg'"),
        ('jax_threefry_partitionable', False, 'True', 'False'),
        ('jax_random_seed_offset', 1, '0', '1'),
        ('jax_default_matmul_precision', 'highest', 'None', "'highest'"),
        ('jax_enable_x64', True, 'False', 'True'),
    ],
)
def test_a_run_resumes_under_its_draws_and_rounding(tmp_path, name, value, there, here):
    planned = in_python()
    stores.RunFolder(
        tmp_path, facts=planned.plan.facts(), identities=OneIdentity()
    ).close()
    before = getattr(jax.config, name)
    jax.config.update(name, value)
    try:
        facts = planned.plan.facts()
    finally:
        jax.config.update(name, before)
    with pytest.raises(
        ValueError, match=rf'where config\.numerics\.{name} is {there} and not {here}'
    ):
        stores.RunFolder(tmp_path, facts=facts, identities=OneIdentity())
    stores.RunFolder(
        tmp_path, facts=planned.plan.facts(), identities=OneIdentity()
    ).close()


def about(*lanes, num_rounds=6):
    """Descriptions of lanes of one algorithm, by name, as a store registers them."""
    labels = {'stage': 'main', 'algorithm': 'fedavg', 'pattern': 'some'}
    return {
        lane: {
            'labels': {**labels, 'seed': index},
            'position': (0, index),
            'num_rounds': num_rounds,
        }
        for index, lane in enumerate(lanes)
    }


def advance(folder, lane, *rounds, value=None):
    """Adds a line for each round, and saves after it."""
    for round in rounds:
        folder.append(lane, [{'round': round, 'server/loss': 0.5}])
        folder.save(lane, None if value is None else value(round), round)


def lines_of(folder):
    """Lane and round of each line of metrics, in the order of the file."""
    rows = map(json.loads, (folder / runs.METRICS).read_text().splitlines())
    return [f'{"abcd"[row["seed"]]}{row["round"]}' for row in rows]


def test_metrics_are_the_lines_of_lanes_in_order(tmp_path):
    """The file grows with the first lane that is not done, and has all lanes at the end."""
    folder = opened(tmp_path)
    folder.register_lanes(about(A, B, C))
    advance(folder, B, 1, 6)
    assert lines_of(tmp_path) == []
    advance(folder, A, 1)
    assert lines_of(tmp_path) == ['a1']
    advance(folder, C, 1)
    growing = (tmp_path / runs.METRICS).open()  # as `tail -f` does
    folder.append(A, [{'round': 6}])
    assert lines_of(tmp_path) == ['a1', 'a6']
    folder.save(A, None, 6)
    assert lines_of(tmp_path) == ['a1', 'a6', 'b1', 'b6', 'c1']
    assert growing.read() == (tmp_path / runs.METRICS).read_text()
    folder.close()
    full = (tmp_path / runs.METRICS).read_bytes()
    folder = opened(tmp_path, num_rounds=80)
    folder.register_lanes(about(A, B, C, num_rounds=8))
    assert (tmp_path / runs.METRICS).read_bytes() == full
    assert folder.lines() == full.decode().splitlines(keepends=True)
    advance(folder, A, 7)
    assert lines_of(tmp_path) == ['a1', 'a6', 'a7']
    assert runs.read(tmp_path)['seed'].tolist() == [0, 0, 0, 1, 1, 2]
    folder.close()
    assert lines_of(tmp_path) == ['a1', 'a6', 'a7', 'b1', 'b6', 'c1']


def test_a_damaged_save_takes_back_the_lines_of_its_own_lane(tmp_path):
    folder = opened(tmp_path)
    folder.register_lanes(about(A, B, C))
    for lane in (A, B, C):
        advance(folder, lane, 1, 2)
    folder.append(C, [{'round': 3, 'unproven': 1}])
    folder.close()
    flip_bit(tmp_path / runs.CHECKPOINTS / f'{B}@2.npz')
    folder = opened(tmp_path)
    assert [folder.rounds(lane) for lane in (A, B, C, D)] == [2, 1, 2, 0]
    assert lines_of(tmp_path) == ['a1', 'a2', 'b1', 'c1', 'c2']
    folder.register_lanes(about(A, B, C))
    advance(folder, B, 2)
    folder.close()
    assert lines_of(tmp_path) == ['a1', 'a2', 'b1', 'b2', 'c1', 'c2']


def test_one_process_works_in_a_folder(tmp_path):
    first = opened(tmp_path)
    program = (
        'import sys; from fedjax_links.runner import stores\n'
        'from tests.runner.identities import OneIdentity\n'
        'try: stores.RunFolder(sys.argv[1], facts={}, identities=OneIdentity())\n'
        'except ValueError as error: print(error)'
    )
    command = [sys.executable, '-c', program, str(tmp_path)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert 'must not be in use' in output
    assert 'by process ' in output
    first.close()
    opened(tmp_path).close()


def test_a_lane_whose_only_save_is_damaged_starts_again(tmp_path, capsys):
    folder = opened(tmp_path)
    folder.register_lanes(about(A, num_rounds=40))
    advance(folder, A, 2, value=lambda value: {'x': np.full(3, value)})
    folder.close()
    flip_bit(tmp_path / runs.CHECKPOINTS / f'{A}@2.npz')
    folder = opened(tmp_path)
    assert folder.rounds(A) == 0
    words = f'{A}@2.npz is damaged; the lane runs again from its start\n'
    assert words in capsys.readouterr().err
    folder.close()


def test_the_save_before_a_damaged_one_is_used(tmp_path, capsys):
    def state(value):
        return {'x': np.full(3, value, np.float32)}

    folder = opened(tmp_path)
    folder.register_lanes(about(A, num_rounds=40))
    advance(folder, A, 2, 4, 6, value=state)
    folder.close()
    saves = {path.name for path in (tmp_path / runs.CHECKPOINTS).glob('*.npz')}
    assert saves == {f'{A}@4.npz', f'{A}@6.npz'}
    unfinished = atomic_files.temporary_name(tmp_path / runs.CHECKPOINTS / f'{A}@8.npz')
    unfinished.write_bytes(b'killed while it wrote')

    like = state(0)
    folder = opened(tmp_path)
    assert not unfinished.exists()
    assert folder.rounds(A) == 6
    np.testing.assert_array_equal(folder.restore(A, like)['x'], 6)
    with pytest.raises(ValueError, match=r'must hold float32\[2\] at'):
        folder.restore(A, {'x': np.zeros(2, np.float32)})
    with pytest.raises(
        ValueError,
        match=r"have the state's leaves, got .*@6\.npz, which lacks "
        r"\[\"\['y'\]\"\] and has \[\"\['x'\]\"\] besides\.$",
    ):
        folder.restore(A, {'y': np.zeros(3, np.float32)})
    folder.close()

    flip_bit(tmp_path / runs.CHECKPOINTS / f'{A}@6.npz')
    folder = opened(tmp_path)
    assert folder.rounds(A) == 4
    np.testing.assert_array_equal(folder.restore(A, like)['x'], 4)
    assert [json.loads(line)['round'] for line in folder.lines()] == [2, 4]
    output = capsys.readouterr().err
    assert f'{A}@6.npz is damaged' in output
    assert output.count('\n') == 1
    folder.register_lanes(about(A, num_rounds=40))
    advance(folder, A, 6, value=state)
    folder.close()

    for round in (4, 6):
        flip_bit(tmp_path / runs.CHECKPOINTS / f'{A}@{round}.npz')
    for _ in range(2):
        with pytest.raises(ValueError, match=r'--start_over.*@6\.npz and .*@4\.npz'):
            opened(tmp_path)


def rewrite_labels(folder, change):
    """Changes what each save says of its lane, and computes its checksum again."""
    for path in (folder / runs.CHECKPOINTS).glob('*.npz'):
        with np.load(path) as stored:
            entries = dict(stored)
        text = json.dumps(change(json.loads(bytes(entries['about'])))).encode()
        entries['about'] = np.frombuffer(text, np.uint8)
        path.write_bytes(checksummed_npz.npz(entries, compress=False))


@pytest.mark.parametrize('use', [opened, runs.read, runs.lanes, runs.merge])
def test_a_save_of_an_older_version_is_refused_in_a_line(use, tmp_path):
    """Version 0.1.0 had one number as position, and called it place."""
    with contextlib.closing(opened(tmp_path)) as folder:
        folder.register_lanes(about(A))
        advance(folder, A, 2)

    def as_in_the_older_version(about):
        del about['position']
        return {**about, 'place': 0}

    rewrite_labels(tmp_path, as_in_the_older_version)
    with pytest.raises(errors.InvalidError, match=rf'this version.*{A}@2\.npz\.$'):
        use(tmp_path)


def test_positions_of_lanes_are_read(tmp_path):
    with contextlib.closing(opened(tmp_path)) as folder:
        folder.register_lanes(about(A, B))
        advance(folder, B, 2)
        advance(folder, A, 2)
    positions = [lane.position for lane in runs.lanes(tmp_path)]
    assert positions == [[0, 0], [0, 1]]


def test_a_folder_that_cannot_be_one_costs_a_line(tmp_path):
    path = tmp_path / 'file'
    path.touch()
    with pytest.raises(
        ValueError, match=r'^`workdir` must name a new folder, an empty one, or '
    ):
        opened(path)
    with pytest.raises(
        ValueError, match=r'`folder` must hold a run \(experiment.json\)'
    ):
        runs.read(tmp_path)


@pytest.mark.parametrize(
    'source, target',
    [(f'{A}@6', f'{B}@6'), (f'{A}@6', f'{A}@8'), (f'{A}@6', f'{A}@4')],
)
@pytest.mark.parametrize('is_moved', [False, True])
def test_a_save_under_another_name_is_refused(source, target, is_moved, tmp_path):
    """A copy of another seed, of a shorter run, and of a later round, whole but misnamed."""
    with contextlib.closing(opened(tmp_path)) as folder:
        folder.register_lanes(about(A, B))
        for lane in (A, B):
            advance(folder, lane, 4, 6, value=lambda value: {'x': np.full(3, value)})
    checkpoints = tmp_path / runs.CHECKPOINTS
    move = shutil.move if is_moved else shutil.copy
    move(checkpoints / f'{source}.npz', checkpoints / f'{target}.npz')
    before = {path: path.read_bytes() for path in checkpoints.iterdir()}
    words = rf'must have the name of its lane.*{target}\.npz, which holds {source}\.npz'
    uses = runs.read, opened, lambda part: runs.merge(part, tmp_path / 'merged')
    for use in uses:
        with pytest.raises(errors.InvalidError, match=words):
            use(tmp_path)
    assert {path: path.read_bytes() for path in checkpoints.iterdir()} == before


def test_a_line_that_no_lane_has_is_no_metric(tmp_path):
    opened(tmp_path).close()
    (tmp_path / runs.METRICS).write_text(
        '{"round": 1, "a": null}\n{"round": 2, "a": 3}\n{"rou'
    )
    assert runs.read(tmp_path).columns == {}
    opened(tmp_path).close()
    assert (tmp_path / runs.METRICS).read_bytes() == b''
    columns = runs.as_columns(['{"round": 1, "a": null}\n', '{"round": 2, "a": 3}\n'])
    assert columns['round'].tolist() == [1, 2]
    np.testing.assert_array_equal(columns['a'], [np.nan, 3.0])
    assert columns['stage'].tolist() == ['main', 'main']
