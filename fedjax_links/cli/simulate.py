"""Runs what a config describes: algorithms over link patterns, a grid of values and seeds.

python -m fedjax_links simulate --config=configs/quickstart.py --workdir=runs/quickstart

The same command resumes an interrupted run. A larger --config.num_rounds or --config.num_seeds
extends a finished run. A lane is one algorithm, pattern, grid point and seed. With --fork_from=RUN
--at_round=T the lanes of a new run begin at round T of another run. With --shard=3/64, or
--shard=auto in a task of a job array, the command runs one shard of the lanes. `merge` then merges
all shards, and `status` says how far the shards are.
"""

import dataclasses
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from absl import flags

from fedjax_links.cli import app, paths, sharding
from fedjax_links.core import errors
from fedjax_links.core.records import Section

if TYPE_CHECKING:
    from fedjax_links.experiment import Experiment
    from fedjax_links.experiment.forking import Fork
    from fedjax_links.runner.program_cache import Programs
    from fedjax_links.runs import Results

_DRY_RUN = 'dry run  compiles each program twice, times a few lanes, keeps nothing'


def define_flags() -> None:
    """Defines the flags of the command."""
    paths.define(
        'workdir',
        'Folder of the run, runs/NAME of the config by default; an interrupted run resumes.',
    )
    flags.DEFINE_bool(
        'start_over',
        False,
        'Set the folder aside (as WORKDIR.old-1, ...) and begin again.',
    )
    paths.define(
        'fork_from',
        'Folder of a run from whose lanes the new ones start; needs --at_round.',
    )
    flags.DEFINE_integer(
        'at_round',
        None,
        'Round at which the new lanes start; a multiple of eval_every of both runs.',
    )
    flags.DEFINE_bool(
        'allow_imports',
        False,
        'Let the config of --fork_from name code outside the package that this config does '
        'not name.',
    )
    flags.DEFINE_list(
        'log', [], 'Added to config.log: links, or module:factory of your own.'
    )
    flags.DEFINE_integer(
        'debug_round',
        None,
        'Name what is not finite in this round (from 0) of a folder, then stop.',
    )
    flags.DEFINE_integer(
        'devices',
        None,
        'Devices that lanes run on at the same time, or threads of a CPU; by default all, one'
        ' per core, or those of one mesh. Changes no bit.',
    )
    flags.DEFINE_string(
        'mesh',
        None,
        'clients:N lets N devices share the clients of every round of a lane.',
    )
    flags.DEFINE_string(
        'coordinator',
        None,
        'HOST:PORT where process 0 listens for the others of its --mesh; needs --num_processes '
        'and --process_id. Without all three they are those of a SLURM step of several tasks, '
        'of mpirun, or of an indexed job of Kubernetes, if there is one.',
    )
    flags.DEFINE_integer('num_processes', None, 'How many processes share --mesh.')
    flags.DEFINE_integer(
        'process_id',
        None,
        'Index of this process, from 0; process 0 saves the run and reports.',
    )
    flags.DEFINE_string(
        'shard',
        None,
        'I/N runs the lanes of one of N shards, I from 0 to N - 1 or from 1 to N, in a folder'
        ' of all; auto takes both from the task of a job array (SLURM, Grid Engine, LSF, '
        'SkyPilot).',
    )
    flags.DEFINE_bool(
        'portable',
        False,
        'The same bits on all CPUs with AVX2 and as many cores (or one NPROC), and slower; on'
        ' a GPU deterministic operations.',
    )
    flags.DEFINE_bool(
        'allow_mixed',
        False,
        'Shards may run on machines of different kinds, whose bits may differ; all lanes of a'
        ' seed stay on one.',
    )
    flags.DEFINE_bool(
        'allow_changed',
        False,
        'Resume in a folder of other programs or data; every report says what differed.',
    )
    flags.DEFINE_bool(
        'dry_run', False, 'Say what would run and what it needs, then stop.'
    )


def main(values: Section, args: flags.FlagValues) -> None:
    """Builds the experiment, predicts, runs and reports."""
    folder = _folder(args)
    if args.allow_imports and args.fork_from is None:
        raise errors.invalid('allow_imports', 'go with `fork_from`', True)
    if args.debug_round is not None:
        sharding.refuse(args, '--debug_round', 'dry_run', 'start_over', 'fork_from')
    app.make_portable(args.portable)
    from fedjax_links.machines import devices, processes

    mesh_size = devices.mesh_size(args.mesh)
    sharding.set_process_flags(args)
    joined = processes.join(args.coordinator, args.num_processes, args.process_id)
    if args.coordinator is not None:
        devices.split_cpu(sharding.devices_per_process(mesh_size, args))
    elif mesh_size is not None:
        devices.split_cpu(args.devices or mesh_size)
    with joined:
        status = _simulate(values, args, folder)
    sys.exit(status)


def _folder(args: flags.FlagValues) -> Path:
    """Returns the run's folder, which need not exist yet.

    Raises:
      ValueError: for a path that cannot be a folder, and for only one of the two flags of a fork.
    """
    if not args.workdir:
        requirement = 'name a folder for the run, such as --workdir=runs/first'
        raise errors.invalid('workdir', requirement, None)
    folder = Path(args.workdir)
    existing = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    if not existing.is_dir():
        kind = 'a file' if existing.exists() else 'a link to nothing'
        value = f'{folder}, where {existing} is {kind}'
        raise errors.invalid('workdir', 'name a folder', value)
    if (args.fork_from is None) != (args.at_round is None):
        missing = 'fork_from' if args.fork_from is None else 'at_round'
        raise errors.invalid(missing, 'be given too', None)
    if args.fork_from is not None:
        source = Path(args.fork_from)
        if folder.resolve() == source.resolve():
            requirement = 'be another folder than `fork_from`'
            raise errors.invalid('workdir', requirement, folder)
    return folder


class _PreparedRun(NamedTuple):
    """Holds a run that is ready to start.

    Attributes:
      experiment: the experiment, or the shard of it that this process runs.
      fork: the fork that lanes begin from; None for a run that begins at round 0.
      programs: the compiled programs, and where they run.
    """

    experiment: 'Experiment'
    fork: 'Fork | None'
    programs: 'Programs'


def _simulate(values: Section, args: flags.FlagValues, folder: Path) -> int:
    """Prepares, runs and reports, together with the other processes of the run.

    Returns:
      The exit status.
    """
    from fedjax_links import experiment, runs
    from fedjax_links.cli.report_imports import ReportImports
    from fedjax_links.cli.signals import StopOnSignal
    from fedjax_links.machines import processes
    from fedjax_links.runner import hooks, loop
    from fedjax_links.runner.progress import Progress

    if args.dry_run:
        _dry_run(values, args, folder)
        return 0
    prepared = processes.run_in_all(lambda: _prepare(values, args, folder))
    if prepared is None:
        return 0
    signals = StopOnSignal()
    callbacks: list[experiment.Callback] = [signals]
    if processes.is_leader():
        callbacks.insert(0, Progress())
        if prepared.experiment.lane_shard is None:  # Shards write no report.
            callbacks.append(ReportImports())
    try:
        results = loop.run(
            prepared.experiment.plan,
            folder,
            hooks.Listeners(callbacks, experiment=prepared.experiment),
            initial_states=prepared.fork,
            programs=prepared.programs,
            allow_mixed=args.allow_mixed,
            allow_changed=args.allow_changed,
        )
    except experiment.Stop:
        line = f'Stopped; all is saved in {folder}, and the same command resumes.'
        print(line, file=sys.stderr)
        return signals.exit_status
    except experiment.FailedLanesError as error:
        for lane, message in error.lines.items():
            print(f'error: {lane}: {message}', file=sys.stderr)
        print(f'Tracebacks: {folder}/{runs.FAILURES}', file=sys.stderr)
        return app.BUG_STATUS
    _report(results, prepared.experiment, folder)
    return 0


def _report(results: 'Results', experiment: 'Experiment', folder: Path) -> None:
    """Writes and prints the report; for a shard it only prints that it is done."""
    from fedjax_links import report
    from fedjax_links.machines import processes

    shard = experiment.lane_shard
    if shard is not None:
        print(
            f'shard {shard.index} of {shard.count} is done: '
            f'python -m fedjax_links merge --workdir={folder} once all are'
        )
        return
    text = processes.broadcast_from_leader(lambda: report.write(results, experiment))
    if processes.is_leader():
        print(text)


def _prepare(
    values: Section, args: flags.FlagValues, folder: Path
) -> _PreparedRun | None:
    """Builds, describes and predicts the run; returns None if it is not to start."""
    from fedjax_links import report
    from fedjax_links.machines import devices, processes
    from fedjax_links.runner import preflight, program_cache
    from fedjax_links.storage import run_access

    if not args.dry_run:
        run_access.refuse_foreign('workdir', folder)
    # Raises before anything is built if there are no such devices.
    slots = devices.device_slots(args.devices, devices.mesh_size(args.mesh))
    experiment = _build(values, args)
    if args.debug_round is not None:
        _debug(experiment, args.debug_round, folder)
        return None
    report.check(experiment)
    fork = _fork(experiment, args)
    programs = program_cache.Programs(experiment.plan, slots=slots)
    prepared = _PreparedRun(experiment, fork, programs)
    # Other shards may be writing the description; processes compare their configs later.
    reads_folder = experiment.lane_shard is None and processes.is_leader()
    if reads_folder and not (args.start_over or args.dry_run):
        # Refuses a wrong folder now, before the slow description and predictions.
        preflight.check_folder(programs, folder, fork, allow_changed=args.allow_changed)
    if processes.is_leader():
        _describe(experiment, args, folder)
    preflight.check(experiment.plan, programs)
    if not args.dry_run and (args.start_over or not folder.exists()):
        _compile_first(prepared)
    _predict(experiment)
    if args.start_over and not args.dry_run:
        _set_aside(folder)
    return prepared


def _dry_run(values: Section, args: flags.FlagValues, folder: Path) -> None:
    """Prepares a run, and prints what the run would take, including start and report."""
    from fedjax_links.machines.compile_clock import CompileClock
    from fedjax_links.report import report_time
    from fedjax_links.runner import dry_runs, hooks

    with CompileClock() as clock:
        prepared = _prepare(values, args, folder)
        if prepared is None:
            return
        experiment = prepared.experiment
        options = dry_runs.DryRunOptions(
            seconds_so_far=time.perf_counter() - app.STARTED,
            clock=clock,
            initial_states=prepared.fork or hooks.InitialStates(),
            folder=None if args.start_over else folder,
            allow_changed=args.allow_changed,
        )
        if experiment.lane_shard is None:  # Shards write no report.
            report_timer = report_time.ReportTimer(experiment, clock)
            options = dataclasses.replace(
                options,
                after_lanes=report_timer.time_clients,
                time_report=report_timer.time_report,
            )
        for line in dry_runs.dry_run(experiment.plan, prepared.programs, options):
            print(line, flush=True)


def _set_aside(folder: Path) -> None:
    """Renames the folder of an earlier run, so that nothing is lost."""
    from fedjax_links.machines import processes
    from fedjax_links.storage import run_access

    if processes.is_leader() and folder.exists():
        aside = run_access.set_aside('workdir', folder)
        print(f'What was there is in {aside} now.')


def _build(values: Section, args: flags.FlagValues) -> 'Experiment':
    """Builds the experiment, or the shard of it that this process runs."""
    from fedjax_links import experiment

    if args.log:
        log = dict.fromkeys([*values.get('log', ()), *args.log])  # without duplicates
        values = {**values, 'log': list(log)}
    return sharding.shard_of_flags(experiment.build(values), args)


def _debug(experiment: 'Experiment', round: int, folder: Path) -> None:
    """Prints which values of a round are not finite, see `nan_debugger`."""
    from fedjax_links.experiment import nan_debugger

    with app.name_flags(folder='workdir'):
        for line in nan_debugger.debug_round(experiment, folder, round):
            print(line)


def _fork(experiment: 'Experiment', args: flags.FlagValues) -> 'Fork | None':
    """Returns the fork that the flags ask for."""
    from fedjax_links.experiment import build, forking

    if args.fork_from is None or args.at_round is None:
        return None
    return forking.Fork(
        experiment.plan,
        args.fork_from,
        args.at_round,
        build=build,
        allow_imports=args.allow_imports,
        allow_changed=args.allow_changed,
    )


def _describe(experiment: 'Experiment', args: flags.FlagValues, folder: Path) -> None:
    """Prints what will run, and warnings of this machine."""
    from fedjax_links.certify import certificates
    from fedjax_links.machines import environment

    for warning in environment.warnings():
        print(f'warning: {warning}', file=sys.stderr)
    if args.dry_run:
        print(_DRY_RUN, flush=True)
    print(experiment.describe())
    note = None if args.dry_run else certificates.note()
    if note:
        print(note)
    print(f'folder   {folder}')


def _compile_first(prepared: _PreparedRun) -> None:
    """Starts to compile the program of the first lanes, while predictions are computed."""
    from fedjax_links.runner import stages

    plan = prepared.experiment.plan
    by_algorithm = [plan.lanes_at_first(label) for label in plan.algorithms]
    first_lanes = next(filter(None, by_algorithm), None)  # of this shard
    if first_lanes:
        stages.compile_ahead(prepared.programs, first_lanes)


def _predict(experiment: 'Experiment') -> None:
    """Prints what the links will do to FedAvg, once for all shards."""
    from fedjax_links.machines import processes
    from fedjax_links.preview import theory

    if processes.is_leader() and experiment.plan.has_first_shard:
        print(theory.summary(experiment))


if __name__ == '__main__':
    app.run(main, define_flags, config='experiment', has_default_workdir=True)
