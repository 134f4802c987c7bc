"""Runs an experiment by an executor: each job runs a shard of the lanes, all in one folder.

A lane is one simulation (`planning.lanes.Lane`), a shard is a part of the lanes.
"""

import contextlib
import dataclasses
import json
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from fedjax_links import runs
from fedjax_links.config import recorded_links, resolver
from fedjax_links.core import checks, errors, paths
from fedjax_links.core.records import Section
from fedjax_links.machines import devices as devices_
from fedjax_links.planning import lane_shards, lanes
from fedjax_links.planning.plan import Plan
from fedjax_links.runner import hooks, loop, shared_stores
from fedjax_links.runner.identity import Identities
from fedjax_links.runner.program_cache import Programs

_MAX_JOBS = 64
"""Most jobs if ``jobs`` is not given, a chosen limit."""
_POLL_SECONDS = 0.5
"""Time between two looks at the folder; callbacks are called about that long after a save."""
# Holds what a thread of a worker built for its last job.
_thread_cache = threading.local()


class Shardable(Protocol):
    """Stands for `Experiment`, which this module cannot import."""

    @property
    def plan(self) -> Plan:
        """Returns the plan of the experiment."""

    def shard(self, index: int, count: int, *, by: str) -> 'Shardable':
        """Returns the same experiment with one shard of its lanes."""


class Job(NamedTuple):
    """Holds what all jobs of a run have in common.

    Attributes:
      build: makes the experiment of a config; a module's function, which is pickled by name.
      config: of the experiment, as JSON.
      module_folder: the folder of the modules and files that the config names.
      folder: of the run.
      devices: as in `Experiment.run`.
      allow_mixed: as in `Experiment.run`.
      allow_changed: as in `Experiment.run`.
      token: unique to the run, so that a worker reuses nothing that it built for another run.
    """

    build: Callable[[Mapping[str, Any]], Shardable]
    config: str
    module_folder: str
    folder: str
    devices: int | None
    allow_mixed: bool
    allow_changed: bool
    token: str


def run(
    plan: Plan,
    executor: Any,
    folder: str | Path | None,
    listeners: hooks.Listeners,
    *,
    build: Callable[[Section], Shardable],
    jobs: int | None = None,
    devices: int | None = None,
    allow_mixed: bool = False,
    allow_changed: bool = False,
) -> runs.Results:
    """Runs a plan by an executor: the body of `Experiment.run` with an executor.

    Args:
      plan: of an experiment that was made from a config.
      executor: has ``submit``, whose result has ``done``, ``exception`` and ``result``.
      folder: as in `Experiment.run`.
      listeners: the callbacks of the run. They hear of a lane's periods when the lane is saved.
      build: makes the experiment of a config; a module's function, which is pickled by name.
      jobs: as in `Experiment.run`.
      devices: as in `Experiment.run`.
      allow_mixed: as in `Experiment.run`.
      allow_changed: as in `Experiment.run`.

    Returns:
      The metrics.

    Raises:
      ValueError: if the experiment cannot be sent to other processes, or as `Experiment.run`.
      FailedLanesError: at the end, if lanes or jobs failed.
      Stop: if a callback raised it; jobs that have not started are cancelled.
    """
    if not callable(getattr(executor, 'submit', None)):
        raise errors.invalid('executor', 'have a method submit', executor)
    if folder is None:
        raise errors.invalid(
            'folder', 'be given with an executor, whose jobs meet there', None
        )
    path = paths.as_path(folder).absolute()
    job = Job(
        build=build,
        config=_config_text(plan),
        module_folder=str(recorded_links.CONFIG_FOLDER.get() or Path.cwd()),
        folder=str(path),
        devices=devices,
        allow_mixed=allow_mixed,
        allow_changed=allow_changed,
        token=uuid.uuid4().hex,
    )
    count = _num_jobs(plan, jobs, devices)
    by = lane_shards.SEED if allow_mixed else lane_shards.PROGRAM
    store = shared_stores.SharedFolder(
        path,
        facts=plan.facts(),
        config=plan.config,
        division=plan.divide(count, by),
        identities=Identities(plan),
        allow_mixed=allow_mixed,
        allow_changed=allow_changed,
    )
    try:
        listeners.start()
        with getattr(executor, 'batch', contextlib.nullcontext)():
            futures = [
                executor.submit(run_job, job, (index, count, by))
                for index in range(count)
            ]
        _follow(futures, _Reporter(store, listeners))
        failed = _failures(futures)
    finally:
        store.close()
    if failed:
        raise loop.FailedLanesError(failed)
    results = runs.merge(path, allow_mixed=allow_mixed, allow_changed=allow_changed)
    listeners.notify('on_end', results)
    return results


def _num_jobs(plan: Plan, jobs: int | None, devices: int | None) -> int:
    """Checks both numbers; returns the number of jobs to submit, at most one per lane."""
    for name, number in (('jobs', jobs), ('devices', devices)):
        if number is not None:
            checks.static_int(name, number)
    return min(jobs or _MAX_JOBS, len(plan.all_lanes_at_first()))


def _follow(futures: Sequence[Future[object]], reporter: '_Reporter') -> None:
    """Reports progress until all jobs are done; if a callback stops the run, cancels jobs."""
    try:
        while not all(future.done() for future in futures):
            reporter.report()
            time.sleep(_POLL_SECONDS)
    except hooks.Stop:
        for future in futures:
            future.cancel()
        raise
    reporter.report()


def _failures(futures: Sequence[Future[dict[str, str]]]) -> dict[str, str]:
    """Returns why lanes failed, by the lane's name, and why jobs failed, by the job's number."""
    failed: dict[str, str] = {}
    for index, future in enumerate(futures):
        error = future.exception()
        if error is None:
            failed |= future.result()
        else:
            failed[f'job {index} of {len(futures)}'] = errors.describe(error)
    return failed


def run_job(job: Job, shard: tuple[int, int, str]) -> dict[str, str]:
    """Runs one shard of the lanes, in a process of the executor.

    Args:
      job: what all jobs of a run have in common.
      shard: index of the shard, number of shards, and ``by`` as in `Experiment.shard`.

    Returns:
      Why lanes failed, by the lane's name.
    """
    index, count, by = shard
    with resolver.importable(job.module_folder):
        experiment, programs = _built(job)
        part = experiment.shard(index, count, by=by)
        try:
            loop.run(
                part.plan,
                job.folder,
                hooks.Listeners(experiment=part),
                programs=programs,
                allow_mixed=job.allow_mixed,
                allow_changed=job.allow_changed,
            )
        except loop.FailedLanesError as error:
            return error.lines
    return {}


def _built(job: Job) -> tuple[Shardable, Programs]:
    """Returns a job's experiment and programs. A thread builds them once for all its jobs."""
    key = job.token, job.devices
    if getattr(_thread_cache, 'key', None) != key:
        slots = devices_.device_slots(job.devices, one_thread=True)
        experiment = job.build(json.loads(job.config))
        _thread_cache.built = experiment, Programs(experiment.plan, slots=slots)
        _thread_cache.key = key
    built: tuple[Shardable, Programs] = _thread_cache.built
    return built


@dataclasses.dataclass
class _Reporter:
    """Notifies callbacks of lanes that other processes run, by reading the folder.

    Attributes:
      store: the folder.
      listeners: the callbacks.
      reported: the last round that was reported, by lane.
      stages: pairs of algorithm and stage that were reported.
    """

    store: shared_stores.SharedFolder
    listeners: hooks.Listeners
    reported: dict[str, int] = dataclasses.field(default_factory=dict)
    stages: set[tuple[str, str]] = dataclasses.field(default_factory=set)

    def report(self) -> None:
        """Reports all saves since the last report, then stops if a callback asked for it."""
        if not self.listeners.callbacks:
            return
        self.store.refresh()
        has_stopped = False
        for name in sorted(self.store.saves, key=_stage_order):
            if max(self.store.saves[name]) > self.reported.get(name, -1):
                try:
                    self._report_lane(name)
                except hooks.Stop:
                    has_stopped = True
        if has_stopped:
            raise hooks.Stop

    def _report_lane(self, name: str) -> None:
        """Reports the periods of a lane that its last save adds."""
        try:
            # This reads only the metrics of the save; the state may be large.
            saved = runs.lane_of(self.store.saves[name], verify=False)
        except errors.InvalidError:  # A later save has just replaced it.
            return
        before = self.reported.get(name, -1)
        self.reported[name] = saved.round
        num_rounds = runs.rounds_of_lane(name, self.store.facts)
        lane = lanes.from_record(saved)._replace(num_rounds=num_rounds)
        stage = lane.algorithm, lane.stage
        if stage not in self.stages:
            self.stages.add(stage)
            self.listeners.notify('on_stage', *stage, num_rounds)
        self.listeners.notify_periods(
            (lane, {'round': round, **record})
            for round, record in saved.records.items()
            if round > before
        )


def _stage_order(name: str) -> int:
    """Returns the number of a lane's stage in the order of stages, from the lane's name."""
    stage, _, _ = name.partition('-')
    return (lanes.TUNING, lanes.MAIN, lanes.TIE).index(stage)


def _config_text(plan: Plan) -> str:
    """Returns the config of an experiment as JSON, from which other processes can build it.

    Raises:
      ValueError: naming a part that was made in Python.
    """
    if plan.config is None:
        requirement = 'be made from a config (experiment.build) to run by an executor'
        got = 'an object of this process, which cannot travel'
        raise errors.invalid(_part_without_config(plan), requirement, got)
    try:
        return json.dumps(plan.config)
    except TypeError as error:
        raise errors.invalid(
            'config', 'hold plain values to travel', str(error)
        ) from None


def _part_without_config(plan: Plan) -> str:
    """Names the first part that was made in Python."""
    for label, algorithm in plan.algorithms.items():
        if algorithm.bind is None:
            return f'algorithms.{label}'
    for label, pattern in plan.patterns.items():
        if pattern.bind is None:
            return f'patterns.{label}'
    return 'problem'
