"""Pictures for a paper have the width that was asked for, and their captions apart."""

import re

import pytest
from matplotlib import image

from fedjax_links import experiment, report, runs
from fedjax_links.report import layouts, run_view
from tests.cli import command
from tests.experiment.configs import values
from tests.refusals import names

REPORTS = {
    name: {'name': name}
    for name in ('curves', 'comparison', 'bars', 'overview', 'metrics')
}
PATTERNS = {
    name: {'name': 'bernoulli', 'probs': prob}
    for name, prob in (('often', 0.9), ('rarely', 0.3))
}


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    """A run of two patterns, with every kind of picture."""
    folder = tmp_path_factory.mktemp('pictures') / 'run'
    config = values(
        links=None,
        patterns=PATTERNS,
        algorithms={'fedavg': {}, 'fedpbc': {}},
        reports=REPORTS,
        caption='50 % of _all_.\n\nMore.',
    )
    experiment.build(config).run(folder)
    return folder


@pytest.mark.slow
@pytest.mark.filterwarnings('error::UserWarning')  # of a layout that does not fit
@pytest.mark.parametrize('width', [2.5, 6.9])
def test_every_picture_has_the_width(folder, tmp_path, width):
    written = report.save_pictures(folder, tmp_path, form='png', width=width)
    pictures = [name for name in written if name.endswith('.png')]
    assert set(pictures) >= {'curves.png', 'comparison.png', 'bars.png', 'links.png'}
    assert 'metrics.png' not in pictures
    for name in pictures:
        height, pixels, _ = image.imread(tmp_path / name).shape
        assert pixels == pytest.approx(300 * width, abs=1)
        assert 0.15 < height / pixels < 6


def test_as_many_panels_stand_side_by_side_as_fit(folder):
    view = run_view.from_run(runs.read(folder))
    page = layouts.curves(view)
    heights = [page.resize(width).size[1] for width in (3.3, 6.9)]
    assert heights[0] > 1.5 * heights[1]  # two rows of panels, and one


def test_a_pdf_has_the_size_in_points_and_always_the_same_bytes(folder, tmp_path):
    for name in ('first', 'again'):
        report.save_pictures(folder, tmp_path / name, width=3.3, pages=['curves'])
    first = (tmp_path / 'first' / 'curves.pdf').read_bytes()
    assert first == (tmp_path / 'again' / 'curves.pdf').read_bytes()
    box = re.search(rb'/MediaBox \[ ?0 0 ([\d.]+) ([\d.]+) ?\]', first)
    assert float(box[1]) == pytest.approx(3.3 * 72, abs=0.1)


@pytest.mark.usefixtures('unrendered')
def test_a_file_of_the_user_stops_all_pictures(folder, tmp_path):
    (tmp_path / 'comparison_caption.tex').write_text('by hand')
    with names('folder', 'comparison_caption.tex'):
        report.save_pictures(folder, tmp_path, pages=['curves', 'comparison'])
    assert [path.name for path in tmp_path.iterdir()] == ['comparison_caption.tex']


def test_a_caption_is_one_paragraph_of_latex(folder, tmp_path):
    report.save_pictures(folder, tmp_path, form='svg', pages=['curves'])
    caption = (tmp_path / 'curves_caption.tex').read_text()
    assert caption.count('\n') == 1
    assert r'50 \% of \_all\_. More.' in caption
    assert caption.startswith('Lines: ')
    text = (tmp_path / 'curves.svg').read_text()
    assert '50 %' not in text
    assert 'rarely' in text  # letters stay text


@pytest.mark.slow
def test_the_command_saves_them_in_the_folder_of_the_run(folder):
    done = command.run('report', f'--workdir={folder}', '--form=pdf', '--width=3.3')
    assert done.returncode == 0, done.stderr
    assert 'curves.pdf, curves_caption.tex' in done.stdout
    assert (folder / 'curves.pdf').exists()
    assert not (folder / 'report.md').exists()


def test_a_table_takes_options(folder):
    words = ['report', f'--workdir={folder}', '--table=final', '--form=latex']
    done = command.run(
        *words, '--options={"best": "bold", "rows": "pattern", "columns": "algorithm"}'
    )
    expected = report.table(
        folder, 'final', best='bold', rows='pattern', columns='algorithm', form='latex'
    )
    assert done.stdout == expected
    assert r'\textbf' in expected


@pytest.mark.parametrize(
    'flags, words',
    [
        (['--width=3.3'], '`width` must be of pictures for a paper, with `form` pdf'),
        (['--form=pdf', '--width=50'], '`width` must lie in [2, 20], got 50.0'),
        (['--form=jpg'], "`form` has no 'jpg'; did you mean 'png'?"),
        (
            ['--form=latex'],
            '`form` must go with `table`, the name of a layout, got latex',
        ),
        (['--table=final', '--form=pdf'], "`form` has no 'pdf'; valid names"),
        (['--table=final', '--width=3'], '`width` must be of pictures for a paper'),
        (['--options={}'], '`table` must name a layout, for `options`'),
        (['--table=final', '--options={'], '`options` must be JSON'),
        (
            ['--table=final', '--options={"best": "bold", "best": "none"}'],
            '`options` must be JSON, got {"best": "bold", "best": "none"}: \'best\' stands',
        ),
        (
            ['--table=final', '--options=best=bold'],
            '`options` must be JSON or name its file, got best=bold: No such file',
        ),
        (
            ['--table=final', f'--options={{"x": {"[" * 10**4}'],
            '`options` must be JSON',
        ),
    ],
)
def test_a_flag_without_effect_costs_a_line(folder, flags, words):
    assert words in command.refused('report', f'--workdir={folder}', *flags)


@pytest.mark.usefixtures('unrendered')
def test_pages_without_a_picture_cost_a_line(folder, tmp_path):
    with names('pages', 'name one with a picture, got metrics'):
        report.save_pictures(folder, tmp_path, pages=['metrics'])
    with names('pages', "has no 'curve'; did you mean 'curves'?"):
        report.save_pictures(folder, tmp_path, pages=['curve'])
    (tmp_path / 'curves.pdf').write_bytes(b'mine')
    with names('folder', 'hold no other curves.pdf'):
        report.save_pictures(folder, tmp_path, pages=['curves'])
    assert (tmp_path / 'curves.pdf').read_bytes() == b'mine'


@pytest.mark.usefixtures('unrendered')
@pytest.mark.parametrize('pages', [['links'], ['links', 'curves']])
def test_pages_of_links_are_saved_by_name(folder, tmp_path, pages):
    written = report.save_pictures(folder, tmp_path, pages=pages)
    assert {name for name in written if name.endswith('.pdf')} == {
        f'{page}.pdf' for page in pages
    }
