"""Reads the flags of a run on several machines, which say which process or shard this is.

A shard is the part of a run's lanes that one process runs; a lane is one algorithm, pattern, grid
point and seed. Several processes may also run each lane together, on one mesh of devices.
"""

from typing import TYPE_CHECKING

from absl import flags

from fedjax_links.core import errors

if TYPE_CHECKING:
    from fedjax_links.experiment import Experiment


def set_process_flags(args: flags.FlagValues) -> None:
    """Sets unset flags of a process that a launcher, such as mpirun, started among others."""
    from fedjax_links.machines import launchers

    names = ('coordinator', 'num_processes', 'process_id')
    is_any_set = any(getattr(args, name) is not None for name in names)
    if args.mesh is None or is_any_set:
        return
    start = launchers.started_as()
    if start is None:
        return
    process = f'process {start.process_id} of {start.num_processes}'
    print(
        f'{process} as {start.source} says, coordinator {start.coordinator}', flush=True
    )
    for name in names:
        setattr(args, name, getattr(start, name))


def devices_per_process(mesh_size: int | None, args: flags.FlagValues) -> int:
    """Returns how many devices each process of a run of several processes has."""
    assert args.num_processes is not None
    if mesh_size is None or mesh_size % args.num_processes:
        requirement = (
            f'read clients:N, N a multiple of `num_processes` = {args.num_processes}'
        )
        raise errors.invalid('mesh', requirement, args.mesh)
    refuse(args, '--coordinator', 'devices', 'fork_from', 'debug_round', 'dry_run')
    return mesh_size // args.num_processes


def refuse(args: flags.FlagValues, flag: str, *names: str) -> None:
    """Raises for flags that cannot be combined with another flag.

    Args:
      args: all flags.
      flag: the other flag.
      *names: the flags that must be unset.
    """
    for name in names:
        value = getattr(args, name)
        if value is not None and value is not False:  # 0 is a valid round.
            raise errors.invalid(name, f'be left out with {flag}', value)


def shard_of_flags(experiment: 'Experiment', args: flags.FlagValues) -> 'Experiment':
    """Returns the experiment, or the shard of it that this process runs."""
    from fedjax_links.planning import lane_shards

    if args.shard is None:
        _warn_in_job_array(args)
        return experiment
    if args.shard == lane_shards.AUTO:
        index, count = _shard_of_task(args.shard)
    else:
        index, count = lane_shards.parse(args.shard)
    if count == 1:
        return experiment
    refuse(args, '--shard', 'start_over', 'debug_round')
    by = lane_shards.SEED if args.allow_mixed else lane_shards.PROGRAM
    return experiment.shard(index, count, by=by)


def _warn_in_job_array(args: flags.FlagValues) -> None:
    """Prints a note if this task of a job array runs all lanes."""
    from fedjax_links.machines import launchers
    from fedjax_links.planning import lane_shards

    task = None if args.coordinator else launchers.array_task(allow_gaps=True)
    if task is not None:
        flag = f'--shard={lane_shards.AUTO}'
        print(f'note: {task.source} is set, and all lanes run; {flag} runs a shard')


def _shard_of_task(flag: str) -> tuple[int, int]:
    """Returns the index of a task in its job array, and the number of tasks."""
    from fedjax_links.machines import launchers

    task = launchers.array_task()
    if task is None:
        requirement = (
            'read I/N where no variable of a job array says which task this is'
        )
        raise errors.invalid('shard', requirement, flag)
    print(f'shard {task.process_id} of {task.num_processes}, as {task.source} says')
    return task.process_id, task.num_processes
