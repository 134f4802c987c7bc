"""Runs what a config describes: algorithms over link patterns, a grid of values and seeds.

python -m fedjax_links simulate --config=configs/quickstart.py --workdir=runs/quickstart

An interrupted run goes on where it was when the same command is given again, and a finished one
with a larger --config.num_rounds or --config.num_seeds. With --fork_from=RUN --at_round=T the lanes
of a new run begin at round T of another one. With --shard=3/64, or --shard=auto as a task of
a job array, it runs its share of the lanes; `merge` joins what all shards have run, `status` says
how far they are.
"""

import importlib
import sys
import threading
from pathlib import Path
from typing import Any

from absl import flags

from fedjax_links.cli import app, paths
from fedjax_links.core import errors


def define_flags() -> None:
    """Defines the flags of the command."""
    paths.define(
        'workdir',
        'Folder of the run, runs/NAME of the config by default; an interrupted run goes on.',
    )
    flags.DEFINE_bool(
        'start_over',
        False,
        'Set the folder aside (as WORKDIR.old-1, ...) and begin again.',
    )
    paths.define(
        'fork_from',
        'Folder of a run whose lanes the new ones go on from; needs --at_round.',
    )
    flags.DEFINE_integer(
        'at_round',
        None,
        'The round from which on; a multiple of eval_every of both.',
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
        'HOST:PORT where process 0 is heard by the others of its --mesh; with it the next two'
        ' are given, or none: those of a SLURM step of several tasks, of mpirun, or of an '
        'indexed job of Kubernetes.',
    )
    flags.DEFINE_integer('num_processes', None, 'How many processes share --mesh.')
    flags.DEFINE_integer(
        'process_id',
        None,
        'Which of them this is, from 0; process 0 keeps the run and reports.',
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
        'Go on in a folder of other programs or data; every report says what differed.',
    )
    flags.DEFINE_bool(
        'dry_run', False, 'Say what would run and what it needs, then stop.'
    )


def main(values: dict[str, Any], given: flags.FlagValues) -> None:
    """Builds, predicts, runs and reports."""
    folder = _folder(given)
    app.make_portable(given.portable)
    from fedjax_links.machines import devices, processes

    mesh_size = devices.mesh_size(given.mesh)
    _note_start(given)
    joined = processes.join(given.coordinator, given.num_processes, given.process_id)
    if given.coordinator is not None:
        devices.prepare(_share_of_each(mesh_size, given))
    elif mesh_size is not None:
        devices.prepare(given.devices or mesh_size)
    with joined:
        status = _simulate(values, given, folder)
    sys.exit(status)


def _folder(given: flags.FlagValues) -> Path:
    """The run's folder, which may have to be made."""
    if not given.workdir:
        requirement = 'name a folder for the run, such as --workdir=runs/first'
        raise errors.invalid('workdir', requirement, None)
    folder = Path(given.workdir)
    there = next(path for path in (folder, *folder.parents) if path.exists())
    if not there.is_dir():
        raise errors.invalid(
            'workdir', 'name a folder', f'{folder}, where {there} is a file'
        )
    if (given.fork_from is None) != (given.at_round is None):
        absent = 'fork_from' if given.fork_from is None else 'at_round'
        raise errors.invalid(absent, 'be given too', None)
    if (
        given.fork_from is not None
        and folder.resolve() == Path(given.fork_from).resolve()
    ):
        raise errors.invalid('workdir', 'be another folder than `fork_from`', folder)
    return folder


def _note_start(given: flags.FlagValues) -> None:
    """Sets flags of a process that was started with others, and does not say so."""
    from fedjax_links.machines import processes

    names = 'coordinator', 'num_processes', 'process_id'
    is_open = given.mesh is not None and all(
        getattr(given, name) is None for name in names
    )
    found = processes.started_as() if is_open else None
    if found is None:
        return
    whose = f'process {found.process_id} of {found.num_processes}'
    print(
        f'{whose} as {found.source} says, coordinator {found.coordinator}', flush=True
    )
    for name in names:
        setattr(given, name, getattr(found, name))


def _share_of_each(mesh_size: int | None, given: flags.FlagValues) -> int:
    """Devices of each process of a run of several."""
    assert given.num_processes is not None
    if mesh_size is None or mesh_size % given.num_processes:
        requirement = (
            f'read clients:N, N a multiple of `num_processes` = {given.num_processes}'
        )
        raise errors.invalid('mesh', requirement, given.mesh)
    _refuse(given, '--coordinator', 'devices', 'fork_from', 'debug_round', 'dry_run')
    return mesh_size // given.num_processes


def _refuse(given: flags.FlagValues, beside: str, *names: str) -> None:
    """Raises for the first of some flags that is given."""
    for name in names:
        if (value := getattr(given, name)) not in (None, False):
            raise errors.invalid(name, f'be left out with {beside}', value)


def _simulate(values: dict[str, Any], given: flags.FlagValues, folder: Path) -> int:
    """Runs and reports, in step with other processes; the exit status."""
    from fedjax_links import experiment, report, runs
    from fedjax_links.cli.signals import StopOnSignal
    from fedjax_links.machines import processes
    from fedjax_links.runner import loop
    from fedjax_links.runner.progress import Progress

    plan = processes.do_in_all(lambda: _plan(values, given, folder))
    if plan is None:
        return 0
    (planned, options), leads = plan, processes.is_leader()
    signals = StopOnSignal()
    for name in (
        'matplotlib.figure',
        'xarray',
    ):  # what the report takes, while lanes run
        threading.Thread(target=importlib.import_module, args=[name]).start()
    try:
        results = loop.run(
            planned, folder, [*([Progress()] if leads else []), signals], **options
        )
    except experiment.Stop:
        print(
            f'Stopped; all is saved in {folder}, and the same command goes on.',
            file=sys.stderr,
        )
        return signals.exit_status
    except experiment.FailedLanesError as error:
        for lane, said in error.lines.items():
            print(f'error: {lane}: {said}', file=sys.stderr)
        print(f'Tracebacks: {folder}/{runs.FAILURES}', file=sys.stderr)
        return app.BUG
    if planned.share is not None:
        said = f'shard {planned.share.index} of {planned.share.count} is done'
        print(f'{said}: python -m fedjax_links merge --workdir={folder} once all are')
        return 0
    written = processes.ask_leader(lambda: report.write(results, planned).encode())
    if leads:
        print(written.decode())
    return 0


def _plan(
    values: dict[str, Any], given: flags.FlagValues, folder: Path
) -> tuple[Any, Any] | None:
    """The experiment, and where it runs; None if it is not to be run."""
    from fedjax_links import experiment, report
    from fedjax_links.certify import certificates
    from fedjax_links.experiment import forking, nan_debugger
    from fedjax_links.machines import devices, environment, processes
    from fedjax_links.runner import preflight, program_cache, stages
    from fedjax_links.storage import run_access

    if not given.dry_run:
        run_access.refuse_foreign('workdir', folder)
    # Refused at once where there are none.
    places = devices.places(given.devices, devices.mesh_size(given.mesh))
    if given.log:
        values = {
            **values,
            'log': list(dict.fromkeys([*values.get('log', ()), *given.log])),
        }
    planned = _shared_out(experiment.build(values), given)
    if given.debug_round is not None:
        with app.renamed(folder='workdir'):
            for line in nan_debugger.debug_round(planned, folder, given.debug_round):
                print(line)
        return None
    report.check(planned)
    origin = None
    if given.fork_from is not None and given.at_round is not None:
        allowed = {
            'allow_imports': given.allow_imports,
            'allow_changed': given.allow_changed,
        }
        origin = forking.Fork(planned, given.fork_from, given.at_round, **allowed)
    shared, leads = (
        program_cache.Programs(planned, places=places),
        processes.is_leader(),
    )
    if leads:
        for warning in environment.warnings():
            print(f'warning: {warning}', file=sys.stderr)
        print(planned.describe())
        if not given.dry_run and (note := certificates.note()):
            print(note)
        print(f'folder   {folder}')
    preflight.check(planned, shared)
    if not given.dry_run and (given.start_over or not folder.exists()):
        every = map(planned.plan.lanes_at_first, planned.algorithms)
        if first := next(filter(None, every), None):
            stages.compile_ahead(shared, first)
    if leads and (planned.share is None or planned.share.index == 0):
        from fedjax_links.preview import theory

        print(theory.prediction(planned))
    if given.dry_run:
        for line in preflight.dry_run(planned, shared):
            print(line)
        return None
    if (
        given.start_over and leads and folder.exists()
    ):  # nothing is lost, and the name is free
        aside = run_access.set_aside('workdir', folder)
        print(f'What was there is in {aside} now.')
    options = {
        'origin': origin,
        'programs': shared,
        'allow_mixed': given.allow_mixed,
        'allow_changed': given.allow_changed,
    }
    return planned, options


def _shared_out(planned: Any, given: flags.FlagValues) -> Any:
    """The experiment, or the share of it that this process runs."""
    from fedjax_links.machines import processes
    from fedjax_links.planning import lanes

    if given.shard is None:
        if not given.coordinator and (variable := processes.array_variable()):
            print(
                f'note: {variable} is set, and all lanes run; --shard={lanes.AUTO} runs a share'
            )
        return planned
    if given.shard == lanes.AUTO:
        task = processes.array_task()
        if task is None:
            requirement = (
                'read I/N where no variable of a job array says which task this is'
            )
            raise errors.invalid('shard', requirement, given.shard)
        index, count = task.process_id, task.num_processes
        print(f'shard {index} of {count}, as {task.source} says')
    else:
        index, count = lanes.parse(given.shard)
    if count == 1:
        return planned
    _refuse(given, '--shard', 'start_over', 'debug_round')
    return planned.shard(
        index, count, by=lanes.SEED if given.allow_mixed else lanes.PROGRAM
    )


if __name__ == '__main__':
    app.run(main, define_flags, config='experiment', workdir=True)
