"""What README.md and the page on the start show is executed; the numbers of pages are right."""

import os
import re
import shlex
import shutil
import subprocess
import sys

import pytest

import fedjax_links as fl
from tests import ROOT
from tests.cli import command
from tests.docs import pages
from tests.experiment.several import environment

README = (ROOT / 'README.md').read_text()
START = (ROOT / 'docs/start.md').read_text()
BESIDE = (ROOT / 'docs/beside.md').read_text()
SOFTWARE_PAPER = (ROOT / 'docs/paper.md').read_text()


def one_line(page):
    """Returns a page in one line, to search for sentences."""
    return ' '.join(page.split())


INSTALL_AND_RUN, TEST = pages.code(README, 'bash')
(REPORT,) = [
    line for line in pages.commands(pages.DOCS / 'commands.md') if 'report' in line
]


def test_the_example_recovers_the_exact_bias():
    source = pages.code(README, 'python')[0]
    text = pages.printed(source, {'__name__': '__main__'})
    fedavg = float(re.search(r"fedavg \{'server': ([\d.]+)\}", text)[1])
    client_mean = float(re.search(r"'client_mean': ([\d.]+)", text)[1])
    assert '34.615' in text
    # Standard error over 1000 seeds, measured 0.3.
    assert abs(fedavg - 34.615) < 4 * 0.3
    assert client_mean == 50.0
    assert '34.4 with' in one_line(README)
    assert f'{fedavg:.1f}' == '34.4'


@pytest.mark.slow
def test_the_first_command_prints_the_table_that_the_start_shows(tmp_path):
    """As shown, except for the interpreter and the folder."""
    install = [
        'python3 -m venv .venv && source .venv/bin/activate',
        'pip install -q -e .',
    ]
    *before, simulate = INSTALL_AND_RUN.strip().splitlines()
    assert before == install
    words = shlex.split(simulate)
    assert words[0] == 'python'
    done = subprocess.run(
        [sys.executable, *words[1:-1], f'--workdir={tmp_path / "run"}'],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    row = r'^\| (fed\w+) \| (server|client mean) \| ([\d.]+) '
    shown = re.findall(row, START, flags=re.MULTILINE)
    report = (tmp_path / 'run' / 'report.md').read_text()
    result = re.findall(row, report, flags=re.MULTILINE)
    assert len(shown) == 4
    assert [row[:2] for row in result] == [row[:2] for row in shown]
    for ours, theirs in zip(result, shown, strict=True):
        assert float(ours[2]) == pytest.approx(float(theirs[2]), abs=0.02)
    difference = re.search(
        r'client mean ends ([\d.]+) ± ([\d.]+) points above FedAvg', one_line(README)
    )
    ahead = f'+{difference[1]} ± {difference[2]} ** | ahead |'
    assert f'| fedpbc | client mean | 93.3 ± 0.4 | {ahead}' in report
    above = f'client mean is {difference[1]} ± {difference[2]} points above FedAvg'
    assert above in one_line(START)
    for name in re.findall(r'`(\w+\.(?:png|jsonl|json|npz|md))`', START):
        assert (tmp_path / 'run' / name).exists() or (ROOT / name).exists(), name
    again = shlex.split(REPORT)
    assert again[-1] == words[-1]  # the same folder
    done = command.run(*again[3:-1], f'--workdir={tmp_path / "run"}')
    assert done.returncode == 0, done.stderr
    assert (tmp_path / 'run' / 'report.md').read_text() == report


def test_the_error_that_the_start_shows_is_the_error():
    done = command.run(
        'simulate', '--config=configs/quickstart.py', '--config.num_ronds=5'
    )
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == pages.code(START, 'text')[0].strip()


def test_the_test_command_is_the_one_that_ci_runs():
    """Which runs the first line of README that has the word."""
    assert TEST.strip().endswith('.venv/bin/python -m pytest -q -n 2')
    lines = [line for line in README.splitlines() if 'pytest' in line]
    assert lines[0] == TEST.strip()
    assert "grep -m 1 'pytest' README.md" in (ROOT / '.ci' / 'run').read_text()


def test_ci_leaves_the_environments_of_a_developer_alone(tmp_path):
    """Runs the whole script, with programs in place of those it installs that do nothing."""
    interpreters = [
        tmp_path / name / 'bin' / 'python' for name in ('.venv', '.venv-docs')
    ]
    install = (
        'for name in pip python ruff mypy; do ln -s /bin/true "$3/bin/$name"; done'
    )
    programs = {
        '.ci/package': '',
        'bin/python3': f'mkdir -p "$3/bin"; {install}',
    }
    for name, lines in programs.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f'#!/bin/sh\n{lines}\n')
        (tmp_path / name).chmod(0o755)
    for path in interpreters:
        path.parent.mkdir(parents=True)
        path.write_text('own')
    shutil.copy(ROOT / '.ci' / 'run', tmp_path / '.ci' / 'run')
    shutil.copy(ROOT / 'README.md', tmp_path)
    path = f'{tmp_path / "bin"}:{os.environ["PATH"]}'
    subprocess.run(
        [tmp_path / '.ci' / 'run'], env={'PATH': path}, check=True, timeout=60
    )
    assert [path.read_text() for path in interpreters] == ['own', 'own']


def test_the_numbers_of_algorithms_and_patterns_are_right():
    readme = one_line(README)
    beside = one_line(BESIDE)
    assert f'**{len(fl.ALGORITHMS)} algorithms**' in readme
    assert f'**{len(fl.PARTICIPATION)} participation patterns**' in readme
    assert f'{len(fl.ALGORITHMS)} in all' in beside
    assert f'{len(fl.PARTICIPATION)} participation patterns' in beside
    both = f'{len(fl.ALGORITHMS)} algorithms and {len(fl.PARTICIPATION)} participation patterns'
    assert both in one_line(SOFTWARE_PAPER)


SPEED_FACTORS = ('25.1', '120', '1,529')
"""Of this package over FedJAX, pfl-research and Flower."""


@pytest.mark.parametrize('number', [*SPEED_FACTORS, '0.92', '1.07', '1.85', '1.29'])
def test_pages_repeat_what_was_measured(number):
    """A new measurement changes docs/speed.md, and then these pages."""
    speed = (ROOT / 'docs' / 'speed.md').read_text()
    _, _, measured = speed.partition('<!-- benchmarks -->')
    value = re.escape(number)
    spread = re.search(rf'\| {value} \w+ \(([\d., to]+)\)', measured)[1]
    assert re.search(rf'\b{value}\b', SOFTWARE_PAPER)
    if number in SPEED_FACTORS:
        row = rf'\| {value} times[\w ]* \({re.escape(spread)}\) \|'
        assert re.search(row, BESIDE)
