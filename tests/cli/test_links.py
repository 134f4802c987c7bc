"""The commands that draw links and figures."""

from tests.cli.command import run


def test_links_are_drawn_on_the_terminal_and_into_the_folder(tmp_path):
    folder = tmp_path / 'new' / 'links'
    done = run('links', '--config=configs/quickstart.py', '--rounds=500', f'--workdir={folder}')
    assert done.returncode == 0, done.stderr
    assert sorted(file.name for file in folder.iterdir()) == ['links.csv', 'links.png']
    lines = done.stdout.splitlines()
    assert lines[-1] == f'Wrote links.png and links.csv to {folder}'
    assert len(lines) <= 31
    assert max(map(len, lines[:-1])) <= 80
    assert len((folder / 'links.csv').read_text().splitlines()) == 51


def test_without_a_folder_nothing_is_written(tmp_path):
    done = run('links', '--config=configs/quickstart.py', '--rounds=50')
    assert done.returncode == 0, done.stderr
    assert 'Wrote' not in done.stdout


def test_a_figure_is_one_command(tmp_path):
    done = run(
        'figure',
        '--config=configs/sun2025_figure1.py',
        '--quick',
        f'--workdir={tmp_path}',
    )
    assert done.returncode == 0, done.stderr
    names = sorted(file.name for file in tmp_path.iterdir())
    assert names == ['figure.csv', 'figure.md', 'figure.png']
    assert 'Deviations: its random p_i are not specified' in ' '.join(done.stdout.split())
    assert 'lognormal draws, sigma 1' in done.stdout
