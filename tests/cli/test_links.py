"""The commands that draw links and figures."""

import json

import numpy as np
import pytest

from tests.cli.command import refused, run


def test_links_are_drawn_on_the_terminal_and_into_the_folder(tmp_path):
    folder = tmp_path / 'new' / 'links'
    done = run(
        'links', '--config=configs/quickstart.py', '--rounds=500', f'--workdir={folder}'
    )
    assert done.returncode == 0, done.stderr
    assert {file.name for file in folder.iterdir()} == {'links.png', '.written.json'}
    lines = done.stdout.splitlines()
    assert lines[-1] == f'Wrote {folder}/links.png'
    assert len(lines) <= 31
    assert max(map(len, lines[:-1])) <= 80


def test_without_a_folder_nothing_is_written():
    done = run('links', '--config=configs/quickstart.py', '--rounds=50')
    assert done.returncode == 0, done.stderr
    assert 'Wrote' not in done.stdout


@pytest.mark.usefixtures('unrendered')
def test_a_figure_is_one_command(tmp_path):
    done = run(
        'figure',
        '--config=configs/sun2025_figure1.py',
        '--quick',
        f'--workdir={tmp_path}',
    )
    assert done.returncode == 0, done.stderr
    names = sorted(file.name for file in tmp_path.iterdir())
    assert names == ['.written.json', 'figure.csv', 'figure.md', 'figure.png']
    assert 'Deviations: its random p_i are not specified' in ' '.join(
        done.stdout.split()
    )
    assert 'lognormal draws, sigma 1' in done.stdout


@pytest.mark.usefixtures('unrendered')
def test_a_log_is_shown_without_a_config(tmp_path):
    rng = np.random.default_rng(0)
    timers = {}
    for k in range(12):
        starts = 86_400 * np.arange(7) + rng.integers(0, 30_000, 7)
        ends = starts + rng.integers(5_000, 40_000, 7)
        timers[f'phone{k}'] = {
            'isSuccess': True,
            'trace_start': 0.0,
            'trace_end': 604_800.0 + k,
            'ready_time': np.stack([starts, ends], axis=1).tolist(),
        }
    path = tmp_path / 'cached_timers.json'
    folder = tmp_path / 'new'
    path.write_text(json.dumps(timers))
    log = ['links', f'--log={path}', '--format=flash', '--tick=1800']
    done = run(*log, f'--workdir={folder}')
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == f'{path} (flash)'[:80]
    assert lines[1].startswith(
        "links: a log, 336 rounds of 1800 s (7 days); FedAvg's weights "
    )
    assert 'clients 12, rounds 336, empty rounds ' in done.stdout
    assert max(map(len, lines[:-1])) <= 80
    assert lines[-1] == f'Wrote {folder}/links.png'
    assert (folder / 'links.png').exists()
    few = run(*log, '--clients=3', '--rounds=100', '--tick=1000')
    assert '100 rounds of 1000 s (1.16 days)' in few.stdout
    assert 'clients 3, rounds 100, ' in few.stdout
    assert 'clients, best first (3 bands), by round 0 to 67' in few.stdout


def test_the_times_of_a_log_are_in_a_unit(tmp_path):
    """The same two nights in seconds, in hours, since 1970, and misread."""
    hours = np.array([[21, 30], [46, 54]])
    logs = {
        'seconds': 3600 * hours,
        'hours': hours,
        'thousandths': 3_600_000 * hours,
        'since 1970': 1_767_225_600 + 3600 * hours,
    }
    for name, intervals in logs.items():
        lines = [f'a,{start},{end}' for start, end in intervals]
        (tmp_path / f'{name}.csv').write_text('\n'.join(['client,start,end', *lines]))

    def shown(name, *arguments):
        done = run('links', f'--log={tmp_path}/{name}.csv', '--tick=3600', *arguments)
        assert (done.returncode, done.stderr) == (0, ''), done.stderr
        return done.stdout.splitlines()

    seconds = shown('seconds')
    assert 'clients 1, rounds 48, empty rounds 37, clients never active 0' in seconds
    longest = next(line for line in seconds if line.startswith('longest gap'))
    # From the last hour of one night to the next.
    assert longest.split()[2:] == ['17'] * 5
    for name, arguments in {
        'hours': ['--unit=h'],
        'since 1970': ['--origin=1767225600'],
    }.items():
        assert shown(name, *arguments)[1:] == seconds[1:]
    warning = (
        'warning  the log lasts 54 s and is repeated to fill a day; '
        'if its times are not in seconds, give their unit'
    )
    assert shown('hours')[0] == warning
    done = refused('links', f'--log={tmp_path}/since 1970.csv', '--tick=3600')
    assert "must begin within a year of time 0, as with the origin 'first'" in done
    assert 'warning' not in shown('since 1970', '--origin=first')[0]
    done = refused('links', f'--log={tmp_path}/thousandths.csv', '--tick=3600')
    assert 'must begin within a year of time 0' in done


def test_a_log_without_absences_is_drawn(tmp_path):
    (tmp_path / 'log.csv').write_text('client,start,end\na,0,90000\n')
    done = run(
        'links', f'--log={tmp_path}/log.csv', '--tick=7000', f'--workdir={tmp_path}'
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / 'links.png').exists()


def test_mistakes_about_a_log_cost_one_line(tmp_path):
    path = tmp_path / 'log.csv'
    path.write_text('client,start,end\n0,5,1\n')
    bad = tmp_path / 'bad.csv'
    bad.write_text('client,start\n0,5\n')
    two = tmp_path / 'two.csv'
    two.write_text('client,start,end\na,0,90000\nb,0,90000\n')
    far = tmp_path / 'far.csv'
    far.write_text('client,start,end\n0,0,1e300\n')
    empty = tmp_path / 'empty.csv'
    wide = tmp_path / 'wide.csv'
    empty.write_text('client,start,end\n0,0,0\n')
    wide.write_text('client,start,end\n' + 'x' * 140_000 + ',0,1\n')
    for flags, message in (
        (
            [f'--log={path}', '--format=flush'],
            "`format` has no 'flush'; did you mean 'flash'?",
        ),
        (
            [f'--log={path}', '--format=flash'],
            f'`log` must name a readable log, got {path}: ',
        ),
        (
            [f'--log={path}'],
            '`log.intervals` must not end before they start, got 5 to 1 s on line 2.',
        ),
        (
            [f'--log={bad}'],
            f"`log` must name a readable log, got {bad}: must have a column 'end' on ",
        ),
        ([f'--log={two}', '--clients=3'], '`clients` must be at most 2, got 3.'),
        ([f'--log={two}', '--rounds=1000000000'], '`rounds` must be at most 268435456'),
        ([f'--log={far}'], f'`log` must name a readable log, got {far}: `end` must be'),
        (
            [f'--log={two}', '--unit=h', '--format=flash'],
            "`format` has no 'unit'; valid names: cl",
        ),
        (
            [f'--log={two}', '--unit=hour'],
            f'`log` must name a readable log, got {two}: `unit` has',
        ),
        ([f'--log={empty}'], '`log.wrap` must be positive, got 0.0.'),
        ([f'--log={wide}'], f'`log` must name a readable log, got {wide}: '),
        (
            [f'--log={tmp_path}/none'],
            f'`log` must name a readable log, got {tmp_path}/none: No ',
        ),
        (
            [],
            '`config` must name a config or its file, such as --config=quickstart, got None.',
        ),
        (
            ['--config=quickstart', '--tick=600'],
            '`tick` must go with `log`, got 600.0.',
        ),
        (
            [f'--log={two}', '--pattern=links'],
            '`pattern` must be left out with `log`, ',
        ),
        (
            [f'--log={two}', '--config=quickstart'],
            f'`log` must be given without a config, got {two}.',
        ),
    ):
        line = refused('links', *flags)
        assert line.startswith(f'error: {message}')
        assert '`path`' not in line
