"""A run on disk: the config as run, one metrics line per evaluation, checkpoints, exact resume.

A run is a sequence of compiled chunks, one per evaluation; all seeds advance in one program. After
a crash the same command goes on from the last checkpoint, and the metrics file ends up byte for
byte what an uninterrupted run writes.
"""

import json
import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links import errors, prng, simulation, tree
from fedjax_links.base import Algorithm, FederationState, Participation, Problem
from fedjax_links.sweeps import over_lanes

CONFIG, METRICS, CHECKPOINTS = 'config.json', 'metrics.jsonl', 'checkpoints'
_CHECKPOINT_SECONDS = 30.0


class Program(NamedTuple):
    """One algorithm's compiled chunk, for all seeds together.

    Attributes:
      step: ``(states [S, ...], problem) -> (states, record)``, one evaluation period.
      states: initial states [S, ...].
      compile_seconds: time it took to compile.
      state_bytes: bytes of the states.
      peak_bytes: what the compiler says the chunk needs at once: states, data and work space; None
        where the device does not say.
    """

    step: Callable[[FederationState, Problem], tuple[FederationState, Any]]
    states: FederationState
    compile_seconds: float
    state_bytes: int
    peak_bytes: int | None


def build_program(
    algorithm: Algorithm,
    participation: Participation,
    problem: Problem,
    *,
    seeds: Sequence[int],
    eval_every: int,
    eval_fn: simulation.EvalFn | None = None,
    batching: str | None = None,
) -> Program:
    """Compiles one evaluation period of an algorithm for all seeds.

    Args:
      algorithm: the algorithm.
      participation: the pattern.
      problem: data and loss.
      seeds: S seeds.
      eval_every: rounds per chunk.
      eval_fn: as in `simulation.simulate`.
      batching: as in `sweeps.sweep`.

    Returns:
      The program with its initial states.
    """
    keys = jax.vmap(jax.random.key)(prng.seed_column(seeds))

    def start(key, problem):
        return simulation.init(key, algorithm, participation, problem)

    def chunk(inputs, problem):
        state, key = inputs
        result = simulation.simulate(
            key,
            algorithm,
            participation,
            problem,
            num_rounds=eval_every,
            eval_every=eval_every,
            eval_fn=eval_fn,
            initial_state=state,
        )
        sums = jax.tree.map(lambda a: jnp.sum(a, axis=0), result.rounds)
        evals = jax.tree.map(lambda a: a[0], result.evals)
        return result.state, {'sums': sums._asdict(), 'evals': evals}

    began = time.perf_counter()
    states = jax.jit(over_lanes(start, batching))(keys, problem)
    chunks = over_lanes(chunk, batching)
    compiled = (
        jax.jit(lambda states, keys, problem: chunks((states, keys), problem), donate_argnums=0)
        .lower(states, keys, problem)
        .compile()
    )
    memory = compiled.memory_analysis()
    return Program(
        step=lambda states, problem: compiled(states, keys, problem),
        states=states,
        compile_seconds=time.perf_counter() - began,
        state_bytes=tree.num_bytes(states),
        peak_bytes=memory
        and memory.argument_size_in_bytes
        + memory.output_size_in_bytes
        + memory.temp_size_in_bytes
        - memory.alias_size_in_bytes,
    )


class RunFolder:
    """The files of one run; opening an existing folder resumes it."""

    def __init__(
        self,
        workdir: str | Path,
        config: Mapping[str, Any],
        *,
        may_differ: Collection[str] = (),
    ) -> None:
        """Opens or creates the folder.

        Args:
          workdir: the folder; created if missing.
          config: the run's full configuration, JSON values only.
          may_differ: fields of the configuration that change no result; their new values are kept.

        Raises:
          ValueError: if the folder holds a run with another configuration.
        """
        self.path = Path(workdir).absolute()
        self.path.mkdir(parents=True, exist_ok=True)
        as_run = self.path / CONFIG
        text = json.dumps(config, indent=2, sort_keys=True) + '\n'
        if as_run.exists():
            there, here = (
                {name: value for name, value in json.loads(side).items() if name not in may_differ}
                for side in (as_run.read_text(), text)
            )
            if there != here:
                field, old, new = _first_difference(there, here)
                raise errors.invalid(
                    'workdir',
                    'be new or hold a run with the same config',
                    f'{workdir}, where {field} is {old!r} and not {new!r}',
                )
        as_run.write_text(text)

    def train(
        self,
        label: str,
        program: Program,
        problem: Problem,
        *,
        num_rounds: int,
        on_chunk: Callable[[int], None] = lambda round: None,
    ) -> None:
        """Runs an algorithm to ``num_rounds``, from its last checkpoint if there is one.

        Args:
          label: names the algorithm in metrics and checkpoints; algorithms run one after the other
            in a fixed order.
          program: its compiled chunk.
          problem: the problem it was compiled for.
          num_rounds: rounds to reach, a multiple of the chunk.
          on_chunk: called with the number of rounds done, at the start and after every chunk.
        """
        import orbax.checkpoint as ocp  # 0.9 s

        options = ocp.CheckpointManagerOptions(max_to_keep=1)
        directory = self.path / CHECKPOINTS / label
        with ocp.CheckpointManager(directory, options=options) as checkpoints:
            done, states = checkpoints.latest_step() or 0, program.states
            if done:
                target = jax.tree.map(ocp.utils.to_shape_dtype_struct, states)
                states = checkpoints.restore(done, args=ocp.args.StandardRestore(target))
            self._drop_metrics_after(label, done)
            on_chunk(done)
            last_save = time.monotonic()
            with (self.path / METRICS).open('a') as metrics:
                while done < num_rounds:
                    states, record = program.step(states, problem)
                    done = int(states.round[0])
                    metrics.write(_metrics_line(label, done, record, states))
                    metrics.flush()
                    due = time.monotonic() - last_save > _CHECKPOINT_SECONDS
                    if due or done == num_rounds:
                        checkpoints.save(done, args=ocp.args.StandardSave(states))
                        checkpoints.wait_until_finished()
                        last_save = time.monotonic()
                    on_chunk(done)

    def metrics(self) -> list[dict[str, Any]]:
        """As `read_metrics`."""
        return read_metrics(self.path)

    def _drop_metrics_after(self, label: str, round: int) -> None:
        """Cuts the file back to what the checkpoint of ``label`` at ``round`` has seen."""
        kept = []
        for line in self.metrics():
            if line['algorithm'] == label and line['round'] > round:
                break
            kept.append(json.dumps(line) + '\n')
        (self.path / METRICS).write_text(''.join(kept))


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """The metrics lines so far, oldest first; a half-written last line is left out.

    Args:
      folder: of a run.

    Returns:
      One dictionary per evaluation of an algorithm; none if nothing was evaluated yet.
    """
    path = folder / METRICS
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith('\n')]


def _metrics_line(label: str, round: int, record: Any, states: FederationState) -> str:
    values = jax.tree.map(lambda a: _jsonable(np.asarray(a)), {**record, 'finite': states.finite})
    return json.dumps({'algorithm': label, 'round': round, **values}) + '\n'


def _jsonable(array: np.ndarray) -> Any:
    """Nested lists, with None for what JSON cannot say (NaN and infinities)."""
    if array.ndim:
        return [_jsonable(entry) for entry in array]
    value = array.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _first_difference(there: Any, here: Any, field: str = 'config') -> tuple[str, Any, Any]:
    if isinstance(there, dict) and isinstance(here, Mapping):
        for name in sorted({*there, *here}):
            if there.get(name) != here.get(name):
                return _first_difference(there.get(name), here.get(name), f'{field}.{name}')
    return field, there, here
