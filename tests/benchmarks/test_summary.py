"""Records become the table that the page on speed shows and a picture."""

import pytest
from matplotlib.figure import Figure

from benchmarks import common, run, summary

DEVICE = {
    'platform': 'cpu',
    'kind': 'A chip',
    'cores': 2,
    'jax': '0.10.2',
    'python': '3.11.7',
}


def record(name, *rows):
    return {
        'benchmark': name,
        'date': '2026-11-21T10:00:00',
        'device': DEVICE,
        'rows': rows,
    }


def test_a_ratio_is_the_median_over_the_repeats():
    row = summary.ratio_row('work', [2.0, 9.0, 4.0, 6.0], [1.0, 3.0, 1.0, 4.0], 2.0)
    assert row['measured'] == 2.5
    assert row['spread'] == [1.5, 4.0]


def test_what_is_not_reached_yet_has_a_table_of_its_own():
    records = [
        record('fast', {'what': 'a', 'measured': 1.234, 'unit': 'x', 'target': 1.2}),
        record(
            'slow',
            {
                'what': 'b',
                'measured': 13.04,
                'unit': 's',
                'target': 12,
                'at_most': True,
            },
        ),
        record(
            'free', {'what': 'c', 'measured': 8512.3, 'unit': 'x', 'spread': [8e3, 9e3]}
        ),
        record('big', {'what': 'd', 'measured': 0.5, 'unit': 'GiB', 'previous': 0.75}),
    ]
    records[0] |= {'device': {**DEVICE, 'busy_cores': 0.01}, 'took_seconds': 60.0}
    records[1] |= {'device': {**DEVICE, 'busy_cores': 0.2}, 'took_seconds': 39.0}
    assert summary.table(records).splitlines() == [
        '| benchmark | what | measured | target |',
        '| --- | --- | --- | --- |',
        '| fast | a | 1.23 x | at least 1.2 |',
        '| free | c | 8,512 x (8,000 to 9,000) |  |',
        '| big | d | 0.5 GiB; previous release 0.75 |  |',
        '',
        '**Not yet**: what we want and have not reached.',
        '',
        '| benchmark | what | measured | target |',
        '| --- | --- | --- | --- |',
        '| slow | b | 13 s | at most 12 |',
        '',
        'fast, slow, free, big: 2 cores of A chip, jax 0.10.2, Python 3.11.7, 2026-11-21; '
        'other work kept at most 0.2 cores busy; 1.6 minutes in all.',
    ]


def test_a_value_is_the_median_and_less_of_it_is_better():
    row = summary.values_row('memory', [3.0, 1.0, 2.0], 'GiB', previous=4.0)
    assert (row['measured'], row['spread'], row['at_most']) == (2.0, [1.0, 3.0], True)
    assert summary.values_row('memory', [3.0], 'GiB', 2.0)['spread'] is None


def test_the_picture_is_written(tmp_path):
    row = {
        'what': 'a',
        'measured': 1.5,
        'unit': 'x',
        'target': 1.2,
        'spread': [1.4, 1.6],
    }
    summary.picture([record('fast', row)], tmp_path / 'ratios.png')
    assert (tmp_path / 'ratios.png').read_bytes().startswith(b'\x89PNG')


def test_in_the_picture_more_is_always_better():
    bound = {'measured': 1.5, 'unit': 'x', 'target': 1.2, 'spread': [1.0, 2.0]}
    fields = [
        {'what': 'at least', **bound},
        {'what': 'at most', **bound, 'at_most': True},
        {'what': 'seconds', 'measured': 0.5, 'unit': 's', 'target': 1, 'at_most': True},
        {'what': 'no target', 'measured': 3.0, 'unit': 'x'},
        {
            'what': 'memory',
            'measured': 2,
            'unit': 'GiB',
            'previous': 3,
            'at_most': True,
        },
    ]
    axes = Figure().add_subplot()
    summary.draw(axes, summary.rows(record('fast', *fields)))
    assert not axes.patches  # the length of a bar means nothing on a logarithmic axis
    points = [line for line in axes.lines if line.get_marker() == 'o']
    assert [point.get_xdata()[0] for point in points] == pytest.approx(
        [1.25, 0.8, 2, 3, 1.5]
    )
    spreads = [line.get_xdata() for line in axes.lines if line.get_linewidth() == 2]
    assert sorted(spreads[0]) == pytest.approx([1 / 1.2, 2 / 1.2])
    assert sorted(spreads[1]) == pytest.approx([0.6, 1.2])
    colours = [point.get_color() for point in points]
    assert [colour == colours[0] for colour in colours] == [
        True,
        False,
        True,
        True,
        True,
    ]
    hollow = [point.get_markerfacecolor() == 'white' for point in points]
    assert hollow == [False, False, False, True, True]
    labels = [text.get_text() for text in axes.texts]
    assert labels[1:3] == ['1.5 x (≤ 1.2)', '0.5 s (≤ 1)']
    assert labels[4] == '2 GiB (was 3)'


def test_a_rate_without_a_reference_is_not_in_the_picture():
    rate = {'what': 'a', 'measured': 9.0, 'unit': 'rounds/s'}
    bound = {'what': 'b', 'measured': 9.0, 'unit': 'rounds/s', 'target': 8.0}
    shown = summary.rows_with_reference([record('gpu', rate, bound)])
    assert [row.what for row in shown] == ['b']


def test_suites_and_names_are_benchmarks():
    assert run.named(['scale', 'micro', 'engine'])[:2] == ['million', 'micro']
    assert len(run.named([])) == len(set(run.named([])))
    with pytest.raises(
        ValueError, match=r"`names` must be suites or benchmarks .* got 'mikro'"
    ):
        run.named(['mikro'])
    assert 'accelerator' not in run.named([])  # whose record is not that of a CPU
    for name in run.named([*run.SUITES]):
        assert (run.ROOT / 'benchmarks' / f'{name}.py').exists()


def test_a_busy_machine_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(common, 'busy_cores', lambda seconds: 1.75)
    monkeypatch.setattr(common, 'num_cores', lambda: 4)
    monkeypatch.setattr(
        run.subprocess, 'run', lambda *_, **__: pytest.fail('it was started')
    )
    assert run.main(['micro']) == 2
    assert (
        capsys.readouterr().err
        == 'error: other work keeps 1.8 cores busy; wait, or --busy\n'
    )


@pytest.mark.parametrize('other', ['micro', '--quick'])
def test_a_table_is_not_made_beside_a_measurement(monkeypatch, capsys, other):
    monkeypatch.setattr(
        run.summary, 'picture', lambda *_: pytest.fail('a picture was drawn')
    )
    assert run.main(['--table', other]) == 2
    assert capsys.readouterr().err.startswith('error: `--table` measures nothing')


def test_the_page_keeps_all_but_the_table():
    text = f'before\n{run.BEGIN}old\n{run.END}\nafter'
    assert run.page_with(text, 'new') == f'before\n{run.BEGIN}new\n{run.END}\nafter'


def test_the_page_shows_the_records_as_they_are():
    text = (run.ROOT / 'docs' / 'speed.md').read_text()
    assert run.page_with(text, summary.table(summary.read())) == text
