"""Runs an experiment by an executor: each job is one share of the lanes, in a folder of all."""

import contextlib
import dataclasses
import json
import threading
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedjax_links import runs
from fedjax_links.config import recorded_links, resolver
from fedjax_links.core import checks, errors, paths
from fedjax_links.machines import devices as devices_
from fedjax_links.planning import lanes
from fedjax_links.runner import hooks, loop, shared_stores
from fedjax_links.runner.identity import Identities
from fedjax_links.runner.program_cache import Programs

if TYPE_CHECKING:
    from fedjax_links.experiment.definition import Experiment

_MOST_JOBS = 64
_POLL_SECONDS = 0.5
_here = threading.local()  # the programs of the last run that a thread ran a job of


def run(
    experiment: 'Experiment',
    executor: Any,
    folder: str | Path | None,
    callbacks: Sequence[hooks.Callback] = (),
    *,
    jobs: int | None = None,
    devices: int | None = None,
    allow_mixed: bool = False,
    allow_changed: bool = False,
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
      allow_changed: likewise.

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
        raise errors.invalid(
            'folder', 'be given with an executor, whose jobs meet there', None
        )
    path, plan = paths.as_path(folder).absolute(), experiment.plan
    config = _as_text(experiment)
    for name, number in (('jobs', jobs), ('devices', devices)):
        if number is not None:
            checks.static_int(name, number)
    every = sum(len(plan.lanes_at_first(label)) for label in experiment.algorithms)
    shares = (
        min(jobs or _MOST_JOBS, every),
        lanes.SEED if allow_mixed else lanes.PROGRAM,
    )
    about: dict[str, Any] = {'facts': plan.facts(), 'config': experiment.config}
    division = plan.divide(*shares)
    allowed = {'allow_mixed': allow_mixed, 'allow_changed': allow_changed}
    about['identities'] = Identities(experiment)
    store = shared_stores.SharedFolder(path, **about, **allowed, division=division)
    job = {
        'config': config,
        'beside': str(recorded_links.CONFIG_FOLDER.get() or Path.cwd()),
        'folder': str(path),
        'devices': devices,
        **allowed,
        'token': uuid.uuid4().hex,  # no job is another run's, whatever a worker remembers
    }
    failed: dict[str, str] = {}
    listeners = hooks.Listeners(callbacks)
    try:
        listeners.tell('on_start', experiment)
        with getattr(executor, 'batch', contextlib.nullcontext)():
            places = range(shares[0])
            futures = [
                executor.submit(run_job, job, (place, *shares)) for place in places
            ]
        news = _News(store, listeners)
        try:
            while not all(future.done() for future in futures):
                news.tell()
                time.sleep(_POLL_SECONDS)
        except hooks.Stop:
            for future in futures:
                future.cancel()
            raise
        news.tell()
        for place, future in enumerate(futures):
            error = future.exception()
            name = f'job {place} of {shares[0]}'
            failed |= (
                future.result() if error is None else {name: errors.describe(error)}
            )
    finally:
        store.close()
    if failed:
        raise loop.FailedLanesError(failed)
    results = runs.merge(path, allow_mixed=allow_mixed, allow_changed=allow_changed)
    listeners.tell('on_end', results)
    return results


def run_job(job: dict[str, Any], share: tuple[int, int, str]) -> dict[str, str]:
    """Runs one share of the lanes, in whatever process it was sent to.

    Args:
      job: what all jobs of a run have in common: ``config``, the experiment's as JSON; ``beside``,
        the folder of modules and files that it names; ``folder``, of the run; ``devices``,
        ``allow_mixed`` and ``allow_changed`` as in `Experiment.run`; ``token``, of the run.
      share: index, count and what stays together.

    Returns:
      Why lanes failed, by their names.
    """
    from fedjax_links.experiment.config import (
        build,
    )  # which makes experiments that run jobs

    with resolver.importable(job['beside']):
        given = job['token'], job['devices']  # of another run modules are imported anew
        if getattr(_here, 'given', None) != given:
            places = devices_.places(job['devices'], alone=True)
            _here.programs = Programs(build(json.loads(job['config'])), places=places)
            _here.given = given
        whole = _here.programs.experiment
        part = dataclasses.replace(whole, share=lanes.LaneShard(*share))
        allowed = {name: job[name] for name in ('allow_mixed', 'allow_changed')}
        try:
            loop.run(part, job['folder'], programs=_here.programs, **allowed)
        except loop.FailedLanesError as error:
            return error.lines
    return {}


@dataclasses.dataclass
class _News:
    """What the folder says of lanes that run elsewhere."""

    store: shared_stores.SharedFolder
    listeners: hooks.Listeners
    told: dict[str, int] = dataclasses.field(default_factory=dict)
    stages: set[tuple[str, str]] = dataclasses.field(default_factory=set)

    def tell(self) -> None:
        """Tells listeners what is new."""
        if not self.listeners.callbacks:
            return
        self.store.refresh()
        saves = self.store.saves
        for name in sorted(
            saves, key=lambda name: name.startswith('main-')
        ):  # tuning first
            before = self.told.get(name, -1)
            if max(saves[name]) <= before:
                continue
            try:
                kept = runs.lane_of(
                    saves[name], verify=False
                )  # its lines; the state may be large
            except errors.InvalidError:  # replaced by a later one meanwhile
                continue
            self.told[name] = kept.round
            wanted = runs.rounds_of_lane(name, self.store.facts)
            lane = lanes.of_kept(kept)._replace(num_rounds=wanted)
            if (lane.algorithm, lane.stage) not in self.stages:
                self.stages.add((lane.algorithm, lane.stage))
                self.listeners.tell('on_stage', lane.algorithm, lane.stage, wanted)
            for round, record in kept.records.items():
                if round > before:
                    self.listeners.tell('on_period', lane, {'round': round, **record})


def _as_text(experiment: 'Experiment') -> str:
    """The config of an experiment that other processes can build, as JSON."""
    if experiment.config is None:
        plan = experiment.plan
        parts: dict[str, Any] = {
            f'algorithms.{k}': v for k, v in plan.algorithms.items()
        }
        parts |= {f'patterns.{k}': v for k, v in plan.patterns.items()}
        part = next(
            (name for name, maker in parts.items() if maker.bind is None), 'problem'
        )
        requirement = 'be what a config says (experiment.build) to run by an executor'
        raise errors.invalid(
            part, requirement, 'an object of this process, which cannot travel'
        )
    try:
        return json.dumps(experiment.config)
    except TypeError as error:
        raise errors.invalid(
            'config', 'hold plain values to travel', str(error)
        ) from None
