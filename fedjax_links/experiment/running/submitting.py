"""Runs an experiment by an executor: each job is one share of the lanes, in a folder of all."""

import contextlib
import dataclasses
import json
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedjax_links import runs
from fedjax_links.config import recordings, sections
from fedjax_links.core import checks, errors
from fedjax_links.experiment.plan import dividing, lanes
from fedjax_links.experiment.running import hooks, shards, shared
from fedjax_links.machines import devices as devices_

if TYPE_CHECKING:
    from fedjax_links.experiment.definition import Experiment

_MOST_JOBS = 64
_POLL_SECONDS = 0.5
_here = threading.local()  # the programs of the last experiment that a thread ran a job of


def run(
    experiment: 'Experiment',
    executor: Any,
    folder: str | Path | None,
    callbacks: Sequence[hooks.Callback] = (),
    *,
    jobs: int | None = None,
    devices: int | None = None,
    allow_mixed: bool = False,
) -> runs.Results:
    """The body of `Experiment.run` with an executor.

    Args:
      experiment: made of a config.
      executor: has ``submit``, whose result has ``done``, ``exception`` and ``result``.
      folder: as in `Experiment.run`.
      callbacks: likewise; they hear of a lane when it has been saved.
      jobs: likewise.
      devices: likewise.
      allow_mixed: likewise.

    Returns:
      The metrics.

    Raises:
      ValueError: if the experiment cannot travel, or as `Experiment.run`.
      FailedLanesError: at the end, if lanes or jobs failed.
      Stop: if a callback did: what has not begun is cancelled.
    """
    if not callable(getattr(executor, 'submit', None)):
        raise errors.invalid('executor', 'have a method submit', executor)
    if folder is None:
        raise errors.invalid('folder', 'be given with an executor, whose jobs meet there', None)
    path = Path(folder).absolute()
    _check_travels(experiment)
    every = [lane for label in experiment.algorithms for lane in experiment.plan.every_lane(label)]
    for name, number in (('jobs', jobs), ('devices', devices)):
        if number is not None:
            checks.static_int(name, number)
    count = min(jobs or _MOST_JOBS, len(every))
    by = dividing.SEED if allow_mixed else dividing.PROGRAM
    about: dict[str, Any] = {'facts': experiment.plan.facts(), 'config': experiment.config}
    division = dividing.divide(experiment, count, by)
    store = shared.SharedFolder(path, **about, allow_mixed=allow_mixed, division=division)
    beside = recordings.BESIDE.get() or Path.cwd()
    given = json.dumps(experiment.config), str(beside), str(path)
    token = uuid.uuid4().hex  # no job is another run's, whatever an executor remembers
    failed: dict[str, str] = {}
    try:
        hooks.tell(callbacks, 'on_start', experiment)
        with getattr(executor, 'batch', contextlib.nullcontext)():
            more = devices, allow_mixed, token
            futures = [
                executor.submit(run_job, *given, (k, count, by), *more) for k in range(count)
            ]
        listener = _Listener(store, callbacks)
        try:
            while not all(future.done() for future in futures):
                listener.tell()
                time.sleep(_POLL_SECONDS)
        except hooks.Stop:
            for future in futures:
                future.cancel()
            raise
        listener.tell()
        for place, future in enumerate(futures):
            error = future.exception()
            job = f'job {place} of {count}'
            failed |= future.result() if error is None else {job: errors.describe(error)}
    finally:
        store.close()
    if failed:
        raise shards.FailedLanesError(failed)
    results = runs.merge(path, allow_mixed=allow_mixed)
    hooks.tell(callbacks, 'on_end', results)
    return results


def run_job(
    config: str,
    beside: str,
    folder: str,
    share: tuple[int, int, str],
    devices: int | None,
    allow_mixed: bool,
    token: str,
) -> dict[str, str]:
    """Runs one share of the lanes, in whatever process it was sent to.

    Args:
      config: of the experiment, as JSON.
      beside: the folder of modules and files that it names.
      folder: of the run.
      share: index, count and what stays together.
      devices: as in `Experiment.run`.
      allow_mixed: as in `Experiment.run`.
      token: of the run.

    Returns:
      Why lanes failed, by their names.
    """
    from fedjax_links.experiment.config import build
    from fedjax_links.experiment.running import loop
    from fedjax_links.experiment.running.programs import Programs

    del token
    with sections.importable(beside):
        if getattr(_here, 'given', None) != (config, devices):
            places = devices_.places(devices, alone=True)
            _here.programs = Programs(build(json.loads(config)), places=places)
            _here.given = config, devices
        whole = _here.programs.experiment
        part = dataclasses.replace(whole, share=dividing.share(*share))
        try:
            loop.run(part, folder, shared=_here.programs, allow_mixed=allow_mixed)
        except shards.FailedLanesError as error:
            return error.lines
    return {}


class _Listener:
    """Tells callbacks what the folder says of lanes that run elsewhere."""

    def __init__(self, store: shared.SharedFolder, callbacks: Sequence[hooks.Callback]) -> None:
        self._store, self._callbacks = store, callbacks
        self._told: dict[str, int] = {}
        self._stages: set[tuple[str, str]] = set()

    def tell(self) -> None:
        """What is new."""
        for lane, new in self._news():
            if (lane.algorithm, lane.stage) not in self._stages:
                self._stages.add((lane.algorithm, lane.stage))
                hooks.tell(self._callbacks, 'on_stage', lane.algorithm, lane.stage, lane.num_rounds)
            for round, record in new.items():
                hooks.tell(self._callbacks, 'on_period', lane, {'round': round, **record})

    def _news(self) -> Iterator[tuple[lanes.Lane, Mapping[int, Mapping[str, Any]]]]:
        if not self._callbacks:
            return
        self._store.refresh()
        found = self._store.found()
        for name in sorted(found, key=lambda name: name.startswith('main-')):  # tuning first
            files = found[name]
            before = self._told.get(name, -1)
            if max(files) > before:
                with contextlib.suppress(errors.InvalidError):  # replaced by a later one meanwhile
                    kept = runs.lane_of(files)
                    new = {round: r for round, r in kept.records.items() if round > before}
                    self._told[name] = kept.round
                    wanted = runs.rounds_wanted(name, self._store.facts)
                    yield lanes.of_kept(kept)._replace(num_rounds=wanted), new


def _check_travels(experiment: 'Experiment') -> None:
    """Refuses an experiment that other processes cannot build."""
    if experiment.config is None:
        plan = experiment.plan
        parts: dict[str, Any] = {f'algorithms.{k}': v for k, v in plan.algorithms.items()}
        parts |= {f'patterns.{k}': v for k, v in plan.patterns.items()}
        part = next((name for name, maker in parts.items() if maker.bind is None), 'problem')
        requirement = 'be what a config says (experiment.build) to run by an executor'
        raise errors.invalid(part, requirement, 'an object of this process, which cannot travel')
    try:
        json.dumps(experiment.config)
    except TypeError as error:
        raise errors.invalid('config', 'hold plain values to travel', str(error)) from None
