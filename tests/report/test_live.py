"""The live view of a run that has not ended."""

import base64
import dataclasses
import html.parser
import re
import shutil
import threading

import numpy as np
import pytest

from fedjax_links import experiment, runs
from fedjax_links.report import live
from fedjax_links.runner import save_clock
from fedjax_links.storage import checkpoints, checksummed_npz
from tests.experiment.configs import values
from tests.storage.flips import flip_bit

PATTERNS = {name: {'name': 'bernoulli', 'probs': 0.5} for name in ('some', 'others')}


def run_until(folder, config, algorithm, seed, round):
    """Runs a config, and stops when the lane with this seed has completed a round."""

    class StopAtRound(experiment.Callback):
        def on_period(self, lane, record):
            if (lane.algorithm, lane.seed, record['round']) == (algorithm, seed, round):
                raise experiment.Stop

    with pytest.raises(experiment.Stop):
        experiment.build(config).run(folder, [StopAtRound()], devices=1)


@pytest.fixture(scope='module')
def half_run(tmp_path_factory):
    """A run in which two seeds of FedAvg are done, the third is at round 4 of 8."""
    folder = tmp_path_factory.mktemp('half') / 'run'
    config = values(num_rounds=8, num_seeds=3, algorithms={'fedavg': {}, 'fedpbc': {}})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(save_clock.SaveClock, 'is_due', lambda clock: True)
        run_until(folder, config, 'fedavg', seed=2, round=4)
    return folder


@pytest.fixture
def half(half_run, tmp_path):
    """A copy of that run, which a test may change."""
    return shutil.copytree(half_run, tmp_path / 'run')


def test_the_metric_is_that_of_the_round_most_seeds_completed(half):
    """Compared with a mean over the lines of metrics."""
    rows = runs.read(half).to_pandas()
    assert rows.groupby('seed')['round'].max().tolist() == [8, 8, 4]
    expected = rows[rows['round'] == 8]['server/eval_accuracy'].mean()
    result = live.read(half)
    assert list(live.progress_lines(result)) == [
        f'metric   fedavg: eval accuracy {100 * expected:.1f} % in round 8, 2 of 3 seeds',
        'open     fedavg, fedpbc',
    ]


def test_lines_say_how_many_diverged_lanes_they_leave_out(half):
    phrases = [f'phrase {number}' for number in range(43)]
    view = dataclasses.replace(live.read(half), diverged=phrases)
    lines = [line for line in live.progress_lines(view) if line.startswith('diverged')]
    assert lines[-2:] == ['diverged phrase 39', 'diverged and 3 more']


@pytest.mark.usefixtures('unrendered')
def test_a_pattern_of_undecided_seeds_may_not_have_started(tmp_path, monkeypatch):
    monkeypatch.setattr(save_clock.SaveClock, 'is_due', lambda clock: True)
    config = values(
        links=None,
        patterns=PATTERNS,
        algorithms={'fedavg': {}, 'fedpbc': {}},
        num_rounds=8,
        num_seeds=None,
        seeds={'until': 'decided', 'least': 2, 'most': 3},
    )
    run_until(tmp_path, config, 'fedavg', seed=0, round=4)
    result = live.read(tmp_path)
    rows = runs.read(tmp_path).to_pandas()
    assert set(rows['pattern']) == {'some'}
    expected = 100 * rows['server/eval_accuracy'].iloc[-1]
    assert list(live.progress_lines(result)) == [
        f'metric   fedavg, some: eval accuracy {expected:.1f} % in round 4, '
        '1 of 1 seeds',
        'open     fedavg, fedpbc',
    ]
    live.write(result, tmp_path, [], seconds=None)
    assert 'Learning curves' in (tmp_path / live.PAGE).read_text()


def test_where_most_are_behind_the_metric_is_theirs(half):
    for seed in (0, 1):
        (end,) = (half / runs.CHECKPOINTS).glob(f'main-fedavg-0000-links-{seed}@8.npz')
        end.unlink()
        assert max(runs.saves(half)[f'main-fedavg-0000-links-{seed}']) == 6
    (ahead,) = (half / runs.CHECKPOINTS).glob('main-fedavg-0000-links-2@4.npz')
    rows = runs.read(half).to_pandas()
    expected = rows[rows['round'] == 6]['server/eval_accuracy'].mean()
    shown = next(live.progress_lines(live.read(half)))
    assert shown.endswith(
        f'eval accuracy {100 * expected:.1f} % in round 6, 2 of 3 seeds'
    )
    ahead.unlink()
    for seed in (0, 1):
        (end,) = (half / runs.CHECKPOINTS).glob(f'main-fedavg-0000-links-{seed}@6.npz')
        end.unlink()
    assert next(live.progress_lines(live.read(half))).endswith(
        'in round 2, 1 of 3 seeds'
    )


def test_links_so_far_end_where_the_first_seed_is(half):
    mask = runs.links(half).masks['links'][0]
    result = live.read(half)
    assert mask.shape[0] == 8
    np.testing.assert_array_equal(result.links['links'].mask, mask)
    for end in (half / runs.CHECKPOINTS).glob('main-fedavg-0000-links-0@8.npz'):
        end.unlink()
    np.testing.assert_array_equal(live.read(half).links['links'].mask, mask[:6])


class Page(html.parser.HTMLParser):
    """The tags, with their attributes, and the text of a page."""

    def __init__(self, source):
        """Parses the source of a page."""
        super().__init__()
        self.tags = []
        self.text = ''
        self.feed(source)

    def handle_starttag(self, tag, attrs):
        """Adds a tag."""
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        """Adds text."""
        self.text += data


def page_of(folder):
    return Page((folder / live.PAGE).read_text())


def test_a_live_page_is_one_file_that_reloads_until_the_end(half):
    live.write(live.read(half), half, ['metric   a < b & c'], seconds=7)
    page = page_of(half)
    assert ('meta', {'http-equiv': 'refresh', 'content': '7'}) in page.tags
    assert 'metric   a < b & c' in page.text
    pictures = [attrs['src'] for tag, attrs in page.tags if tag == 'img']
    assert len(pictures) == 2
    for picture in pictures:
        kind, _, content = picture.partition(',')
        assert kind == 'data:image/png;base64'
        assert base64.b64decode(content).startswith(b'\x89PNG')
    assert not [attrs for _, attrs in page.tags if {'href'} & attrs.keys()]
    live.write(live.read(half), half, [], seconds=None)
    assert 'refresh' not in (half / live.PAGE).read_text()


@pytest.mark.usefixtures('unrendered')
def test_patterns_and_points_that_have_not_begun_are_left_blank(tmp_path):
    """Two patterns and two rates, of which the first rate is done under the first pattern."""
    grid = {'client': {'learning_rate': [0.1, 0.05]}}
    config = values(links=None, patterns=PATTERNS, grid=grid)
    run_until(tmp_path, config, 'fedavg', seed=1, round=4)
    result = live.read(tmp_path)
    first, *rest = live.progress_lines(result)
    assert first.startswith('metric   fedavg (learning_rate 0.1), some: eval accuracy ')
    assert first.endswith(' % in round 4, 2 of 2 seeds')
    assert rest == ['open     fedavg']
    live.write(result, tmp_path, [first], seconds=1)
    assert [tag for tag, _ in page_of(tmp_path).tags].count('img') == 2


def test_a_run_that_still_tunes_has_no_metric(tmp_path):
    tuning = {
        'learning_rates': (0.001, 0.1),
        'grow': 0,
        'num_rounds': 4,
        'num_seeds': 2,
    }
    config = values(
        client={'local_steps': 2, 'batch_size': 4},
        algorithms={'fedavg': {}, 'fedpbc': {}},
        tuning=tuning,
    )
    run_until(tmp_path, config, 'fedavg', seed=10_000, round=4)
    result = live.read(tmp_path)
    (line,) = live.progress_lines(result)
    assert re.fullmatch(r'open     fedavg( \(tuning: \d of 2 tried\))?, fedpbc', line)
    live.write(result, tmp_path, [line], seconds=1)
    assert not [tag for tag, _ in page_of(tmp_path).tags if tag == 'img']


@pytest.mark.slow
def test_a_reader_never_sees_a_lane_that_is_half_saved(tmp_path, monkeypatch):
    """A run saves after every period while another thread reads its folder."""
    monkeypatch.setattr(save_clock.SaveClock, 'is_due', lambda clock: True)
    read_errors = []
    has_all_rounds = []  # of each reading
    has_ended = threading.Event()

    def read_until_the_end():
        while not has_ended.is_set():
            try:
                verify = len(has_all_rounds) % 2 == 0
                rows = runs.read(tmp_path, verify=verify).to_pandas()
                if len(rows):
                    rounds = rows.groupby('seed')['round']
                    has_all_rounds.append((2 * rounds.count() == rounds.max()).all())
            except Exception as error:
                if 'hold a run' not in str(error):
                    read_errors.append(error)

    thread = threading.Thread(target=read_until_the_end)
    thread.start()
    config = values(num_rounds=400, num_seeds=3)
    try:
        experiment.build(config).run(tmp_path)
    finally:
        has_ended.set()
        thread.join()
    assert not read_errors
    assert len(has_all_rounds) > 5
    assert all(has_all_rounds)


def test_a_save_that_is_replaced_while_it_is_read_is_found(half, monkeypatch):
    """A lane saves again between the listing of files and their reading."""
    path = half / runs.CHECKPOINTS / 'main-fedavg-0000-links-0@8.npz'
    with np.load(path) as stored:
        entries = dict(stored)
    lines = bytes(entries['lines']).replace(b'"round": 8', b'"round": 10')
    entries['lines'] = np.frombuffer(lines, np.uint8)
    content = path.read_bytes()
    content_later = checksummed_npz.npz(entries, compress=False)
    read = checkpoints.read
    later = path.with_name('main-fedavg-0000-links-0@10.npz')

    def save_again(file, **options):
        if file == path and not later.exists():
            later.write_bytes(content_later)
            path.unlink()
        return read(file, **options)

    monkeypatch.setattr(checkpoints, 'read', save_again)
    for verify in (True, False):
        assert 10 in [lane.round for lane in runs.lanes(half, verify=verify)]
        later.unlink()
        path.write_bytes(content)


def test_a_damaged_lane_is_an_error_for_a_verified_reading(half):
    flip_bit(half / runs.CHECKPOINTS / 'main-fedavg-0000-links-0@8.npz', -1)
    with pytest.raises(checkpoints.DamagedError):
        runs.read(half)
