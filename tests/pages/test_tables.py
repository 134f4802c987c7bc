"""Tables as data and as LaTeX have the numbers of the printed page."""

import io
import re

import numpy as np
import pandas
import pytest

import fedjax_links as fl
from fedjax_links import experiment, report, runs
from fedjax_links.pages import tables
from fedjax_links.report import layouts
from tests import rendering
from tests.cli import command
from tests.experiment.configs import tuned
from tests.refusals import names

OPTIONS = {
    'first_rounds': {'targets': [0.1, 0.99]},
    'heat_map': {'x': 'round', 'y': 'algorithms.fedpbc.server_lr'},
    'cost': {'step': 0.1, 'uplink': 1e6, 'downlink': 1e6, 'targets': [0.1]},
}
WITHOUT = {'curves', 'overview', 'clients'}
"""Pictures alone, and what takes clients with evaluation data of their own."""
OF_LINKS = {'links': 'link_maps', 'participation': 'participation'}
RATES = {'algorithms': {'fedpbc': {'server_lr': [0.5, 1.0]}}}
PATTERNS = {
    name: {'name': 'bernoulli', 'probs': prob}
    for name, prob in (('often', 0.7), ('rarely', 0.3))
}


def write_run(folder, grid, pages, **changes):
    """Writes a run and its report, with pages of these layouts and those of the links."""
    reports = {page: {'name': page, **OPTIONS.get(page, {})} for page in pages}
    planned = experiment.build(tuned(reports=reports, grid=grid, **changes))
    with rendering.skipped():
        report.write(planned.run(folder))
    return folder


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    """A tuned run over a grid."""
    tuning = {
        'learning_rates': (0.05, 0.1),
        'grow': 0,
        'pattern': 'often',
        'num_seeds': 2,
        'most_seeds': 3,
    }
    left_out = {'spread', 'clients', *OF_LINKS.values()}
    pages = [page for page in layouts.LAYOUTS if page not in left_out]
    folder = tmp_path_factory.mktemp('tables') / 'run'
    return write_run(folder, RATES, pages, tuning=tuning, patterns=PATTERNS)


@pytest.fixture(scope='module')
def redrawn(tmp_path_factory):
    """A run over a grid of the one stream that follows the seed."""
    algorithms = {'fedavg': {'client': {'learning_rate': 0.1}}}
    grid = {'redraw': ['init', 'batches']}
    patterns = {'often': PATTERNS['often']}
    changes = {'tuning': None, 'algorithms': algorithms, 'patterns': patterns}
    return write_run(
        tmp_path_factory.mktemp('redrawn') / 'run', grid, ['spread'], **changes
    )


def printed_tables(folder):
    """Returns the tables of ``report.md`` by heading, each a list of rows of cells."""
    results = {}
    for part in (folder / 'report.md').read_text().split('\n## ')[1:]:
        heading, *lines = part.splitlines()
        tables_of_part = []
        rows = []
        for line in [*lines, '']:
            if line.startswith('| '):
                rows.append(line[2:-2].split(' | '))
            elif rows:
                header, rule, *cells = rows
                assert set(rule) == {'---'}
                tables_of_part.append([header, *cells])
                rows = []
        results[heading] = tables_of_part
    return results


def all_tables(folder):
    """Yields the page, the number and the printed cells of each table of a run."""
    run = runs.read(folder)
    built = layouts.build(report.run_view.from_run(run), run.facts['reports'])
    printed = printed_tables(folder)
    for name, page in built.items():
        for number in range(len(page.tables)):
            yield OF_LINKS.get(name, name), number, printed[page.heading][number]


CELL = re.compile(
    r'(?P<value>[-+\d.,e]+)( ± (?P<half>[\d.,e-]+)( \[(?P<wide>[\d.,e-]+)\])?)?'
)
"""A number, the half width of its interval, and that of the interval including tuning."""


def numbers_of(cell):
    """Returns the numbers of a cell by the suffix of their column; None for a text."""
    text = cell.rstrip(' *↑↓')
    if text in ('', 'diverged', '-'):
        return {}
    match = CELL.fullmatch(text)
    if match is None:
        return None
    results = {}
    for suffix, name in (('', 'value'), (' ±', 'half'), (' [±]', 'wide')):
        if match[name]:
            results[suffix] = float(match[name].replace(',', ''))
    return results


def check_column(frame, title, cells):
    """Compares a column of data with its cells; returns how many columns of intervals it has."""
    numbers = [numbers_of(cell) for cell in cells]
    if frame[title].dtype != np.float64:
        assert frame[title].tolist() == cells
        assert None in numbers or not any(cells)
        return 0
    num_interval_columns = 0
    for suffix in ('', ' ±', ' [±]'):
        expected = [result.get(suffix, np.nan) for result in numbers]
        if suffix and not np.isfinite(expected).any():
            assert f'{title}{suffix}' not in frame
            continue
        np.testing.assert_array_equal(frame[f'{title}{suffix}'], expected)
        if suffix:
            num_interval_columns += 1
    stars = [cell[len(cell.rstrip('*')) :] for cell in cells]
    if any(stars):
        assert frame[f'{title} *'].tolist() == stars
    return num_interval_columns


def test_data_are_the_numbers_of_the_printed_page(folder, redrawn):
    pages = set()
    num_interval_columns = 0
    for run_folder in (folder, redrawn):
        for page, number, (header, *rows) in all_tables(run_folder):
            pages.add(page)
            frame = report.table(run_folder, page, number=number)
            assert len(frame) == len(rows)
            assert frame.attrs['caption']
            for index, title in enumerate(header):
                cells = [row[index] for row in rows]
                num_interval_columns += check_column(frame, title, cells)
    assert pages == layouts.LAYOUTS.keys() - WITHOUT
    assert num_interval_columns > 10


def test_latex_has_the_cells_of_the_printed_page(folder):
    signs = {r'$\pm$': '±', '$-$': '-', r'$\uparrow$': '↑', r'$\downarrow$': '↓'}
    signs |= {r'$\approx$': '≈', r'\textasciitilde{}': '~'}
    for page, number, cells in all_tables(folder):
        text = report.table(folder, page, form='latex', number=number)
        body = [line for line in text.splitlines() if line.endswith(r'\\')]
        for latex, sign in signs.items():
            body = [line.replace(latex, sign) for line in body]
        assert not re.search(r'(?<!\\)[%$#_{}^]', ''.join(body))
        results = [
            re.sub(r'\\([&%$#_{}])', r'\1', line[:-3]).split(' & ') for line in body
        ]
        assert results == cells
        columns = re.search(r'\\begin\{tabular\}\{([lr]+)\}', text)[1]
        assert len(columns) == len(cells[0])
        for rule in ('toprule', 'midrule', 'bottomrule'):
            assert text.count(f'\\{rule}') == 1


def test_the_command_prints_a_table_and_writes_nothing(folder):
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    done = command.run('report', f'--workdir={folder}', '--table=comparison')
    result = pandas.read_csv(io.StringIO(done.stdout))
    expected = report.table(folder)
    assert list(result) == list(expected)
    np.testing.assert_array_equal(result['eval accuracy'], expected['eval accuracy'])
    flags = [f'--workdir={folder}', '--table=comparison', '--form=latex']
    assert command.run('report', *flags).stdout == report.table(folder, form='latex')
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    message = command.refused('report', f'--workdir={folder}', '--table=comparisn')
    assert message == "error: `table` has no 'comparisn'; did you mean 'comparison'?\n"
    second = report.table(folder, 'heat_map', form='csv', number=1)
    assert len(pandas.read_csv(io.StringIO(second))) > 1


@pytest.mark.parametrize(
    'flags, message',
    [
        (['--table=final', '--options={"form": "csv"}'], "no flags, got 'form'."),
        (['--table=final', '--options={"run": 1}'], "no flags, got 'run'."),
        (['--table=final', '--options={"page": "x"}'], "no flags, got 'page'."),
        (['--table=final', '--options={"name": "best"}'], "`name` has no 'best'"),
        (['--cost={"name": "best"}'], "`cost.name` has no 'best'"),
        (['--table=final', '--form=data'], '; valid names: csv, latex.'),
    ],
)
def test_a_flag_is_no_option_of_a_layout(folder, flags, message):
    assert message in command.refused('report', f'--workdir={folder}', *flags)


def test_options_replace_those_of_the_config(folder):
    full = fl.report.table(folder, 'first_rounds')
    assert [title for title in full if title[0].isdigit()] == ['10.0', '99.0']
    other = fl.report.table(folder, 'first_rounds', targets=[0.2])
    assert [title for title in other if title[0].isdigit()] == ['20.0']
    losses = fl.report.table(folder, 'comparison', metric='eval_loss').attrs['caption']
    assert losses.startswith('eval loss')


def test_names_of_an_earlier_version_still_work(folder):
    assert report.table(folder, 'levels', form='csv') == report.table(
        folder, 'comparison', form='csv'
    )
    cost = {'step': 0.1, 'uplink': 1e6, 'downlink': 1e6}
    assert report.table(folder, 'price', form='csv', **cost) == report.table(
        folder, 'cost', form='csv', **cost
    )
    assert fl.pricing.price is fl.cost_model.round_costs


def test_a_mistake_costs_a_line(folder):
    with names('page', "has no 'comparisn'; did you mean 'comparison'?"):
        report.table(folder, 'comparisn')
    with names('page', 'must name a page with tables, got curves.'):
        report.table(folder, 'curves')
    with names('number', 'must be at most 0, got 1.'):
        report.table(folder, 'comparison', number=1)
    with names('form', "has no 'tex'; did you mean 'latex'?"):
        report.table(folder, form='tex')
    with names('name', "has no 'final'; valid names: comparison."):
        report.table(folder, 'comparison', name='final')
    with names('config.reports.comparison.metric', "has no 'loss'"):
        report.table(folder, metric='loss')


@pytest.mark.parametrize(
    'cells, columns',
    [
        (
            ['84.3 ± 0.4', 'diverged', ''],
            {'x': [84.3, np.nan, np.nan], 'x ±': [0.4] + 2 * [np.nan]},
        ),
        (
            ['+1.2 ± 0.4 [0.9] **', '-2'],
            {
                'x': [1.2, -2],
                'x ±': [0.4, np.nan],
                'x [±]': [0.9, np.nan],
                'x *': ['**', ''],
            },
        ),
        (['1,234', '2e-07', '-'], {'x': [1234, 2e-7, np.nan]}),
        (['1.2.3', '4'], {'x': ['1.2.3', '4']}),
        (['30 (30 to 40)', 'never'], {'x': ['30 (30 to 40)', 'never']}),
        (['', '-'], {'x': ['', '-']}),
        (['75.2 (sd 2.4)', ''], {'x': ['75.2 (sd 2.4)', '']}),
    ],
)
def test_a_column_is_numbers_only_if_every_cell_is(cells, columns):
    frame = tables.Table(['x'], [[cell] for cell in cells], 'caption').data()
    assert list(frame) == list(columns)
    for title, values in columns.items():
        np.testing.assert_array_equal(frame[title], np.array(values))


def test_a_bar_in_a_name_opens_no_column():
    table = tables.Table(['a|b', 'c'], [['FedAvg | 1', '|']], 'Two columns.')
    head, rule, row = table.markdown().splitlines()[:3]
    for line in (head, rule, row):
        assert len(re.findall(r'(?<!\\)\|', line)) == 3
    assert row == r'| FedAvg \| 1 | \| |'


def test_latex_sets_texts_to_the_left_and_numbers_to_the_right():
    rows = [
        ['links', 'fedavg', 'server', '84.3 ± 0.4 [0.9]', '', ''],
        ['links', 'fedpbc', 'client mean', 'diverged', '+1.2 ± 0.4 **', 'ahead'],
    ]
    header = ['pattern', 'algorithm', 'model', 'accuracy', 'minus fedavg', 'verdict']
    text = tables.Table(header, rows, 'caption').latex()
    assert r'\begin{tabular}{lllrrl}' in text
    assert r'\begin{tabular}{ll}' in tables.Table(['a', 'b'], [], 'caption').latex()


def test_a_terminal_aligns_texts_left_and_numbers_right():
    rows = [
        ('links', 'fedpbc', 'client mean', '93.3 ± 0.4', 'ahead'),
        ('links', 'mifa', 'server', '9.1 ± 1.2', 'not decided'),
    ]
    header = ('pattern', 'algorithm', 'model', 'accuracy', 'verdict')
    table = tables.Table(header, rows, 'Of two seeds.')
    assert table.text().splitlines()[2:4] == [
        'links    fedpbc     client mean  93.3 ± 0.4  ahead',
        'links    mifa       server        9.1 ± 1.2  not decided',
    ]


def test_a_name_of_two_lines_is_one_cell_of_a_terminal():
    table = tables.Table(('a\nb', 'x'), [('c\nd', '1')], 'caption')
    assert table.text().splitlines()[:3] == ['a b  x', '------', 'c d  1']


def test_what_latex_reads_as_its_own_is_escaped():
    row = ['50 % of A_1 & #2', '-1.2 ± 3', r'{x}^2 ~ \y $', 'a-1', '1 ↑']
    text = tables.Table([''] * 5, [row], 'caption').latex()
    assert r'50 \% of A\_1 \& \#2 & $-$1.2 $\pm$ 3 & ' in text
    assert (
        r'\{x\}\textasciicircum{}2 \textasciitilde{} \textbackslash{}y \$ & a-1 & 1 '
        in text
    )
    assert text.startswith('% caption\n\\begin{tabular}{lrllr}\n')


def test_a_bracket_at_the_start_of_a_row_is_no_option_of_latex():
    rows = [['[0.1, 0.2]', '1 [2]'], ['ours', '[3]']]
    lines = tables.Table(['[x]', 'y'], rows, 'caption').latex().splitlines()
    assert lines[3] == r'{}[x] & y \\'
    assert lines[5:7] == [r'{}[0.1, 0.2] & 1 [2] \\', r'ours & [3] \\']


@pytest.mark.parametrize(
    'text, shown',
    [
        ('<script>alert(1)</script>', r'\<script>alert(1)\</script>'),
        ('<img src=x onerror=alert(3)>', r'\<img src=x onerror=alert(3)>'),
        ('<!-- hides the rest', r'\<!-- hides the rest'),
        ('[x](javascript:alert(2))', r'[x\](javascript:alert(2))'),
        ('![](http://elsewhere/seen.png)', r'![\](http://elsewhere/seen.png)'),
        ('[x]: javascript:alert(2)', r'[x\]: javascript:alert(2)'),
        ('[x][y]', r'[x\][y]'),
        ('*mine* and _its_ round_step', r'\*mine* and \_its_ round_step'),
        ('FedAvg* or __init__', r'FedAvg* or \_\_init__'),
        ('+1 ** *: by chance', '+1 ** *: by chance'),
        ('**ours**, `_x`', r'\*\*ours**, `_x`'),
        ('*by* `f(**g<h>)[i](j)`', r'\*by* `f(**g<h>)[i](j)`'),
        ('`a ``<b>` <i>', r'`a ``\<b>` \<i>'),
        (r'\`<b>` <i>', r'\`\<b>` \<i>'),
        ('open ` <b>', r'open ` \<b>'),
        ('x < 3, 84.3 ± 0.4 [0.9] *', 'x < 3, 84.3 ± 0.4 [0.9] *'),
    ],
)
def test_markdown_shows_a_text_as_it_is(text, shown):
    assert tables.as_markdown(text) == shown
    table = tables.Table(['a', text], [[f'{text} | c', 'b\nd']], text)
    titles, rule, row, _, caption, _ = table.markdown().split('\n')
    assert titles == f'| a | {shown} |'
    assert rule == '| --- | --- |'
    assert row == rf'| {shown} \| c | b d |'
    assert caption == shown


def test_stars_of_bold_cells_are_shown():
    cells = ['+84.3 ± 0.4 [0.9] **', '-1.5 *', 'FedAvg* of `a*b`', '*mine* ↑']
    table = tables.Table(
        ['a'], [[cell] for cell in cells], '', [(k, 0) for k in range(4)]
    )
    rows = table.markdown().splitlines()[2:6]
    assert rows[0] == r'| **+84.3 ± 0.4 [0.9] \*\*** |'
    markdown_it = pytest.importorskip('markdown_it')
    page = markdown_it.MarkdownIt('commonmark').enable('table').render(table.markdown())
    for cell in cells:
        code = cell.replace('`a*b`', '<code>a*b</code>')
        assert f'<strong>{code}</strong>' in page


def test_a_table_without_columns_is_its_caption():
    table = tables.from_rows([], 'No links & rounds.')
    assert table.text() == 'No links & rounds.'
    assert table.markdown() == 'No links & rounds.\n'
    assert table.latex() == '% No links & rounds.\n'
    assert table.as_html() == '<p>No links &amp; rounds.</p>'


def test_a_table_as_html_has_its_cells_and_its_caption():
    rows = [['1', '2 & 3'], ['4', '5']]
    table = tables.Table(['a < b', 'x'], rows, 'what & why', {(1, 0)})
    text = table.as_html()
    cells = re.findall(r'<t[hd]>(.*?)</t[hd]>', text)
    assert cells == ['a &lt; b', 'x', '1', '2 &amp; 3', '<b>4</b>', '5']
    assert text.endswith('<p>what &amp; why</p>')
