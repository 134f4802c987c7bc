"""What a dry run counts and times."""

import os
import re
import subprocess
import sys
import types

import pytest

from fedjax_links import algorithms, experiment, runs
from fedjax_links.core import errors, memory, reprs
from fedjax_links.machines.compile_clock import CompileClock
from fedjax_links.runner import dry_runs, lane_batch, program_cache, timing
from tests.experiment.configs import quadratic_values, tuned

CLIENT = {'learning_rate': 0.1, 'local_steps': 2, 'batch_size': 4}
PROBS = {'name': 'label_dependent', 'minimum': 0.2}  # by seed, but one program
PATTERNS = {
    'bernoulli': {'name': 'bernoulli', 'probs': PROBS},
    'markov': {'name': 'markov', 'probs': PROBS, 'up_rate': 0.3},
    'slower': {'name': 'markov', 'probs': PROBS, 'up_rate': 0.1},
}


def part(lines, name):
    """Returns the text of a part of the last line, such as '7 s'."""
    (line,) = [line for line in lines if line.startswith('time ')]
    return re.search(rf'{name} ([^,]+)', line)[1]


def set_costs(monkeypatch, *, compiling=0.0, compiling_again=0.0, lane=0.0, round=0.0):
    """Lets every program cost these seconds, and drawing links none."""
    cost = timing.ProgramCost(compiling, compiling_again, lane, round, 'some')
    monkeypatch.setattr(timing.LaneTimer, 'time_program', lambda *arguments: cost)
    monkeypatch.setattr(timing, 'time_links', lambda *arguments: 0.0)


def only_links_take_time(monkeypatch):
    """Lets drawing links take 1,000 seconds, and the rest of the start none."""
    monkeypatch.setattr(timing, 'time_links', lambda *arguments: 1000.0)
    monkeypatch.setattr(timing.LaneTimer, 'opening', 0.0, raising=False)
    monkeypatch.setattr(timing.LaneTimer, '__init__', lambda *arguments: None)


def test_few_rounds_a_second_have_digits():
    rates = [dry_runs._rate(rounds) for rounds in (0.0042, 0.9, 12.4, 12345.0)]
    assert rates == ['0.0042', '0.9', '12', '12,345']


@pytest.mark.parametrize(
    'platform, num_devices, expected',
    [
        ('gpu', 1, 'device   chip, 2,048.0 MiB free'),
        ('cpu', 2, 'device   2 x chip, 2,048.0 MiB free'),
        ('gpu', 2, 'device   2 x chip, 2,048.0 MiB free each'),
    ],
)
def test_several_accelerators_have_free_memory_each(
    monkeypatch, platform, num_devices, expected
):
    monkeypatch.setattr(memory, 'available_bytes', lambda: 2 * 2**30)
    device = types.SimpleNamespace(device_kind='chip', platform=platform)
    slot = types.SimpleNamespace(first_device=device, devices=[device])
    programs = types.SimpleNamespace(slots=[slot] * num_devices)
    assert dry_runs._device_line(programs) == expected


def test_a_dry_run_says_what_will_run_and_what_it_needs(monkeypatch):
    monkeypatch.setattr(timing, '_TIMED_SECONDS', 0.0)  # one period of each program
    planned = experiment.build(tuned(algorithms={'fedpbc': {}}, baseline='fedpbc'))
    lines = list(dry_runs.dry_run(planned.plan))
    text = '\n'.join(lines)
    assert 'config   num_rounds = 8' in text
    config = [line for line in text.splitlines() if line.startswith('config ')]
    assert max(map(len, config)) < 130
    assert (
        'fedpbc           4 lanes of tuning and 4 lanes in 2 programs; a lane keeps'
        in text
    )
    # Softmax regression on 64 pixels has 650 parameters; every one of 8 clients keeps them.
    assert 'server 2.5 KiB, clients 20.3 KiB' in text
    assert len(re.findall(r'compiled in [\d.]+ s; [\d.,]+ rounds/s', text)) == 1
    assert 'compiles 4 programs: 2 of training, 2 of links' in lines
    assert any(line.startswith('time     about ') for line in lines)


def test_a_dry_run_adds_up_all_parts_of_a_run(monkeypatch):
    config = tuned(
        tuning=None, client=CLIENT, patterns=PATTERNS, algorithms={'fedavg': {}}
    )
    set_costs(monkeypatch, compiling=107.0, compiling_again=7.0, lane=3.0, round=0.5)
    monkeypatch.setattr(timing, 'time_links', lambda *arguments: 120.0)
    monkeypatch.setattr(timing.LaneTimer, 'opening', 20.0, raising=False)
    monkeypatch.setattr(timing.LaneTimer, '__init__', lambda *arguments: None)
    clock = CompileClock()
    clock.seconds = 50.0
    options = dry_runs.DryRunOptions(
        seconds_so_far=55.0, clock=clock, time_report=lambda: (40.0, 30.0)
    )
    plan = experiment.build({**config, 'evaluate_start': True}).plan
    lines = list(dry_runs.dry_run(plan, options=options))
    counts = '1 of training, 3 of links, 1 of evaluation before the first round'
    assert f'compiles 5 programs: {counts}' in lines
    # 3 patterns x 2 seeds of 8 rounds.
    assert part(lines, 'start') == reprs.duration(5 + 20 + 120)
    assert part(lines, 'compilation') == reprs.duration(7)
    assert part(lines, 'rounds and evaluations') == reprs.duration(6 * 8 * 0.5)
    assert part(lines, 'beginning and saving lanes') == reprs.duration(6 * 3)
    assert part(lines, 'report') == reprs.duration(40)
    total = 145 + 7 + 24 + 18 + 40
    assert any(
        line.startswith(f'time     about {reprs.duration(total)}:') for line in lines
    )
    assert (
        f'about {reprs.duration(total + 100 + 50 + 30)} where JAX has none' in lines[-1]
    )


@pytest.mark.slow
def test_a_dry_run_counts_what_a_run_then_does(monkeypatch):
    """With a second for each, seconds are counts of programs, lanes and rounds."""
    config = tuned(
        tuning=None,
        client=CLIENT,
        grid={'client': {'local_steps': [1, 3]}},
        patterns=PATTERNS,
        evaluate_start=True,
        num_seeds=3,
    )
    set_costs(monkeypatch, compiling=1.0, compiling_again=1.0, lane=1.0, round=1.0)
    lines = list(dry_runs.dry_run(experiment.build(config).plan))
    monkeypatch.undo()
    compiled = []
    lanes = []
    rounds = []
    begin_compile = program_cache.Programs.begin_compile
    start = lane_batch.LaneBatch.start
    dispatch = lane_batch.LaneBatch.dispatch

    def note_compilation(self, function, *arguments, **options):
        compiled.append(function)
        return begin_compile(self, function, *arguments, **options)

    def note_lane(self):
        lanes.extend(self.lanes)
        start(self)

    def note_rounds(self, periods=1):
        rounds.append(periods * self._period * len(self.lanes))
        dispatch(self, periods)

    monkeypatch.setattr(program_cache.Programs, 'begin_compile', note_compilation)
    monkeypatch.setattr(lane_batch.LaneBatch, 'start', note_lane)
    monkeypatch.setattr(lane_batch.LaneBatch, 'dispatch', note_rounds)
    experiment.build(config).run()
    num_programs = len(set(map(id, compiled))) // 2  # each with one that starts
    assert part(lines, 'compilation') == reprs.duration(num_programs)
    assert part(lines, 'beginning and saving lanes') == reprs.duration(len(lanes))
    assert part(lines, 'rounds and evaluations') == reprs.duration(sum(rounds))


def counts_left(config, folder, **more):
    """Returns the text of a dry run, and its times of programs, of lanes and of rounds."""
    options = dry_runs.DryRunOptions(folder=folder, **more)
    plan = experiment.build(config).plan
    lines = list(dry_runs.dry_run(plan, options=options))
    names = 'compilation', 'beginning and saving lanes', 'rounds and evaluations'
    return '\n'.join(lines), [part(lines, name) for name in names]


@pytest.mark.slow
def test_what_a_folder_holds_is_not_counted_again(monkeypatch, tmp_path):
    """Two algorithms under three patterns with two seeds, eight rounds each."""
    config = tuned(tuning=None, client=CLIENT, patterns=PATTERNS)
    folder = tmp_path / 'run'
    experiment.build(config).run(folder)
    set_costs(monkeypatch, compiling=1.0, compiling_again=1.0, lane=1.0, round=1.0)

    def check(programs, lanes, rounds, line, folder=folder, **changes):
        text, counts = counts_left({**config, **changes}, folder)
        assert counts == [reprs.duration(n) for n in (programs, lanes, rounds)]
        assert line in text

    check(0, 0, 0, 'folder   holds 12 of 12 lanes; programs')
    check(0, 0, 0, 'nothing is left; needs')
    check(0, 0, 0, 'compiles 0 programs: 0 of training, 0 of links')
    check(2, 6, 6 * 8, 'folder   holds 12 of 18 lanes; programs', num_seeds=3)
    more_rounds = 'folder   holds 0 of 12 lanes and a part of 12; programs'
    check(2, 12, 12 * 8, more_rounds, num_rounds=16)
    refused = 'folder   is not counted: `workdir` must'
    check(2, 12, 12 * 8, refused, eval_every=2)
    check(2, 12, 12 * 8, 'compiles 5 programs', folder=tmp_path / 'new')
    for name, files in runs.saves(folder).items():
        if name.startswith('main-fedpbc'):
            for path in files.values():
                path.unlink()
    check(1, 6, 6 * 8, 'folder   holds 6 of 12 lanes; programs')


@pytest.mark.slow
def test_a_folder_of_other_data_counts_where_allowed(monkeypatch, tmp_path):
    config = tuned(tuning=None, client=CLIENT)
    experiment.build(config).run(tmp_path)
    set_costs(monkeypatch, round=1.0)
    config['problem'] = {**config['problem'], 'seed': 1}
    text, counts = counts_left(config, tmp_path)
    assert 'folder   is not counted: ' in text
    assert counts[2] != reprs.duration(0)
    text, counts = counts_left(config, tmp_path, allow_changed=True)
    assert 'folder   holds ' in text
    assert counts[2] == reprs.duration(0)


def test_a_folder_of_other_programs_is_refused_as_by_the_run(monkeypatch, tmp_path):
    """The config is the same; the algorithm that it names was edited since."""
    config = quadratic_values()
    experiment.build(config).run(tmp_path)
    set_costs(monkeypatch, round=1.0)
    monkeypatch.setitem(algorithms.ALGORITHMS, 'fedavg', algorithms.ALGORITHMS['area'])
    edited = experiment.build(config)
    with pytest.raises(errors.InvalidError, match='--allow_changed') as refused:
        edited.run(tmp_path)
    text, _ = counts_left(config, tmp_path)
    assert f'folder   is not counted: {refused.value}\n' in text
    text, _ = counts_left(config, tmp_path, allow_changed=True)
    assert 'folder   holds ' in text


@pytest.mark.slow
def test_links_that_the_folder_has_are_not_drawn_again(monkeypatch, tmp_path):
    config = tuned(tuning=None, client=CLIENT)
    experiment.build(config).run(tmp_path / 'run')
    set_costs(monkeypatch, round=1.0)
    only_links_take_time(monkeypatch)
    plan = experiment.build(config).plan
    starts = []
    for name in ('run', 'new'):
        options = dry_runs.DryRunOptions(folder=tmp_path / name)
        lines = list(dry_runs.dry_run(plan, options=options))
        starts.append(part(lines, 'start'))
    assert starts == [reprs.duration(0), reprs.duration(1000)]


@pytest.mark.slow
def test_no_further_lanes_are_announced_after_tuning(monkeypatch, tmp_path):
    planned = experiment.build(tuned())
    planned.run(tmp_path)
    set_costs(monkeypatch, compiling=1.0, compiling_again=1.0, lane=1.0, round=1.0)
    text, counts = counts_left(tuned(), tmp_path)
    assert counts == [reprs.duration(0)] * 3
    assert 'as results ask for' not in text
    assert 'as results ask for' in counts_left(tuned(), None)[0]


@pytest.mark.slow
def test_each_program_and_each_kind_of_links_is_timed(monkeypatch):
    """A grid of local steps has a program for each value, which takes its own time."""
    monkeypatch.setattr(timing, '_TIMED_SECONDS', 0.0)
    timed = []
    time_program = timing.LaneTimer.time_program

    def note_lanes(self, lanes, after=None):
        timed.append(timing.timed_lanes(self._programs, lanes))
        return time_program(self, lanes, after)

    monkeypatch.setattr(timing.LaneTimer, 'time_program', note_lanes)
    config = tuned(
        tuning=None,
        client=CLIENT,
        grid={'client': {'local_steps': [1, 3]}},
        patterns=PATTERNS,
        algorithms={'fedavg': {}},
    )
    list(dry_runs.dry_run(experiment.build(config).plan))
    steps = [{lane.point['client.local_steps'] for lane in lanes} for lanes in timed]
    assert steps == [{1}, {3}]
    for lanes in timed:
        assert {lane.pattern for lane in lanes} == set(PATTERNS)


@pytest.mark.slow
def test_lanes_side_by_side_are_compiled_before_they_are_timed(monkeypatch):
    """As wide as they run, or the first timed lanes would take the time to compile."""
    monkeypatch.setattr(timing, '_TIMED_SECONDS', 0.0)
    plan = experiment.build(
        tuned(tuning=None, client=CLIENT, algorithms={'fedavg': {}}, num_seeds=3)
    ).plan
    programs = program_cache.Programs(plan, side_by_side=True)
    widths = []
    compiled = []
    begin_compile = program_cache.Programs.begin_compile
    advance = timing.LaneTimer._advance

    def note_compilation(self, function, args, *, width, slot):
        widths.append(width)
        return begin_compile(self, function, args, width=width, slot=slot)

    def note_lanes(self, *arguments):
        before = set(programs._compiling)
        seconds = advance(self, *arguments)
        compiled.extend(set(programs._compiling) - before)
        return seconds

    monkeypatch.setattr(program_cache.Programs, 'begin_compile', note_compilation)
    monkeypatch.setattr(timing.LaneTimer, '_advance', note_lanes)
    list(dry_runs.dry_run(plan, programs))
    assert set(widths) == {3}  # the seeds of a pattern
    assert not compiled


def test_clients_are_measured_at_lanes_that_leave_models(monkeypatch):
    """Lanes of tuning come first, here with a program of their own."""
    stages = []

    def time_nothing(self, lanes, after=None):
        if after is not None:
            after(None, lanes)
        return timing.ProgramCost(0.0, 0.0, 0.0, 1.0, 'some')

    monkeypatch.setattr(timing.LaneTimer, 'time_program', time_nothing)
    monkeypatch.setattr(
        program_cache.Programs,
        'by_program',
        lambda self, lanes: [
            [lane for lane in lanes if lane.stage == stage]
            for stage in ('tuning', 'main', 'main')
        ],
    )
    options = dry_runs.DryRunOptions(
        after_lanes=lambda folder, lanes: stages.append({lane.stage for lane in lanes})
    )
    list(dry_runs.dry_run(experiment.build(tuned()).plan, options=options))
    assert stages == [{'main'}, {'main'}]  # once for each algorithm


def test_only_the_first_shard_records_links(monkeypatch):
    set_costs(monkeypatch, round=1.0)
    only_links_take_time(monkeypatch)
    planned = experiment.build(tuned())
    starts = [
        part(list(dry_runs.dry_run(planned.shard(index, 2).plan)), 'start')
        for index in range(2)
    ]
    assert starts == [reprs.duration(1000), reprs.duration(0)]


def test_the_clock_counts_only_what_the_cache_lacks(tmp_path):
    """A second process reads what the first one compiled."""
    code = """
import jax
from fedjax_links.machines.compile_clock import CompileClock
with CompileClock() as clock:
    jax.jit(lambda x: (x @ x).sum())(jax.numpy.ones((3, 3))).block_until_ready()
print(clock.seconds > 0)
"""
    variables = {
        **os.environ,
        'JAX_COMPILATION_CACHE_DIR': str(tmp_path),
        'JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS': '0',
        'JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES': '-1',
    }
    has_compiled = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, '-c', code],
            capture_output=True,
            text=True,
            check=True,
            env=variables,
        )
        has_compiled.append(done.stdout.strip())
    assert has_compiled == ['True', 'False']


def test_delayed_short_lanes_do_not_make_rounds_free():
    """Of 2 lanes, 1 and 5 periods of 10 rounds are timed; a round takes 0.01 s."""
    lane, seconds = timing.split_seconds(0.3, 1.1, 5, num_lanes=2, period=10)
    assert (lane, seconds) == pytest.approx((0.05, 0.01))
    lane, seconds = timing.split_seconds(1.2, 1.1, 5, num_lanes=2, period=10)
    assert (lane, seconds) == pytest.approx((0, 0.011))
