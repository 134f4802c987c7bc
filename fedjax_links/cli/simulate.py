"""Runs what a config describes: algorithms over link patterns, a grid of values and seeds.

python -m fedjax_links simulate --config=configs/quickstart.py --workdir=runs/quickstart

An interrupted run goes on where it was when the same command is given again, and a finished one
with a larger --config.num_rounds. With --fork_from=RUN --at_round=T the lanes of a new run begin
at round T of another one.
"""

import sys
from pathlib import Path
from typing import Any

from absl import flags

from fedjax_links.cli import app, configs
from fedjax_links.core import errors

_CONFIG = configs.ConfigFlags()
_WORKDIR = flags.DEFINE_string('workdir', None, 'Folder of the run; an interrupted run goes on.')
_START_OVER = flags.DEFINE_bool(
    'start_over', False, 'Set the folder aside (as WORKDIR.old-1, ...) and begin again.'
)
_FORK_FROM = flags.DEFINE_string(
    'fork_from', None, 'Folder of a run whose lanes the new ones go on from; needs --at_round.'
)
_AT_ROUND = flags.DEFINE_integer(
    'at_round', None, 'The round from which on; a multiple of eval_every of both.'
)
_LOG = flags.DEFINE_list('log', [], 'Added to config.log: links, or module:factory of your own.')
_DEBUG_ROUND = flags.DEFINE_integer(
    'debug_round', None, 'Name what is not finite in this round (from 0) of a folder, then stop.'
)
_DEVICES = flags.DEFINE_integer(
    'devices',
    None,
    'Devices that lanes run on at the same time; by default all, on a CPU one per core, or those '
    'of one mesh. Changes no bit.',
)
_MESH = flags.DEFINE_string(
    'mesh', None, 'clients:N lets N devices share the clients of every round of a lane.'
)
_COORDINATOR = flags.DEFINE_string(
    'coordinator', None, 'HOST:PORT where process 0 is heard by the others of its --mesh.'
)
_NUM_PROCESSES = flags.DEFINE_integer('num_processes', None, 'How many processes share --mesh.')
_PROCESS_ID = flags.DEFINE_integer(
    'process_id', None, 'Which of them this is, from 0; process 0 alone writes and reports.'
)
_DRY_RUN = flags.DEFINE_bool('dry_run', False, 'Say what would run and what it needs, then stop.')


def main(values: dict[str, Any]) -> None:
    """Builds, predicts, runs and reports."""
    from fedjax_links.machines import devices, processes

    folder = _folder()
    mesh_size = devices.mesh_size(_MESH.value)
    joined = processes.join(_COORDINATOR.value, _NUM_PROCESSES.value, _PROCESS_ID.value)
    if _COORDINATOR.value is None:
        devices.prepare(_DEVICES.value or mesh_size)
    else:
        devices.prepare(_share_of_each(mesh_size, _NUM_PROCESSES.value))
    with joined:
        status = _simulate(values, folder, mesh_size)
    if status:
        sys.exit(status)


def _simulate(values: dict[str, Any], folder: Path, mesh_size: int | None) -> int:
    """Runs and reports, in step with other processes; the exit status."""
    from fedjax_links import experiment, report
    from fedjax_links.cli import divergence, progress, stopping
    from fedjax_links.experiment.running import loop as running
    from fedjax_links.machines import processes

    plan = processes.agreed(lambda: _plan(values, folder, mesh_size))
    if plan is None:
        return 0
    planned, options = plan
    signals = stopping.StopOnSignal()
    leads = processes.is_leader()
    heard = [progress.Progress(), divergence.Divergence()] if leads else []
    try:
        results = running.run(planned, folder, [*heard, signals], **options)
    except experiment.Stop:
        print(f'Stopped; all is saved in {folder}, and the same command goes on.', file=sys.stderr)
        return signals.exit_status
    written = processes.told(lambda: report.write(results, planned).encode())
    if leads:
        print(written.decode())
    return 0


def _plan(
    values: dict[str, Any], folder: Path, mesh_size: int | None
) -> tuple[Any, dict[str, Any]] | None:
    """The experiment, and where it runs; None if it is not to be run."""
    from fedjax_links import experiment, report
    from fedjax_links.experiment.looking import debugging, forking, preflight
    from fedjax_links.machines import devices, processes
    from fedjax_links.report.screens import theory

    places = devices.places(_DEVICES.value, mesh_size)
    if _LOG.value:
        values = {**values, 'log': list(dict.fromkeys([*values.get('log', ()), *_LOG.value]))}
    planned = experiment.build(values)
    if _DEBUG_ROUND.value is not None:
        with app.in_workdir():
            for line in debugging.debug_round(planned, folder, _DEBUG_ROUND.value):
                print(line)
        return None
    on_cpu = places[0].devices[0].platform == 'cpu'
    if _DEVICES.value is None and mesh_size is None and on_cpu and preflight.is_short(planned):
        places = places[:1]
    report.check(planned)
    origin = forking.origin(planned, _FORK_FROM.value, _AT_ROUND.value)
    leads = processes.is_leader()
    if leads:
        print(planned.describe())
        print(theory.prediction(planned))
    preflight.check(planned)
    if _DRY_RUN.value:
        for line in preflight.dry_run(planned, places):
            print(line)
        return None
    if _START_OVER.value and leads:
        _set_aside(folder)
    return planned, {'origin': origin, 'places': places}


def _share_of_each(mesh_size: int | None, num_processes: int | None) -> int:
    """Devices of each process of a run of several."""
    assert num_processes is not None
    if mesh_size is None or mesh_size % num_processes:
        requirement = f'read clients:N, N a multiple of `num_processes` = {num_processes}'
        raise errors.invalid('mesh', requirement, _MESH.value)
    for flag in (_DEVICES, _FORK_FROM, _DEBUG_ROUND, _DRY_RUN):
        if flag.value not in (None, False):
            raise errors.invalid(flag.name, 'be left out with --coordinator', flag.value)
    return mesh_size // num_processes


def _folder() -> Path:
    """The run's folder, which may have to be made."""
    if not _WORKDIR.value and not _DRY_RUN.value:
        requirement = 'name a folder for the run, such as --workdir=runs/first'
        raise errors.invalid('workdir', requirement, None)
    folder = Path(_WORKDIR.value or '.')
    there = next(path for path in (folder, *folder.parents) if path.exists())
    if not there.is_dir():
        raise errors.invalid('workdir', 'name a folder', f'{folder}, where {there} is a file')
    if _FORK_FROM.value is not None and folder.resolve() == Path(_FORK_FROM.value).resolve():
        raise errors.invalid('workdir', 'be another folder than `fork_from`', folder)
    return folder


def _set_aside(folder: Path) -> None:
    """Renames a folder, so that nothing is lost and its name is free."""
    if not folder.exists():
        return
    place = 1
    while (aside := folder.with_name(f'{folder.name}.old-{place}')).exists():
        place += 1
    folder.rename(aside)
    print(f'What was there is in {aside} now.')


if __name__ == '__main__':
    app.run(main, _CONFIG)
