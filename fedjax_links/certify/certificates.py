"""Certificates: whether the programs of an experiment compute what they say, on this device.

A compiler can be wrong. Every program takes a few rounds here, in the form in which a run has it,
and the same rounds in double precision on a CPU in another process (`float64_reference`); and
where theory knows the mean of a model after some rounds, that of many seeds is compared with it.
What differs by more than rounding, or than chance, is off.
"""

import re
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
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
from fedjax_links.experiment.definition import Experiment
from fedjax_links.machines import cpus, devices, environment
from fedjax_links.planning.lanes import Lane
from fedjax_links.runner import compilation, lane_batch, program_cache
from fedjax_links.storage import checkpoints, outputs

FILE = 'certificate.json'
_BOUND, _COARSE_BOUND = 1e-4, 0.1
_SMALL = 0.01
_ACCURACY = 0.01  # an example or two on the border between two classes
_SHORT_FLOATS = re.compile(r'\bb?f16\[|\bf8')
_NUM_SEEDS, _STANDARD_ERRORS = 256, 5.0


class ProgramVerdict(NamedTuple):
    """Of one program.

    Attributes:
      program: its algorithm and links, or whose links it draws.
      error: how far off it is, relative to how far the rounds moved it and a hundredth of its size;
        the share of links that differ; the distance from theory in standard errors.
      bound: of that.
      where: what is off by the most.
    """

    program: str
    error: float
    bound: float
    where: str

    @property
    def holds(self) -> bool:
        """Whether it is rounding."""
        return self.error <= self.bound


def certify(source: Mapping[str, Any] | str | None = None) -> Iterator[ProgramVerdict]:
    """Compares programs with double precision, and with theory.

    Args:
      source: a config, or the name of one of `float64_reference.STANDARD`; None for all of those.

    Returns:
      A verdict for each program, one after the other.

    Raises:
      ValueError: if the config is no experiment's.
    """
    for each in float64_reference.STANDARD if source is None else [source]:
        yield from _of_experiment(each)
    yield from _of_theory()


def _of_experiment(source: Mapping[str, Any] | str) -> Iterator[ProgramVerdict]:
    experiment = float64_reference.shortened(float64_reference.experiment_of(source))
    plan, shared = (
        experiment.plan,
        program_cache.Programs(experiment, places=devices.places(1)),
    )
    every = float64_reference.lanes_of(experiment)
    drawn = list({lane.pattern: lane for lane in reversed(every)}.values())[::-1]
    run = shared.one_of_each(every)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for lane in run:
            key = plan.draws.key_of('init', lane.seed, lane.point)
            params = compilation.initial_params(plan.problem_of(lane).init_params, key)
            content = checkpoints.pack(params)
            checkpoints.write_whole(folder / f'params-{lane.name}.npz', content)
        process = float64_reference.begin(folder, source, drawn, run)

        def exact(kind: str, lane: Lane) -> dict[str, np.ndarray]:
            """What the process in double precision found, once it is there."""
            path = folder / f'{kind}-{lane.name}.npz'
            while not path.exists():
                if process.poll() is not None and not path.exists():
                    said = process.communicate()[1].decode()
                    raise RuntimeError(
                        f'The rounds in double precision failed:\n{said}'
                    )
                time.sleep(0.05)
            return checkpoints.arrays(path)

        try:
            for lane in drawn:
                pattern = compilation.trace_pattern(plan.pattern_of(lane))
                program = compilation.link_program(pattern, experiment.eval_every, None)
                numbers = pattern.constants
                key = plan.draws.key_of('links', lane.seed, lane.point)
                carry = program.start(numbers, key)
                first = np.int32(0), np.int32(1)
                _, links = program.draw(numbers, carry, key, *first, most=1)
                links = jax.tree.map(lambda a: a[0], links)
                yield _of_links(f'links of {lane.pattern}', links, exact('links', lane))
            for lane in run:
                after, record, bound = _rounds_here(experiment, shared, lane)
                off = _errors(after, exact('before', lane), exact('after', lane))
                off |= _errors_of_evals(record, exact('evals', lane))
                built_in = compilation.split(experiment, lane)[1].items()
                said = [
                    lane.algorithm,
                    lane.pattern,
                    *(f'{k} {value}' for k, value in built_in),
                ]
                where = max(off, key=lambda name: off[name])
                yield ProgramVerdict(', '.join(said), off[where], bound, where)
        finally:
            process.kill()
            process.communicate()


def _of_links(program: str, links: PyTree, exact: Mapping[str, Any]) -> ProgramVerdict:
    for path, leaf in checkpoints.leaves_of(links).items():
        ours, theirs = np.asarray(leaf), exact[path]
        differs = ours != theirs
        if ours.dtype.kind == 'f':
            differs = ~np.isclose(
                ours, theirs, rtol=_BOUND, atol=_BOUND, equal_nan=True
            )
        if np.any(differs):
            return ProgramVerdict(program, float(np.mean(differs)), 0.0, path)
    return ProgramVerdict(program, 0.0, 0.0, '')


def _rounds_here(
    experiment: Experiment, shared: program_cache.Programs, lane: Lane
) -> tuple[PyTree, dict[str, Any], float]:
    """What a run's program makes of a lane: state, record, and how exact it means to be."""
    group = lane_batch.Group(shared, [lane], width=2 if shared.side_by_side else None)
    with experiment.plan.precision():
        precision = environment.numerics()['jax_default_matmul_precision']
        compiled = shared.compile([group])[0]
        group.start()
        record = group.period()[0]
    (after,) = group.states()
    coarse = jax.default_backend() != 'cpu' and precision not in ('highest', 'float32')
    coarse |= bool(_SHORT_FLOATS.search(compiled.as_text()))
    return after.algorithm, record, _COARSE_BOUND if coarse else _BOUND


def _errors(
    here: PyTree, before: Mapping[str, Any], after: Mapping[str, Any]
) -> dict[str, float]:
    """How far off each leaf is, relative to how far it went and a hundredth of its size."""
    found = {}
    for path, leaf in checkpoints.leaves_of(here).items():
        if not jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            exact = np.asarray(after[path], np.float64)
            size = np.linalg.norm(exact - before[path]) + _SMALL * np.linalg.norm(exact)
            off = float(np.linalg.norm(np.asarray(leaf, np.float64) - exact))
            found[path] = (
                float('inf') if not np.isfinite(off) else float(off and off / size)
            )
    return found


def _errors_of_evals(
    record: Mapping[str, Any], exact: Mapping[str, Any]
) -> dict[str, float]:
    """Of what was measured, beyond an example or two on the border between two classes."""
    found = {}
    for path, value in exact.items():
        name = '/'.join(re.findall(r"'([^']*)'", path))
        off = float(abs(record[name] - value) / (abs(value) + _SMALL))
        found[name] = (
            max(0.0, off - _ACCURACY * ('accuracy' in name)) if off == off else np.inf
        )
    return found


def _of_theory() -> Iterator[ProgramVerdict]:
    """The mean of FedAvg's and FedPBC's server model over seeds, which is known on quadratics."""
    from fedjax_links import analysis

    probs, rate, steps, num_rounds = np.linspace(0.2, 0.9, 8), 0.1, 3, 5
    targets = np.arange(16.0).reshape(8, 2)
    pattern, problem = participation.bernoulli(probs), problems.quadratic(targets)
    given, options = (
        (probs, targets, rate, steps),
        dict[str, Any](num_rounds=num_rounds),
    )
    exact = {
        'fedavg': analysis.fedavg_mean_and_covariance(*given, **options).mean,
        'fedpbc': analysis.fedpbc_mean_and_covariance(*given, **options).server_mean,
    }
    for name, mean in exact.items():
        algorithm = algorithms.ALGORITHMS[name](
            local_training.local_sgd(rate, local_steps=steps)
        )
        makers = lambda made=algorithm: made, lambda: pattern
        run = sweeps.sweep(*makers, problem, seeds=range(_NUM_SEEDS), **options)
        ends = np.asarray(
            algorithm.models(run.state.algorithm)['server'][0], np.float64
        )
        deviation = ends.std(axis=0, ddof=1) / np.sqrt(_NUM_SEEDS)
        off = float(np.max(np.abs(ends.mean(axis=0) - mean[-1]) / deviation))
        where = f'mean of {_NUM_SEEDS} seeds, in standard errors'
        yield ProgramVerdict(f'{name}, theory', off, _STANDARD_ERRORS, where)


# What is kept.


def keep(verdicts: Iterable[ProgramVerdict], folder: str | Path | None = None) -> bool:
    """Keeps a certificate: beside a run, and of this device.

    Args:
      verdicts: what was found.
      folder: of the run, or None.

    Returns:
      Whether all of them hold.
    """
    found = list(verdicts)
    rows = [{**verdict._asdict(), 'holds': verdict.holds} for verdict in found]
    fingerprint = environment.fingerprint()
    content = runs.as_json({'fingerprint': fingerprint, 'programs': rows})
    checkpoints.write_whole(_of_device(), content)
    if folder is not None:
        outputs.write('workdir', paths.as_path(folder), [(FILE, content)])
    return all(verdict.holds for verdict in found)


def note() -> str | None:
    """What a first run on this device says: that it has no certificate; None later.

    None too where nothing can be kept, so that it would be said again and again.
    """
    try:
        path = _of_device()
        if path.exists():
            return None
        checkpoints.write_whole(path, runs.as_json({'programs': []}))
    except (OSError, errors.InvalidError):
        return None
    device = jax.devices()[0].device_kind
    return (
        f'device   no certificate of {device} with jaxlib {jax.lib.__version__} yet: '
        'python -m fedjax_links certify compares its programs with double precision'
    )


def _of_device() -> Path:
    folder = cpus.cache('certificates')
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f'{cpus.digest(environment.fingerprint())}.json'
