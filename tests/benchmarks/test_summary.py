"""Records become the table that README shows and a picture."""

import pytest
from matplotlib.figure import Figure

from benchmarks import run, summary

DEVICE = {'platform': 'cpu', 'kind': 'A chip', 'cores': 2, 'jax': '0.10.2', 'python': '3.11.7'}


def record(name, *rows):
    return {'benchmark': name, 'date': '2026-11-21T10:00:00', 'device': DEVICE, 'rows': rows}


def test_a_ratio_is_the_median_over_the_turns():
    row = summary.ratio_row('work', [2.0, 9.0, 4.0, 6.0], [1.0, 3.0, 1.0, 4.0], 2.0)
    assert row['measured'] == 2.5
    assert row['spread'] == [1.5, 4.0]


def test_the_table_says_what_was_missed():
    records = [
        record('fast', {'what': 'a', 'measured': 1.234, 'unit': 'x', 'target': 1.2}),
        record(
            'slow', {'what': 'b', 'measured': 13.04, 'unit': 's', 'target': 12, 'at_most': True}
        ),
        record('free', {'what': 'c', 'measured': 8512.3, 'unit': 'x', 'spread': [8e3, 9e3]}),
    ]
    assert summary.table(records).splitlines()[2:] == [
        '| fast | a | 1.23 x | at least 1.2 |',
        '| slow | b | 13 s | at most 12: **missed** |',
        '| free | c | 8,512 x (8e+03 to 9e+03) |  |',
        '',
        'fast, slow, free: 2 cores of A chip, jax 0.10.2, Python 3.11.7, 2026-11-21.',
    ]


def test_the_picture_shows_ratios(tmp_path):
    rows = {'what': 'a', 'measured': 1.5, 'unit': 'x', 'target': 1.2, 'spread': [1.4, 1.6]}
    summary.picture([record('fast', rows)], tmp_path / 'ratios.png')
    assert (tmp_path / 'ratios.png').read_bytes().startswith(b'\x89PNG')
    axes = Figure().add_subplot()
    less = {**rows, 'at_most': True}
    summary.draw(axes, summary.rows(record('fast', rows, less)))
    assert not axes.patches  # the length of a bar means nothing on a logarithmic axis
    points = [line for line in axes.lines if line.get_marker() in '<>']
    assert [(point.get_marker(), point.get_xdata()[0]) for point in points] == [
        ('>', 1.5),
        ('<', 1.5),
    ]
    assert points[0].get_color() != points[1].get_color()  # the second misses its target


def test_suites_and_names_are_benchmarks():
    assert run.named(['scale', 'micro', 'engine'])[:2] == ['million', 'micro']
    assert len(run.named([])) == len(set(run.named([])))
    with pytest.raises(ValueError, match=r"`names` must be suites or benchmarks .* got 'mikro'"):
        run.named(['mikro'])
    for name in run.named([]):
        assert (run.ROOT / 'benchmarks' / f'{name}.py').exists()


def test_readme_keeps_all_but_the_table():
    text = f'before\n{run.BEGIN}old\n{run.END}\nafter'
    assert run.readme_with(text, 'new') == f'before\n{run.BEGIN}new\n{run.END}\nafter'


def test_readme_shows_the_records_as_they_are():
    text = (run.ROOT / 'README.md').read_text()
    assert run.readme_with(text, summary.table(summary.read())) == text
