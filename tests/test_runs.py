"""Run folders: what they hold, and what they refuse."""

import json
import subprocess
import sys

import numpy as np
import pytest

from fedjax_links import runs
from tests.experiment.test_running import in_python

FACTS = {'title': 'before', 'num_rounds': 40}


def opened(folder, **changes):
    return runs.RunFolder(folder, facts={**FACTS, **changes})


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
    with pytest.raises(ValueError, match=r'where config\.num_rounds is 40 and not 80\.$'):
        opened(tmp_path, num_rounds=80)
    assert json.loads((tmp_path / runs.EXPERIMENT).read_text())['num_rounds'] == 40


def test_one_process_works_in_a_folder(tmp_path):
    first = opened(tmp_path)
    program = (
        'import sys; from fedjax_links import runs\n'
        'try: runs.RunFolder(sys.argv[1], facts={})\n'
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
    with pytest.raises(ValueError, match=r'metrics\.jsonl, which differs in line 7\.'):
        in_python().run(tmp_path)
    assert path.read_text() == ''.join(lines)


def test_a_changed_checkpoint_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(runs.SaveClock, 'is_due', lambda clock: True)
    folder = opened(tmp_path)
    folder.append(['{"round": 4}\n'])
    folder.save({'lane': {'x': np.arange(3, dtype=np.float32)}}, 4)
    folder.close()
    folder = opened(tmp_path)
    assert folder.rounds('lane') == 4
    like = {'x': np.zeros(3, np.float32)}
    np.testing.assert_array_equal(folder.restore('lane', like)['x'], [0, 1, 2])
    with pytest.raises(ValueError, match=r'must hold float32\[2\] at'):
        folder.restore('lane', {'x': np.zeros(2, np.float32)})
    with pytest.raises(ValueError, match="must have the state's leaves"):
        folder.restore('lane', {'y': np.zeros(3, np.float32)})
    (path,) = (tmp_path / runs.CHECKPOINTS).glob('*.npz')
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(ValueError, match='must be as it was written'):
        folder.restore('lane', like)
    folder.close()


def test_a_folder_that_cannot_be_one_costs_a_line(tmp_path):
    path = tmp_path / 'file'
    path.touch()
    with pytest.raises(ValueError, match='`workdir` must name a folder that can be written to'):
        opened(path)
    with pytest.raises(ValueError, match=r'`folder` must hold a run \(experiment.json\)'):
        runs.read(tmp_path)


def test_a_half_written_line_is_no_metric(tmp_path):
    opened(tmp_path).close()
    assert runs.read(tmp_path).columns == {}
    (tmp_path / runs.METRICS).write_text('{"round": 1, "a": null}\n{"round": 2, "a": 3}\n{"rou')
    columns = runs.read(tmp_path).columns
    assert columns['round'].tolist() == [1, 2]
    np.testing.assert_array_equal(columns['a'], [np.nan, 3.0])
    assert columns['stage'].tolist() == ['main', 'main']


def test_an_unknown_column_is_named_with_the_nearest(tmp_path):
    results = in_python(grid={'learning_rate': [0.1]}, num_rounds=4).run()
    with pytest.raises(KeyError, match='did you mean'):
        results['server/distanse']
