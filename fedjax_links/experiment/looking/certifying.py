"""Certificates: whether the programs of an experiment compute what they say, on this device.

A compiler can be wrong. Every program takes a few rounds here, in the form in which a run has it,
and the same rounds in double precision on a CPU in another process (`double`); and where theory
knows the mean of a model after some rounds, that of many seeds is compared with it. What differs by
more than rounding, or than chance, is off.
"""

import json
import re
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from fedjax_links import algorithms, local_training, participation, problems, runs, simulation
from fedjax_links.base import PyTree
from fedjax_links.config import recordings
from fedjax_links.experiment.definition import Experiment
from fedjax_links.experiment.looking import double, standards
from fedjax_links.experiment.plan.lanes import Lane
from fedjax_links.experiment.running import groups, programs, traced
from fedjax_links.machines import caches, devices, environment
from fedjax_links.storage import checkpoints

FILE = 'certificate.json'
_BOUND, _COARSE_BOUND = 1e-4, 0.1
_SMALL = 0.01
_ACCURACY = 0.01  # an example or two on the border between two classes
_SHORT_FLOATS = re.compile(r'\bb?f16\[|\bf8')
_NUM_SEEDS, _STANDARD_ERRORS = 256, 5.0


class Verdict(NamedTuple):
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


def certify(source: Mapping[str, Any] | str | None = None) -> Iterator[Verdict]:
    """Compares programs with double precision, and with theory.

    Args:
      source: a config, or the name of one of `standards.STANDARD`; None for all of those.

    Returns:
      A verdict for each program, one after the other.

    Raises:
      ValueError: if the config is no experiment's.
    """
    for each in standards.STANDARD if source is None else [source]:
        yield from _of_experiment(each)
    yield from _of_theory()


def _of_experiment(source: Mapping[str, Any] | str) -> Iterator[Verdict]:
    experiment = standards.shortened(standards.experiment_of(source))
    shared = programs.Programs(experiment, places=devices.places(1))
    every = standards.lanes_of(experiment)
    drawn = list({lane.pattern: lane for lane in reversed(every)}.values())[::-1]
    run = shared.one_of_each(every)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        make = traced.initial_params()
        for place, lane in enumerate(run):
            key = experiment.plan.draws.key_of('init', lane.seed, lane.point)
            params = make(experiment.plan.problem_of(lane).init_params, key)
            checkpoints.write_whole(folder / f'params-{place}.npz', checkpoints.pack(params))
        request = {
            'source': source,
            'beside': str(recordings.BESIDE.get() or Path.cwd()),
            'drawn': [lane.name for lane in drawn],
            'run': [lane.name for lane in run],
        }
        (folder / double.REQUEST).write_text(json.dumps(request))
        process = double.begin(folder)
        try:
            for place, lane in enumerate(drawn):
                here = _links_here(experiment, lane)
                there = _wait(process, folder / f'links-{place}.npz')
                yield _of_links(f'links of {lane.pattern}', here, there)
            for place, lane in enumerate(run):
                rounds = _rounds_here(experiment, shared, lane)
                there = _wait(process, folder / f'rounds-{place}.npz')
                yield _of_rounds(_name(experiment, lane), rounds, there)
        finally:
            process.kill()
            process.communicate()


def _name(experiment: Experiment, lane: Lane) -> str:
    built_in = traced.split(experiment, lane)[1]
    values = [f'{name} {value}' for name, value in built_in.items()]
    return ', '.join([lane.algorithm, lane.pattern, *values])


def _rounds_here(experiment: Experiment, shared: programs.Programs, lane: Lane) -> dict[str, Any]:
    """What a run's program makes of a lane, and how exact it means to be."""
    group = groups.Group(shared, [lane], width=2 if shared.side_by_side else None)
    with experiment.plan.precision():
        coarse = _multiplies_coarsely()
        compiled = shared.compiled(group)
        group.start()
        record = group.period()[0]
    (after,) = group.states()
    coarse |= bool(_SHORT_FLOATS.search(compiled.as_text()))
    return {'after': after.algorithm, 'record': record, 'coarse': coarse}


def _multiplies_coarsely() -> bool:
    """Whether matrix products take fewer digits than float32 has."""
    precision = environment.numerics()['jax_default_matmul_precision']
    return jax.default_backend() != 'cpu' and precision not in ('highest', 'float32')


def _links_here(experiment: Experiment, lane: Lane) -> PyTree:
    """What the program of a pattern draws."""
    pattern, period = experiment.plan.pattern_of(lane), experiment.eval_every
    program = traced.link_program(pattern, period, side_by_side=False)
    key = experiment.plan.draws.key_of('links', lane.seed, lane.point)
    first, count = np.int32(0), np.int32(1)
    _, links = program.draw(program.start(key), key, first, count, most=1)
    return jax.tree.map(lambda a: a[0], links)


def _wait(process: Any, path: Path) -> dict[str, Any]:
    """What the process in double precision found, once it is there."""
    while not path.exists():
        if process.poll() is not None and not path.exists():
            said = process.communicate()[1].decode()
            raise RuntimeError(f'The rounds in double precision failed:\n{said}')
        time.sleep(0.05)
    return checkpoints.leaves(path)


def _part(leaves: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The leaves below a name, by what is left of their paths."""
    return {
        path.removeprefix(f"['{name}']"): np.asarray(leaf)
        for path, leaf in leaves.items()
        if path.startswith(f"['{name}']")
    }


def _of_links(program: str, links: PyTree, exact: Mapping[str, Any]) -> Verdict:
    for path, leaf in checkpoints.leaves_of(links).items():
        ours, theirs = np.asarray(leaf), exact[path]
        differs = ours != theirs
        if ours.dtype.kind == 'f':
            differs = ~np.isclose(ours, theirs, rtol=_BOUND, atol=_BOUND, equal_nan=True)
        if np.any(differs):
            return Verdict(program, float(np.mean(differs)), 0.0, path)
    return Verdict(program, 0.0, 0.0, '')


def _of_rounds(program: str, here: Mapping[str, Any], there: Mapping[str, Any]) -> Verdict:
    bound = _COARSE_BOUND if here['coarse'] else _BOUND
    before, after = _part(there, 'before'), _part(there, 'after')
    found = {
        path: _error(np.asarray(leaf, np.float64), before[path], after[path])
        for path, leaf in checkpoints.leaves_of(here['after']).items()
        if not jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    }
    for path, exact in _part(there, 'evals').items():
        name = '/'.join(re.findall(r"'([^']*)'", path))
        off = abs(float(here['record'][name]) - exact) / (abs(exact) + _SMALL)
        found[name] = max(0.0, off - _ACCURACY * ('accuracy' in name)) if off == off else np.inf
    where = max(found, key=lambda name: found[name])
    return Verdict(program, float(found[where]), bound, where)


def _error(ours: np.ndarray, before: np.ndarray, after: np.ndarray) -> float:
    """How far off a leaf is, relative to how far it went and a hundredth of its size."""
    moved = float(np.linalg.norm(after - before.astype(np.float64)))
    size = moved + _SMALL * float(np.linalg.norm(after))
    off = float(np.linalg.norm(ours - after))
    return float('inf') if not np.isfinite(off) else off / size if off else 0.0


def _of_theory() -> Iterator[Verdict]:
    """The mean of FedAvg's and FedPBC's server model over seeds, which is known on quadratics."""
    from fedjax_links import analysis

    probs, rate, steps, num_rounds = np.linspace(0.2, 0.9, 8), 0.1, 3, 5
    targets = np.arange(16.0).reshape(8, 2)
    pattern, problem = participation.bernoulli(probs), problems.quadratic(targets)
    given = probs, targets, rate, steps
    exact = {
        'fedavg': analysis.fedavg_mean_and_covariance(*given, num_rounds=num_rounds).mean,
        'fedpbc': analysis.fedpbc_mean_and_covariance(*given, num_rounds=num_rounds).server_mean,
    }
    for name, mean in exact.items():
        algorithm = algorithms.ALGORITHMS[name](local_training.local_sgd(rate, local_steps=steps))

        def end(key: Any, algorithm: Any = algorithm) -> Any:
            run = simulation.simulate(key, algorithm, pattern, problem, num_rounds=num_rounds)
            return algorithm.models(run.state.algorithm)['server']

        seeds = jax.random.split(jax.random.key(0), _NUM_SEEDS)
        ends = np.asarray(jax.jit(jax.vmap(end))(seeds), np.float64)
        deviation = ends.std(axis=0, ddof=1) / np.sqrt(_NUM_SEEDS)
        off = float(np.max(np.abs(ends.mean(axis=0) - mean[-1]) / deviation))
        where = f'mean of {_NUM_SEEDS} seeds, in standard errors'
        yield Verdict(f'{name}, theory', off, _STANDARD_ERRORS, where)


# What is kept.


def keep(verdicts: Iterable[Verdict], folder: str | Path | None = None) -> bool:
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
        checkpoints.write_whole(Path(folder) / FILE, content)
    return all(verdict.holds for verdict in found)


def note() -> str | None:
    """What a first run on this device says: that it has no certificate; None later."""
    path = _of_device()
    if path.exists():
        return None
    checkpoints.write_whole(path, runs.as_json({'programs': []}))
    device = jax.devices()[0].device_kind
    return (
        f'device   no certificate of {device} with jaxlib {jax.lib.__version__} yet: '
        'python -m fedjax_links certify compares its programs with double precision'
    )


def _of_device() -> Path:
    folder = caches.folder('certificates')
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f'{caches.digest(environment.fingerprint())}.json'
