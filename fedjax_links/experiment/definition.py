"""Defines an experiment: a problem, link patterns, algorithms, a grid of values, and seeds.

A lane is one simulation of it: one algorithm, pattern, grid point and seed.
"""

import dataclasses
import functools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedjax_links import runs, simulation
from fedjax_links.base import Algorithm, Participation, Problem
from fedjax_links.config import nested, schema
from fedjax_links.core import checks, errors, fields, grids, reprs
from fedjax_links.experiment import config as config_
from fedjax_links.experiment import copies, executors, forking
from fedjax_links.machines import devices as devices_
from fedjax_links.planning import description, lane_shards, parametrized, validation
from fedjax_links.planning.parametrized import PartOrFactory
from fedjax_links.planning.plan import Plan
from fedjax_links.planning.tuning import Tuning
from fedjax_links.runner import client_measurements, hooks, loop, preflight
from fedjax_links.runner import progress as progress_


@fields.documented
@reprs.described(lambda experiment: experiment._summary())
@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Experiment(schema.Settings):
    """Compares algorithms under link patterns, at each point of a grid and with each seed.

    All algorithms meet the same links and batches. A part is an object or a maker: a function whose
    keywords are columns of the grid. If the grid lacks a column, the keyword's default holds.
    Floats are arguments of the compiled program, and other values are built into it. So rates of
    all sizes share one program, and numbers of local steps do not.

    Attributes:
      problem: data and loss: a Problem or a maker, or a mapping of these by label of the pattern.
      patterns: by label, a Participation or a maker.
      algorithms: by label, an Algorithm or a maker.
      seeds: S seeds in ``[0, 2**32)``; or `UntilDecided`.
      redraw: ``'by_seed'`` or ``'fixed'`` for each stream of draws (see `seeding`), or one mode for
        all streams: ``data``, ``partition``, ``links_quality``, ``init``, ``links``, ``batches``.
        Each seed redraws the streams that are by seed. By default the first three are fixed. All
        algorithms of a seed meet the same draws. If a stream is by seed, makers that take
        ``data_seed``, ``partition_seed`` or ``links_quality_seed`` receive the seed.
      grid: values by column; nested grids have columns with dots, ``client.learning_rate``.
      tuning: how the best values of further columns are found; None for no tuning.
      eval_fn: as in `simulation.simulate`; by default the problem's metrics. If the problem has
        held-out data, these are computed on training data and on evaluation data.
      lane_shard: which of the lanes the experiment runs, see `shard`; all by default.
      config: the config that this experiment was made from. A copy by `dataclasses.replace` has the
        config with the changed fields, or None if a part changed that no config can express.
    """

    problem: PartOrFactory[Problem] | Mapping[str, PartOrFactory[Problem]]
    patterns: Mapping[str, PartOrFactory[Participation]]
    algorithms: Mapping[str, PartOrFactory[Algorithm]]
    seeds: Sequence[int] = (0,)
    redraw: Mapping[str, str] | str = dataclasses.field(default_factory=dict)
    grid: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    tuning: Tuning | None = None
    eval_fn: simulation.EvalFn | None = None
    lane_shard: lane_shards.LaneShard | None = None
    config: Mapping[str, Any] | None = None
    # The fields as they were first made. `dataclasses.replace` hands them to the copy.
    _copied: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        """Checks everything but the parts themselves."""
        validation.check_kinds(self)
        fields.check_values(self)
        validation.check_multiple('num_rounds', self.num_rounds, self.eval_every)
        if isinstance(self.problem, Mapping):
            missing = set(self.patterns) - set(self.problem)
            if missing:
                requirement = f'have {min(missing)!r}'
                raise errors.invalid('problem', requirement, sorted(self.problem))
        self._correct_config()
        hooks.check_log(self.log)
        validation.check(self.plan)

    def _correct_config(self) -> None:
        """Makes the config of a copy agree with the fields that the copy changed."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        original = values.pop('_copied')
        corrected: Mapping[str, Any] = {}
        if original is not None:
            corrected = copies.correct_config(values, original)
        new_values = {**corrected, '_copied': {**values, **corrected}}
        for name, value in new_values.items():
            object.__setattr__(self, name, value)

    def __eq__(self, other: object) -> bool:
        """Returns whether both were made from the same config, or else of the same parts."""
        if not isinstance(other, Experiment):
            return NotImplemented
        return self is other or self._identity() == other._identity()

    def __hash__(self) -> int:
        """Returns the hash of the title, which equal experiments share."""
        return hash(self.title)

    def _identity(self) -> str:
        """Returns a text that only equal experiments share: values, and ids of other parts."""
        values: dict[str, Any] = {
            'lane_shard': self.lane_shard and dataclasses.astuple(self.lane_shard)
        }
        if self.config is not None:
            values |= self.config
        else:
            values |= self.plan.facts()
            for name in ('problem', 'patterns', 'algorithms', 'eval_fn'):
                values[name] = getattr(self, name)
        return json.dumps(values, sort_keys=True, default=_value_or_id)

    @functools.cached_property
    def plan(self) -> Plan:
        """Returns what a run needs: makers of the parts, lanes, and how results are judged."""
        columns = grids.flatten(self.grid)
        algorithms = {
            label: parametrized.as_maker(f'algorithms.{label}', part)
            for label, part in self.algorithms.items()
        }
        patterns = parametrized.pattern_makers(self.patterns)
        tuning = self.tuning
        if tuning is not None and tuning.num_rounds is None:
            tuning = dataclasses.replace(tuning, num_rounds=self.num_rounds)
        settings = {
            name: getattr(self, name) for name in fields.declared(schema.Settings)
        }
        return Plan(
            settings=schema.Settings(**settings),
            algorithms=algorithms,
            patterns=patterns,
            problems=parametrized.problem_makers(self.problem, patterns),
            columns=columns,
            seeds=self.seeds,
            redraw=self.redraw,
            tuning=tuning,
            chosen_eval_fn=self.eval_fn,
            lane_shard=self.lane_shard,
            config=self.config,
        )

    def algorithm_at(self, label: str, columns: grids.Point) -> Algorithm:
        """Returns an algorithm at values of columns, which may be traced; others have defaults."""
        return self.plan.algorithm_at(label, columns)

    def pattern_at(
        self, label: str, point: grids.Point, seed: int | None = None
    ) -> Participation:
        """Returns a pattern at a point, as a seed draws it; by default the first."""
        return self.plan.pattern_at(label, point, seed)

    def problem_at(
        self, pattern: str, point: grids.Point, seed: int | None = None
    ) -> Problem:
        """Returns the problem of a pattern at a point, as a seed draws it; by default the first."""
        return self.plan.problem_at(pattern, point, seed)

    def describe(self) -> str:
        """Returns a few lines: the problem, the work ahead, draws, and warnings."""
        return description.describe(self.plan)

    def check(self) -> None:
        """Traces a period of every program and refuses what cannot fit, in seconds.

        Raises:
          ValueError: naming the algorithm that fails, or needs more memory than there is.
        """
        preflight.check(self.plan)

    def shard(
        self, index: int, count: int, *, by: str = lane_shards.PROGRAM
    ) -> 'Experiment':
        """Returns the same experiment with one of ``count`` shards of its lanes.

        Lanes with the same program are neighbours, so each shard compiles few programs. All shards
        that run in one folder first help to tune. `runs.merge` joins the shards' metrics.

        Args:
          index: from 0 to ``count - 1``. ``count`` stands for 0, so users can also count from 1.
          count: number of shards.
          by: ``'program'``; or ``'seed'`` for shards on machines of different kinds, so that all
            lanes of a seed run on one kind.

        Returns:
          The experiment. Shards with the same ``count`` may run at the same time.

        Raises:
          ValueError: if the numbers are out of range.
        """
        shard = lane_shards.LaneShard(index, count, by)
        return dataclasses.replace(self, lane_shard=shard)

    def run(
        self,
        folder: str | Path | None = None,
        callbacks: Sequence[hooks.Callback] = (),
        *,
        devices: devices_.Devices = None,
        mesh: int | None = None,
        executor: Any = None,
        jobs: int | None = None,
        allow_mixed: bool = False,
        allow_changed: bool = False,
        progress: bool | None = None,
    ) -> runs.Results:
        """Runs what has not run yet.

        Args:
          folder: of the run, from which an interrupted run resumes; None for results in memory
            alone.
          callbacks: objects with the methods of `hooks.Callback`.
          devices: the devices that lanes run on at the same time, or their number; on a CPU, the
            number of threads. By default the devices of one mesh, or all. Changes no bit. With an
            executor, the number for each job; by default all, but one thread on a CPU.
          mesh: how many devices share the clients of every round of a lane; None for no mesh.
          executor: runs the lanes in other processes, which must see the folder: any object with
            the method ``submit`` of `concurrent.futures.Executor`, such as a Dask client. The
            experiment must be made from a config, which is sent to the processes.
          jobs: number of jobs of the executor, at most one per lane; by default one per lane, 64
            at most.
          allow_mixed: whether lanes of different seeds may run on machines of different kinds,
            whose bits may differ. Differences between lanes of one seed stay exact.
          allow_changed: whether to resume in a folder of other programs or data; each report says
            what differed.
          progress: whether to show one line with the time left (`Progress`); by default only in
            notebooks.

        Returns:
          The metrics as columns, tuning included. With a folder, ``clients`` measures each client
          when it is first asked for.

        Raises:
          ValueError: if the folder holds another experiment, other programs or data, or other
            files; if devices are missing, or all tried values diverge.
          FailedLanesError: if lanes of a shard or of an executor's jobs failed, once all other
            lanes have run.
          Stop: if a callback raised it, in any of several processes, after all was saved.
        """
        checks.flags(allow_mixed=allow_mixed, allow_changed=allow_changed)
        listeners = self._listeners(callbacks, progress)
        if executor is None:
            if jobs is not None:
                raise errors.invalid('jobs', 'be given with an executor', jobs)
            results = loop.run(
                self.plan,
                folder,
                listeners,
                slots=devices_.device_slots(devices, mesh),
                allow_mixed=allow_mixed,
                allow_changed=allow_changed,
            )
            return self._with_clients(results)
        if self.lane_shard is not None or mesh is not None:
            got = f'mesh {mesh}'
            if self.lane_shard is not None:
                got = f'shard {self.lane_shard.index}'
            raise errors.invalid('executor', 'be given without a shard or a mesh', got)
        if not isinstance(devices, int | np.integer | None):
            raise errors.invalid('devices', 'be a number with an executor', devices)
        results = executors.run(
            self.plan,
            executor,
            folder,
            listeners,
            build=build,
            jobs=jobs,
            devices=devices,
            allow_mixed=allow_mixed,
            allow_changed=allow_changed,
        )
        return self._with_clients(results)

    def fork(
        self,
        fork_from: str | Path,
        at_round: int,
        folder: str | Path | None = None,
        callbacks: Sequence[hooks.Callback] = (),
        *,
        devices: devices_.Devices = None,
        mesh: int | None = None,
        allow_imports: bool = False,
        allow_changed: bool = False,
        progress: bool | None = None,
    ) -> runs.Results:
        """Runs like `run`, with lanes that begin with the states of another run after a round.

        Args:
          fork_from: folder of the other run, see `forking`.
          at_round: T, a multiple of ``eval_every`` of both runs. ``num_rounds`` counts from the
            beginning of the other run.
          folder: as in `run`; new, or of the same fork.
          callbacks: as in `run`.
          devices: as in `run`.
          mesh: as in `run`.
          allow_imports: whether the other run's config may name code outside the package that this
            experiment's config does not name. It matters only if lanes must be advanced again.
          allow_changed: as in `run`, of both folders.
          progress: as in `run`.

        Returns:
          The metrics of the rounds after T.

        Raises:
          ValueError: as `run`. Also if a lane has no counterpart in the other run, or if the
            counterpart's state does not fit.
        """
        checks.flags(allow_imports=allow_imports, allow_changed=allow_changed)
        fork = forking.Fork(
            self.plan,
            fork_from,
            at_round,
            build=build,
            allow_imports=allow_imports,
            allow_changed=allow_changed,
        )
        results = loop.run(
            self.plan,
            folder,
            self._listeners(callbacks, progress),
            initial_states=fork,
            slots=devices_.device_slots(devices, mesh),
            allow_changed=allow_changed,
        )
        return self._with_clients(results)

    def _with_clients(self, results: runs.Results) -> runs.Results:
        """Lets results in a folder measure the clients when they are first asked for."""
        if results.folder is None:
            return results
        measure = functools.partial(
            client_measurements.measure, self.plan, results.columns, results.folder
        )
        return dataclasses.replace(results, measure_clients=measure)

    def _listeners(
        self, callbacks: Sequence[hooks.Callback], progress: bool | None
    ) -> hooks.Listeners:
        """Returns the callbacks of a run, with a line of progress if that is to be shown."""
        return hooks.Listeners(
            progress_.with_progress(callbacks, progress), experiment=self
        )

    def _summary(self) -> str:
        """Returns the printed form of an experiment."""
        columns = self.plan.columns
        grid = ''
        if columns:
            grid = f'{len(self.plan.points)} points of {", ".join(columns)}'
        seeds = description.seeds_of(self.plan)
        rows = {
            'title': self.title,
            'algorithms': ', '.join(self.algorithms),
            'patterns': ', '.join(self.patterns),
            'grid': grid,
            'seeds': seeds.removesuffix('s').removesuffix(' seed'),
            'rounds': f'{self.num_rounds:,}, evaluated every {self.eval_every:,}',
        }
        return reprs.block('Experiment', rows)


def build(config: nested.Config, *, quick: bool = False) -> Experiment:
    """Builds the experiment that a config stands for.

    ``config.schema.ExperimentConfig`` describes the fields.

    Args:
      config: nested dictionaries or an `ml_collections.ConfigDict`, as a config file returns them;
        NumPy's numbers and arrays stand for numbers and lists. The first algorithm is the baseline
        if none is named ``fedavg``. Tables have patterns in the config's order and algorithms by
        label, unless ``names`` orders them.
      quick: whether the section ``quick`` replaces fields, as with the flag ``--quick``. Otherwise
        that section is left out.

    Returns:
      The experiment. Every part was built once, so mistakes show here.

    Raises:
      ValueError: naming the field, its value and the nearest valid name.
    """
    checks.flags(quick=quick)
    values = config_.read(config, quick=quick)
    with config_.named_in_config():
        experiment = Experiment(**values)
    config_.make_algorithms(experiment.plan)
    return experiment


def _value_or_id(part: Any) -> Any:
    """Returns the value of a NumPy array or number, and the id of any other object."""
    return part.tolist() if isinstance(part, np.ndarray | np.generic) else id(part)
