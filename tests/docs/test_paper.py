"""The page on tables and figures leads from a run to a paper."""

import shlex
import shutil
import subprocess

import pytest

from fedjax_links import experiment, report
from tests import rendering
from tests.cli import command
from tests.docs import pages
from tests.experiment.configs import tuned


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    """A folder with a finished run, in which the page's commands are typed."""
    folder = tmp_path_factory.mktemp('paper')
    names = [['fedavg', 'FedAvg_1'], ['bernoulli', 'Links & more']]
    run = experiment.build(tuned(names=names)).run(folder / 'runs' / 'mine')
    with rendering.skipped():
        report.write(run)
    return folder


@pytest.fixture(scope='module')
def written(folder):
    """The folder after all commands and the code of the page."""
    for line in pages.commands(pages.PAPER):
        line, _, target = line.partition(' > ')
        done = command.run(*shlex.split(line)[3:], cwd=folder)
        assert done.returncode == 0, done.stderr
        if target:
            (folder / target).write_text(done.stdout)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        namespace = {'__name__': 'page'}
        for block in pages.blocks(pages.PAPER):
            pages.printed(block.source, namespace)
    return folder


def test_every_file_that_the_page_names_is_there(written):
    run = written / 'runs' / 'mine'
    assert (run / 'curves.pdf').read_bytes()[:5] == b'%PDF-'
    assert 'over 2 seeds' in (run / 'curves_caption.tex').read_text()
    assert (written / 'mine.pdf').read_bytes()[:5] == b'%PDF-'
    names = {path.name for path in (written / 'paper').iterdir()}
    assert names >= {'curves.pdf', 'bars.pdf', 'bars_caption.tex'}
    assert 'FedAvg\\_1' in (written / 'final.tex').read_text()


def test_latex_accepts_the_table_the_picture_and_the_caption(written):
    if shutil.which('pdflatex') is None:
        pytest.skip('LaTeX is not installed')
    (source,) = pages.code(pages.PAPER.read_text(), 'latex')
    (written / 'paper.tex').write_text(source)
    done = subprocess.run(
        ['pdflatex', '-interaction=nonstopmode', '-halt-on-error', 'paper.tex'],
        cwd=written,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:]
    if shutil.which('pdftotext'):
        text = subprocess.run(
            ['pdftotext', 'paper.pdf', '-'], cwd=written, capture_output=True, text=True
        ).stdout
        assert 'FedAvg_1' in text
        assert 'Links & more' in text
        assert 'over 2 seeds' in text
