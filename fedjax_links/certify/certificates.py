"""Certifies that the programs of an experiment compute correct results on this device.

A compiler can be wrong. Every program of a run takes a few rounds on this device. Another process
computes the same rounds in double precision on a CPU (`float64_reference`). Where theory knows the
mean of a model after some rounds, the mean over many seeds is compared with it. A program that
differs by more than rounding, or than chance, is off. A lane, one algorithm, pattern, grid point
and seed, stands for all lanes that share its program.
"""

import functools
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from fedjax_links import (
    algorithms,
    local_training,
    participation,
    problems,
    runs,
    sweeps,
)
from fedjax_links.base import PyTree
from fedjax_links.certify import float64_reference
from fedjax_links.core import errors, paths
from fedjax_links.core.records import MetricsRow, Section
from fedjax_links.experiment.definition import Experiment
from fedjax_links.machines import cpus, devices, environment
from fedjax_links.planning.lanes import Lane
from fedjax_links.runner import compilation, lane_batch, program_cache
from fedjax_links.storage import atomic_files, checkpoints, outputs

FILE = 'certificate.json'
_BOUND = 1e-4
"""Largest error that counts as rounding of float32 in a few rounds; a choice."""
_COARSE_BOUND = 0.1
"""The same for programs that compute with fewer digits than float32."""
_SMALL = 0.01
"""Errors are relative to the leaf's change over the rounds, plus this portion of its size."""
_ROUNDING = 1e-12
"""Relative to the largest leaf: a leaf that changes by less holds only rounding of float64."""
_ACCURACY = 0.01
"""Change of accuracy by an example or two on the border between two classes."""
_SHORT_FLOATS = re.compile(r'\bb?f16\[|\bf8')
_NUM_SEEDS = 256
_STANDARD_ERRORS = 5.0
"""Largest distance of a mean from theory that counts as chance; exceeded with probability 6e-7."""


class ProgramVerdict(NamedTuple):
    """Holds the verdict on a program.

    Attributes:
      program: the algorithm and links of the program, or the links that it draws.
      error: for rounds, the error of a leaf, relative to its change over the rounds plus a
        hundredth of its size. For links, the portion that differs. For means, the distance from
        theory in standard errors.
      bound: the largest error that counts as rounding or chance.
      where: the leaf or metric with the largest error; for links the first leaf that differs.
    """

    program: str
    error: float
    bound: float
    where: str

    @property
    def holds(self) -> bool:
        """Returns whether the error is within its bound."""
        return self.error <= self.bound


def certify(source: Section | str | None = None) -> Iterator[ProgramVerdict]:
    """Compares programs with double precision, and with theory.

    Args:
      source: a config, or the name of one of `float64_reference.STANDARD`; None for all of
        these experiments.

    Returns:
      A verdict for each program, one after the other.

    Raises:
      ValueError: if the config describes no experiment.
    """
    sources = [*float64_reference.STANDARD] if source is None else [source]
    for name_or_config in sources:
        yield from _certify_experiment(name_or_config)
    yield from _certify_means()


def _certify_experiment(source: Section | str) -> Iterator[ProgramVerdict]:
    """Compares the programs of an experiment with double precision."""
    experiment = float64_reference.shortened(float64_reference.experiment_of(source))
    programs = program_cache.Programs(experiment.plan, slots=devices.device_slots(1))
    lanes = float64_reference.lanes_of(experiment)
    first_of_pattern: dict[str, Lane] = {}
    for lane in lanes:
        first_of_pattern.setdefault(lane.pattern, lane)
    link_lanes = list(first_of_pattern.values())
    run_lanes = programs.one_of_each(lanes)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for lane in run_lanes:
            _write_initial_params(experiment, lane, folder)
        process = float64_reference.begin(folder, source, link_lanes, run_lanes)
        read = functools.partial(_read, folder, process)
        try:
            for lane in link_lanes:
                links = _draw_links(experiment, lane)
                exact = read('links', lane)
                yield _compare_links(f'links of {lane.pattern}', links, exact)
            for lane in run_lanes:
                yield _compare_rounds(experiment, programs, lane, read)
        finally:
            process.kill()
            process.wait()


def _read(
    folder: Path, process: subprocess.Popen[bytes], kind: str, lane: Lane
) -> dict[str, np.ndarray]:
    """Waits for a result in double precision: links, states before or after, or evals of a lane."""
    path = folder / f'{kind}-{lane.name}.npz'
    while not path.exists():
        if process.poll() is not None and not path.exists():
            message = (folder / float64_reference.ERRORS).read_text(
                'utf-8', errors='replace'
            )
            raise RuntimeError(f'The rounds in double precision failed:\n{message}')
        time.sleep(0.05)
    return checkpoints.arrays(path)


def _write_initial_params(experiment: Experiment, lane: Lane, folder: Path) -> None:
    """Writes the initial parameters of a lane, for the other process."""
    plan = experiment.plan
    key = plan.draws.key_of('init', lane.seed, lane.point)
    params = compilation.initial_params(plan.problem_of(lane).init_params, key)
    path = folder / f'params-{lane.name}.npz'
    atomic_files.write(path, checkpoints.pack(params))


def _draw_links(experiment: Experiment, lane: Lane) -> PyTree:
    """Draws the links of a lane by the program of a run."""
    plan = experiment.plan
    pattern = compilation.trace_pattern(plan.pattern_of(lane))
    program = compilation.link_program(pattern, experiment.eval_every, None)
    key = plan.draws.key_of('links', lane.seed, lane.point)
    carry = program.start(pattern.constants, key)
    first = np.int32(0)
    count = np.int32(1)
    _, links = program.draw(pattern.constants, carry, key, first, count, max_periods=1)
    return jax.tree.map(lambda a: a[0], links)


def _compare_links(program: str, links: PyTree, exact: Section) -> ProgramVerdict:
    """Compares links: masks must be equal, probabilities up to rounding."""
    for path, leaf in checkpoints.leaves_of(links).items():
        ours = np.asarray(leaf)
        theirs = exact[path]
        differs = ours != theirs
        if ours.dtype.kind == 'f':
            is_close = np.isclose(
                ours, theirs, rtol=_BOUND, atol=_BOUND, equal_nan=True
            )
            differs = ~is_close
        if np.any(differs):
            return ProgramVerdict(program, float(np.mean(differs)), 0.0, path)
    return ProgramVerdict(program, 0.0, 0.0, '')


def _compare_rounds(
    experiment: Experiment,
    programs: program_cache.Programs,
    lane: Lane,
    read: Callable[[str, Lane], dict[str, np.ndarray]],
) -> ProgramVerdict:
    """Compares the state and the evaluations of a lane after a few rounds."""
    after, record, bound = _rounds_here(experiment, programs, lane)
    error_of = _errors(after, read('before', lane), read('after', lane))
    error_of |= _errors_of_evals(record, read('evals', lane))
    built_in = compilation.built_in_columns(experiment.plan, lane)
    options = [f'{name} {value}' for name, value in built_in.items()]
    where = max(error_of, key=lambda name: error_of[name])
    program = ', '.join([lane.algorithm, lane.pattern, *options])
    return ProgramVerdict(program, error_of[where], bound, where)


def _rounds_here(
    experiment: Experiment, programs: program_cache.Programs, lane: Lane
) -> tuple[PyTree, MetricsRow, float]:
    """Runs a lane by the program of a run.

    Returns:
      The state of the lane's algorithm, its metrics, and the bound for the program's precision.
    """
    width = 2 if programs.side_by_side else None
    batch = lane_batch.LaneBatch(programs, [lane], width=width)
    with experiment.plan.precision():
        precision = environment.numerics()['jax_default_matmul_precision']
        (compiled,) = lane_batch.compile_batches(programs, [batch])
        batch.start()
        (record,) = batch.advance_period()
    (after,) = batch.states()
    is_coarse = precision not in ('highest', 'float32')
    is_coarse &= jax.default_backend() != 'cpu'
    is_coarse |= bool(_SHORT_FLOATS.search(compiled.as_text() or ''))
    return after.algorithm, record, _COARSE_BOUND if is_coarse else _BOUND


def _errors(
    here: PyTree, before: Mapping[str, np.ndarray], after: Mapping[str, np.ndarray]
) -> dict[str, float]:
    """Returns the error of each leaf, relative to its change plus a hundredth of its size.

    The error of a leaf that holds only rounding, as in a compensated sum, is relative to the
    largest leaf.
    """
    largest = max(
        np.linalg.norm(np.asarray(leaf, np.float64)) for leaf in after.values()
    )
    errors_by_path = {}
    for path, leaf in checkpoints.leaves_of(here).items():
        if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            continue
        exact = np.asarray(after[path], np.float64)
        size = np.linalg.norm(exact - before[path]) + _SMALL * np.linalg.norm(exact)
        if 0 < size < _ROUNDING * largest:
            size = largest
        error = float(np.linalg.norm(np.asarray(leaf, np.float64) - exact))
        if not np.isfinite(error) or (error and not size):
            error = np.inf
        elif error:
            error = float(error / size)
        errors_by_path[path] = error
    return errors_by_path


def _errors_of_evals(record: MetricsRow, exact: MetricsRow) -> dict[str, float]:
    """Returns the errors of metrics, beyond an example or two on the border of two classes."""
    errors_by_metric = {}
    for path, value in exact.items():
        name = '/'.join(re.findall(r"'([^']*)'", path))
        difference = float(abs(record[name] - value))
        if 'accuracy' in name and np.isfinite(difference):
            difference = max(0.0, difference - _ACCURACY)
        error = difference / float(abs(value) + _SMALL)
        errors_by_metric[name] = np.inf if np.isnan(error) else error
    return errors_by_metric


def _certify_means() -> Iterator[ProgramVerdict]:
    """Compares means of FedAvg's and FedPBC's server models over seeds with theory."""
    from fedjax_links import analysis

    probs = np.linspace(0.2, 0.9, 8)
    targets = np.arange(16.0).reshape(8, 2)
    rate = 0.1
    steps = 3
    num_rounds = 5
    problem = problems.quadratic(targets)
    fedavg = analysis.fedavg_mean_and_covariance(
        probs, targets, rate, steps, num_rounds=num_rounds
    )
    fedpbc = analysis.fedpbc_mean_and_covariance(
        probs, targets, rate, steps, num_rounds=num_rounds
    )
    exact = {'fedavg': fedavg.mean[-1], 'fedpbc': fedpbc.server_mean[-1]}
    client = local_training.local_sgd(rate, local_steps=steps)
    for name, mean in exact.items():
        factory: Any = algorithms.ALGORITHMS[name]
        make_algorithm = functools.partial(factory, client)
        run = sweeps.sweep(
            make_algorithm,
            functools.partial(participation.bernoulli, probs),
            problem,
            seeds=range(_NUM_SEEDS),
            num_rounds=num_rounds,
        )
        server = make_algorithm().models(run.state.algorithm)['server'][0]
        models = np.asarray(server, np.float64)
        standard_error = models.std(axis=0, ddof=1) / np.sqrt(_NUM_SEEDS)
        error = np.max(np.abs(models.mean(axis=0) - mean) / standard_error)
        where = f'mean of {_NUM_SEEDS} seeds, in standard errors'
        yield ProgramVerdict(f'{name}, theory', float(error), _STANDARD_ERRORS, where)


# Certificates on disk.


def keep(verdicts: Iterable[ProgramVerdict], folder: str | Path | None = None) -> bool:
    """Writes the certificate of this device, and a copy into the folder of a run.

    Args:
      verdicts: on all programs.
      folder: of the run, or None.

    Returns:
      Whether all verdicts hold.
    """
    verdicts = list(verdicts)
    rows = [{**verdict._asdict(), 'holds': verdict.holds} for verdict in verdicts]
    fingerprint = environment.fingerprint()
    content = runs.as_json({'fingerprint': fingerprint, 'programs': rows})
    atomic_files.write(_device_file(), content)
    if folder is not None:
        outputs.write('workdir', paths.as_path(folder), [(FILE, content)])
    return all(verdict.holds for verdict in verdicts)


def note() -> str | None:
    """Returns the note that this device has no certificate, at its first run; None later.

    It is also None if no file can be written, since then every run would repeat the note.
    """
    try:
        path = _device_file()
        if path.exists():
            return None
        atomic_files.write(path, runs.as_json({'programs': []}))
    except (OSError, errors.InvalidError):
        return None
    device = jax.devices()[0].device_kind
    return (
        f'device   no certificate of {device} with jaxlib {jax.lib.__version__} yet: '
        'python -m fedjax_links certify compares its programs with double precision'
    )


def _device_file() -> Path:
    """Returns the file of this device's certificate."""
    folder = cpus.cache_folder('certificates')
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f'{cpus.digest(environment.fingerprint())}.json'
