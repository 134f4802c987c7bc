"""Run folders: what they hold, and what they refuse."""

import json
import subprocess
import sys

import jax
import numpy as np
import pytest

from fedjax_links import journal, report, runs, seals, stores
from tests.experiment.test_running import in_python

FACTS = {'title': 'before', 'num_rounds': 40}


def opened(folder, **changes):
    return stores.RunFolder(folder, facts={**FACTS, **changes})


def test_a_folder_says_what_ran_where_and_with_what(tmp_path):
    results = in_python(log=('links',)).run(tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert {runs.EXPERIMENT, runs.ENVIRONMENT, runs.METRICS, runs.LINKS, runs.CHECKPOINTS} <= names
    assert runs.CONFIG not in names  # it was made in Python
    environment = json.loads((tmp_path / runs.ENVIRONMENT).read_text())
    assert {'versions', 'devices', 'cores', 'flags', 'python'} <= environment.keys()
    assert runs.read(tmp_path).facts == json.loads(json.dumps(results.facts))
    with np.load(tmp_path / runs.LINKS) as stored:
        mask = np.unpackbits(stored['mask/some'], axis=-1, count=6)
        assert stored['prob/some/3'].shape == (40, 6)
    active = results['rounds/num_active'][(results['algorithm'] == 'fedavg')]
    np.testing.assert_array_equal(mask.reshape(10, 4, 6).sum(axis=(1, 2)), active[:10])


def test_fields_that_change_no_result_may_differ_and_are_kept(tmp_path):
    opened(tmp_path).close()
    opened(tmp_path, title='after').close()
    assert json.loads((tmp_path / runs.EXPERIMENT).read_text())['title'] == 'after'
    with pytest.raises(ValueError, match=r'where config\.eval_every is None and not 8\.$'):
        opened(tmp_path, eval_every=8)
    with pytest.raises(ValueError, match=r'^`num_rounds` must be at least 40, the rounds of .*20'):
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
def test_a_run_goes_on_with_the_draws_and_the_rounding_that_it_began_with(
    tmp_path, name, value, there, here
):
    planned = in_python()
    stores.RunFolder(tmp_path, facts=planned.facts()).close()
    before = getattr(jax.config, name)
    jax.config.update(name, value)
    try:
        facts = planned.facts()
    finally:
        jax.config.update(name, before)
    with pytest.raises(
        ValueError, match=rf'where config\.numerics\.{name} is {there} and not {here}'
    ):
        stores.RunFolder(tmp_path, facts=facts)
    stores.RunFolder(tmp_path, facts=planned.facts()).close()


def test_another_backend_is_refused_and_a_folder_that_names_none_still_reports(tmp_path):
    planned = in_python()
    planned.run(tmp_path)
    report.write(runs.read(tmp_path))
    written, facts = (tmp_path / 'report.md').read_bytes(), planned.facts()
    other = {**facts, 'numerics': {**facts['numerics'], 'backend': 'gpu'}}
    with pytest.raises(ValueError, match=r"where config\.numerics\.backend is 'cpu' and not 'gpu'"):
        stores.RunFolder(tmp_path, facts=other)
    del facts['numerics']
    seals.write(tmp_path, runs.EXPERIMENT, json.dumps(facts).encode())
    report.write(runs.read(tmp_path))
    assert (tmp_path / 'report.md').read_bytes() == written


def test_looking_up_a_lane_does_not_look_at_the_others(tmp_path):
    class Counted(dict):
        asked = 0

        def __contains__(self, lane):
            Counted.asked += 1
            return super().__contains__(lane)

    folder = journal.Journal(opened(tmp_path).path)
    for lane in range(50):
        folder.save(2, Counted({str(lane): None}))
    assert [save.round for save in folder.of('7')] == [2]
    assert folder.of('50') == []
    assert Counted.asked <= 2


def test_a_save_is_forgotten_with_its_own_lines_wherever_it_stands(tmp_path):
    folder = opened(tmp_path)
    for lane in 'abc':
        folder.append([f'{{"lane": "{lane}", "round": {round}}}\n' for round in (1, 2)])
        folder.save({lane: None}, 2)
    folder.append(['{"unproven": 1}\n'])
    folder.close()
    opened_again = journal.Journal(tmp_path)
    opened_again.forget(opened_again.of('b')[0])
    opened_again.append(['{"lane": "b", "round": 1}\n'])
    opened_again.save(1, {'b': None})
    opened_again.close()
    saves, lines = journal.read(tmp_path)
    assert [(save.round, *save.lanes, save.num_lines) for save in saves] == [
        (2, 'a', 2),
        (2, 'c', 4),
        (1, 'b', 5),
    ]
    assert [json.loads(line)['lane'] for line in lines] == ['a', 'a', 'c', 'c', 'b']


def test_changed_descriptions_and_links_are_refused(tmp_path):
    in_python().run(tmp_path)
    for name in (runs.EXPERIMENT, runs.LINKS):
        whole = (tmp_path / name).read_bytes()
        flip(tmp_path / name)
        with pytest.raises(ValueError, match=f'{name}, which has changed'):
            report.write(runs.read(tmp_path))
        (tmp_path / name).write_bytes(whole)
    assert 'Wrote' in report.write(runs.read(tmp_path))


def test_one_process_works_in_a_folder(tmp_path):
    first = opened(tmp_path)
    program = (
        'import sys; from fedjax_links import stores\n'
        'try: stores.RunFolder(sys.argv[1], facts={})\n'
        'except ValueError as error: print(error)'
    )
    command = [sys.executable, '-c', program, str(tmp_path)]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert 'must not be in use' in told
    assert 'by process ' in told
    first.close()
    opened(tmp_path).close()


def test_changed_metrics_are_refused_with_their_line(tmp_path):
    in_python().run(tmp_path)
    path = tmp_path / runs.METRICS
    lines = path.read_text().splitlines(keepends=True)
    lines[6] = lines[6].replace('"round": 28', '"round": 29')
    path.write_text(''.join(lines))
    for use in (runs.read, in_python().run):
        with pytest.raises(ValueError, match=r'metrics\.jsonl, which differs in line 7\.'):
            use(tmp_path)
    assert path.read_text() == ''.join(lines)


def flip(path, place=None):
    content = bytearray(path.read_bytes())
    content[len(content) // 2 if place is None else place] ^= 1
    path.write_bytes(bytes(content))


def test_a_damaged_checkpoint_is_reported_and_the_one_before_it_used(tmp_path, capsys):
    def state(value):
        return {'x': np.full(3, value, np.float32)}

    folder = opened(tmp_path)
    for round in (2, 4, 6):
        folder.append([f'{{"round": {round}}}\n'])
        folder.save({'lane': state(round)}, round)
    folder.close()
    kept = sorted(path.name for path in (tmp_path / runs.CHECKPOINTS).glob('*.npz'))
    assert kept == ['lane@4.npz', 'lane@6.npz']
    unfinished = tmp_path / runs.CHECKPOINTS / 'lane@8.npz.partial'
    unfinished.write_bytes(b'killed while it wrote')

    like = {'lane': state(0)}
    folder = opened(tmp_path)
    assert not unfinished.exists()
    assert folder.rounds('lane') == 6
    done, states = folder.restore(like)
    assert done == 6
    np.testing.assert_array_equal(states['lane']['x'], 6)
    with pytest.raises(ValueError, match=r'must hold float32\[2\] at'):
        folder.restore({'lane': {'x': np.zeros(2, np.float32)}})
    with pytest.raises(ValueError, match="must have the state's leaves"):
        folder.restore({'lane': {'y': np.zeros(3, np.float32)}})
    folder.close()

    flip(tmp_path / runs.CHECKPOINTS / 'lane@6.npz')
    folder = opened(tmp_path)
    done, states = folder.restore(like)
    assert done == 4
    np.testing.assert_array_equal(states['lane']['x'], 4)
    assert [json.loads(line)['round'] for line in folder.lines] == [2, 4]
    told = capsys.readouterr().err
    assert 'lane@6.npz is damaged' in told
    assert told.count('\n') == 1
    folder.append(['{"round": 6}\n'])
    folder.save({'lane': state(6)}, 6)
    folder.close()

    for round in (4, 6):
        flip(tmp_path / runs.CHECKPOINTS / f'lane@{round}.npz')
    folder = opened(tmp_path)
    with pytest.raises(ValueError, match=r'--start_over.*lane@6\.npz and .*lane@4\.npz'):
        folder.restore(like)
    folder.close()


def test_a_changed_journal_is_refused_with_its_line(tmp_path):
    in_python().run(tmp_path)
    path = tmp_path / runs.CHECKPOINTS / 'journal.jsonl'
    flip(path, path.read_bytes().index(b'\n') + 30)
    for use in (runs.read, in_python().run):
        with pytest.raises(ValueError, match=r'journal\.jsonl, which differs in line 2\.'):
            use(tmp_path)


def test_a_folder_that_cannot_be_one_costs_a_line(tmp_path):
    path = tmp_path / 'file'
    path.touch()
    with pytest.raises(ValueError, match=r'file` cannot be used: |file/.*` cannot be used: '):
        opened(path)
    with pytest.raises(ValueError, match=r'`folder` must hold a run \(experiment.json\)'):
        runs.read(tmp_path)


def test_a_half_written_line_is_no_metric(tmp_path):
    opened(tmp_path).close()
    assert runs.read(tmp_path).columns == {}
    (tmp_path / runs.CHECKPOINTS / 'journal.jsonl').unlink()  # nothing to prove it by
    (tmp_path / runs.METRICS).write_text('{"round": 1, "a": null}\n{"round": 2, "a": 3}\n{"rou')
    columns = runs.read(tmp_path).columns
    assert columns['round'].tolist() == [1, 2]
    np.testing.assert_array_equal(columns['a'], [np.nan, 3.0])
    assert columns['stage'].tolist() == ['main', 'main']


def test_an_unknown_column_is_named_with_the_nearest(tmp_path):
    results = in_python(grid={'learning_rate': [0.1]}, num_rounds=4).run()
    with pytest.raises(KeyError, match='did you mean'):
        results['server/distanse']
