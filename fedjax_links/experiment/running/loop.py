"""Runs an experiment: every algorithm is tuned, then run."""

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedjax_links import runs
from fedjax_links.experiment.plan.deciding import UntilDecided
from fedjax_links.experiment.plan.lanes import TUNING
from fedjax_links.experiment.running import hooks, in_step, programs, recordings, shards, stores
from fedjax_links.experiment.running.shared import SharedFolder
from fedjax_links.experiment.running.stages import Stages
from fedjax_links.machines import devices, processes

if TYPE_CHECKING:
    from fedjax_links.experiment.definition import Experiment

_AHEAD = 2  # algorithms whose programs are compiled while another one's run


def run(
    experiment: 'Experiment',
    folder: str | Path | None = None,
    callbacks: Sequence[hooks.Callback] = (),
    *,
    side_by_side: bool | None = None,
    origin: hooks.Origin | None = None,
    places: Sequence[devices.Place] | None = None,
    shared: programs.Programs | None = None,
    allow_mixed: bool = False,
) -> runs.Results:
    """Runs what has not run yet: the body of `Experiment.run` and `Experiment.fork`.

    Args:
      experiment: the experiment.
      folder: as in `Experiment.run`.
      callbacks: likewise; those that ``log`` names come before them.
      side_by_side: whether lanes advance in one program; everywhere but on a CPU by default, where
        one after the other each lane is bit for bit its own `simulation.simulate`.
      origin: where lanes begin, see `forking`; before their first round by default.
      places: the devices or meshes (`devices.places`) that lanes of an algorithm advance on at
        the same time; all devices of this process by default. Unless lanes run side by side,
        nothing that is kept depends on the number of devices, nor on the size of meshes.
      shared: the programs of the experiment, if there are any yet, and with them where lanes run.
      allow_mixed: as in `Experiment.run`.

    Returns:
      The metrics; of a share those of its lanes.

    Raises:
      ValueError: as `Experiment.run`.
      FailedLanesError: likewise.
    """
    log = experiment.log if processes.is_leader() else ()
    callbacks = [*processes.do_in_all(lambda: hooks.callbacks(log, folder)), *callbacks]
    origin = origin or hooks.Origin()
    shared = shared or programs.Programs(experiment, side_by_side=side_by_side, places=places)
    facts = {**experiment.plan.facts(), **origin.facts}
    if shared.places[0].is_mesh:
        facts[runs.ON_A_MESH] = True
    path = None if folder is None else Path(folder)

    def opened() -> stores.Memory:
        if path is None:
            return stores.Memory()
        kind: Any = stores.RunFolder
        if (share := experiment.share) is not None:
            division = experiment.plan.division
            kind = functools.partial(SharedFolder, division=division, shard=share.index)
        with experiment.plan.precision():
            return kind(path, facts=facts, config=experiment.config, allow_mixed=allow_mixed)

    several = processes.are_several()
    described, own_rows = [experiment.config, facts], shared.places[0].own_rows
    store: Any = in_step.InStep(opened, described, path, own_rows) if several else opened()
    try:
        hooks.tell(callbacks, 'on_start', experiment)
        if experiment.share is None:
            every = map(experiment.plan.every_lane, experiment.algorithms)
            store.announce({lane.name: lane.num_rounds for lanes in every for lane in lanes})
        is_first = experiment.share is None or experiment.share.index == 0
        if path is not None and is_first and not origin.has_links(path, experiment.num_rounds):
            store.keep_links(recordings.realised(shared, origin))
        if experiment.share is None or path is None:
            _run_in_turn(shared, store, Stages(shared, store, callbacks, origin))
        else:
            heard = shards.Listeners(callbacks)
            stages = functools.partial(Stages, shared, store, [heard], origin)
            shards.Shard(experiment, path, store, stages, heard).run()
    finally:
        store.close()
    results = runs.Results(runs.as_columns(store.lines()), facts, path)
    hooks.tell(callbacks, 'on_end', results)
    return results


def _run_in_turn(shared: programs.Programs, store: Any, stages: Stages) -> None:
    """One algorithm after the other; where seeds go on until decided, again until all are."""
    experiment = shared.experiment
    plan, is_open = experiment.plan, isinstance(experiment.seeds, UntilDecided)  # more may come
    left = [label for label in experiment.algorithms if plan.every_lane(label)]
    begun: set[str] = set()
    columns: Mapping[str, Any] = {}

    def run(label: str, lanes_of: Callable[..., Any], coming: Sequence[Any] = ()) -> bool:
        """Runs what is asked for until nothing more is; whether there was any."""
        nonlocal columns
        found = False
        while more := [x for x in lanes_of(label, columns) if x.name not in begun]:
            found = True
            for _, lanes in itertools.groupby(more, lambda lane: lane.stage):
                stages.run(list(lanes), coming)
            begun.update(lane.name for lane in more)
            if is_open or more[0].stage == TUNING:
                columns = runs.as_columns(store.lines())
        return found

    def asked(label: str, columns: Mapping[str, Any]) -> Any:
        return plan.own(processes.do_in_all(lambda: plan.asked_lanes(label, columns)))

    every = tuple(left)
    while left:
        label, *left = left
        coming = [plan.every_lane(other) for other in left[:_AHEAD]]
        run(label, plan.tuning_lanes, coming)
        run(label, asked, coming)
        if not is_open:
            shared.forget(label)
    while is_open:
        ran = [run(label, asked) for label in every]
        is_open = any(ran)
