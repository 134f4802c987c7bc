"""Identifies an experiment by digests of its programs, its data and its links.

`storage.identity` says what an identity holds, and `planning.lanes.Lane` what a lane is.

Programs are traced for two rounds and one evaluation. So an identity depends neither on
``eval_every`` nor on batches of lanes nor on devices. Nothing is compiled.
"""

import ast
import dataclasses
from collections.abc import Callable, Hashable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np

from fedjax_links import simulation
from fedjax_links.base import (
    ExampleGenerator,
    FederationState,
    Key,
    Links,
    Participation,
    Problem,
    PyTree,
    RoundMetrics,
)
from fedjax_links.config import bound
from fedjax_links.core import digests, errors, prng
from fedjax_links.core.grids import Point
from fedjax_links.core.records import Section
from fedjax_links.machines import environment
from fedjax_links.planning import parametrized, problem_families
from fedjax_links.planning.lanes import MAIN, Lane
from fedjax_links.planning.plan import Plan
from fedjax_links.runner import compilation
from fedjax_links.storage.identity import (
    CLIENT_NAMES,
    DATA,
    EVALUATION_DATA,
    PARTITION,
    LaneIdentity,
    RunIdentity,
)

# Larger data are compared by digests alone, as a folder keeps 8 bytes for each example.
_MAX_ROWS = 2**20
_Value = TypeVar('_Value')


class Identities:
    """Computes the identities of an experiment and of its lanes; shared parts are computed once."""

    def __init__(self, plan: Plan) -> None:
        """Traces nothing yet."""
        self._plan = plan
        self._cache: dict[Any, Any] = {}
        self._machine = digests.hash_bytes(repr(environment.fingerprint()).encode())

    def lane_identity(self, lane: Lane) -> LaneIdentity:
        """Returns the identity of a lane.

        Args:
          lane: of the experiment.
        """
        return dataclasses.replace(
            self._make_lane_identity(lane), series=self._series(lane)
        )

    def _series(self, lane: Lane) -> str:
        """Returns the digest of a lane's first seed, which lanes of all its seeds share."""
        first = lane._replace(seed=int(self._plan.seeds[0]))
        key = 'series', lane.algorithm, lane.pattern, repr(lane.point)
        return self._cached(key, lambda: self._make_lane_identity(first).digest())

    def _make_lane_identity(self, lane: Lane) -> LaneIdentity:
        columns = compilation.traced_columns(self._plan, lane)
        return LaneIdentity(
            version=environment.version(),
            machine=self._machine,
            programs={
                **self._problem_programs(lane),
                f'links {lane.pattern}': self._links(lane),
                **self._algorithm_programs(lane),
            },
            columns={name: float(value) for name, value in columns.items()},
            data=self._data(lane),
        )

    def run_identity(self) -> RunIdentity:
        """Returns the identity of the whole run, from its lanes at the first seed and point."""
        lanes: dict[str, LaneIdentity] = {}
        sizes: dict[str, dict[str, Any]] = {}
        rows: dict[str, dict[str, np.ndarray]] = {}
        by_problem: dict[Any, dict[str, np.ndarray]] = {}  # patterns mostly share one
        for label in self._plan.algorithms:
            for pattern in self._plan.patterns:
                lane = self._first_lane(label, pattern)
                values = self._problem_values(lane)
                if values not in by_problem:
                    data, by_problem[values] = _data_of(self._plan.problem_of(lane))
                    self._cache['data', values] = data
                identity = self.lane_identity(lane)
                tuned = self._plan.tuned_columns
                columns = {k: v for k, v in identity.columns.items() if k not in tuned}
                lanes[f'{label} on {pattern}'] = dataclasses.replace(
                    identity, columns=columns
                )
                if pattern not in sizes:
                    sizes[pattern] = self._describe_data(lane, identity)
                    rows[pattern] = by_problem[values]
        return RunIdentity(lanes, sizes, _modules_of(self._plan.config), rows)

    def _first_lane(self, label: str, pattern: str) -> Lane:
        tuned = {name: values[0] for name, values in self._plan.tuned_columns.items()}
        point = {**self._plan.points[0], **tuned}
        seed = int(self._plan.seeds[0])
        return Lane(MAIN, label, pattern, point, seed, self._plan.num_rounds, (0, 0))

    def _describe_data(self, lane: Lane, identity: LaneIdentity) -> dict[str, object]:
        """Returns name, sizes and digest of a lane's data."""
        problem = self._plan.problem_of(lane)
        return {
            'name': self._data_name(lane.pattern),
            'clients': problem.num_clients,
            'examples': problem.num_examples,
            'digest': digests.combine(
                [f'{k} {v}' for k, v in sorted(identity.data.items())]
            ),
        }

    def _data_name(self, pattern: str) -> str:
        """Returns what a config calls its data; ``'made in Python'`` without a config."""
        config = self._plan.config
        if config is None:
            return 'made in Python'
        section = {**_section(config.get('problem'))}
        section.update(_section(config.get('problems', {}).get(pattern)))
        return str(section.get('dataset', section.get('name', 'unnamed')))

    # Parts of identities, each computed once.

    def _cached(self, key: Hashable, find: Callable[[], _Value]) -> _Value:
        """Returns what ``find`` returned at the first call with this key."""
        if key not in self._cache:
            with self._plan.precision():
                self._cache[key] = find()
        return self._cache[key]

    def _values(self, maker: parametrized.Maker[Any], lane: Lane) -> tuple[int, str]:
        """Returns a key of the problem or pattern that a maker makes for a lane."""
        seed_columns = self._plan.draws.columns(lane.seed, lane.point)
        return id(maker), repr(maker.at({**lane.point, **seed_columns}))

    def _data(self, lane: Lane) -> dict[str, str]:
        """Returns digests of the arrays of a lane's problem."""
        key = 'data', self._problem_values(lane)
        return self._cached(key, lambda: _data_of(self._plan.problem_of(lane))[0])

    def _links(self, lane: Lane) -> str:
        """Returns the digest of what a lane's pattern computes."""
        key = 'links', self._pattern_values(lane)
        return self._cached(key, lambda: _links_of(self._plan.pattern_of(lane)))

    def _problem_programs(self, lane: Lane) -> dict[str, str]:
        """Returns digests of what the problem's functions compute; cached by its structure."""

        def find() -> dict[str, str]:
            problem = _with_own_bounds(self._plan.problem_of(lane))
            kind = 'problem', problem_families.structure_of(problem)
            return self._cached(kind, lambda: _problem_programs_of(problem))

        return self._cached(('problem of', self._problem_values(lane)), find)

    def _algorithm_programs(self, lane: Lane) -> dict[str, str]:
        """Returns digests of what an algorithm computes; lanes with one program share them."""
        built_in = compilation.built_in_columns(self._plan, lane)
        values = lane.algorithm, repr(built_in)

        def find() -> dict[str, str]:
            problem = _with_own_bounds(self._plan.problem_of(lane))
            sample = simulation.sample_shapes(self._plan.pattern_of(lane))
            kind = (
                'algorithm',
                *values,
                problem_families.structure_of(problem),
                problem_families.structure_of(sample),
            )
            return self._cached(
                kind,
                lambda: _algorithm_programs_of(self._plan, lane, problem, sample),
            )

        parts = self._problem_values(lane), self._pattern_values(lane)
        return self._cached(('algorithm of', *values, *parts), find)

    def _problem_values(self, lane: Lane) -> tuple[int, str]:
        return self._values(self._plan.problems[lane.pattern], lane)

    def _pattern_values(self, lane: Lane) -> tuple[int, str]:
        return self._values(self._plan.patterns[lane.pattern], lane)


def _section(value: Section | str | None) -> Section:
    """Returns a section of a config; a name alone stands for a section with that name."""
    if isinstance(value, str):
        return {'name': value}
    return value or {}


def _with_own_bounds(problem: Problem) -> Problem:
    """Sets ``min_examples`` and ``max_examples`` to values of this problem, not of all seeds."""
    if isinstance(problem.owned, ExampleGenerator):
        return problem
    counts = np.asarray(problem.counts)
    least, most = int(counts.min()), int(counts.max())
    return dataclasses.replace(problem, min_examples=least, max_examples=most)


def _data_of(problem: Problem) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    """Returns digests of a problem's arrays, and hashes of its examples, by name."""
    arrays = {DATA: problem.data, EVALUATION_DATA: problem.eval_data}
    digest_of: dict[str, str] = {}
    rows: dict[str, np.ndarray] = {}
    for name, tree in arrays.items():
        hashes = _rows_of(tree)
        if hashes is None:
            digest_of[name] = digests.hash_tree(tree)
            continue
        kinds = [f'{leaf.dtype} {leaf.shape}' for leaf in jax.tree.leaves(tree)]
        row_digest = digests.hash_bytes(hashes.tobytes())
        digest_of[name] = digests.combine([*kinds, row_digest])
        if len(hashes) <= _MAX_ROWS:
            rows[name] = hashes
    if not isinstance(problem.owned, ExampleGenerator):
        digest_of[PARTITION] = digests.hash_tree((problem.offsets, problem.counts))
    if problem.eval_owned is not None:
        digest_of[f'evaluation {PARTITION}'] = digests.hash_tree(problem.eval_owned)
    if problem.named.clients:
        names = [problem.named.clients, problem.named.others]
        digest_of[CLIENT_NAMES] = digests.hash_bytes(repr(names).encode())
    return digest_of, rows


def _rows_of(tree: PyTree) -> np.ndarray | None:
    """Hashes the examples of data, uint64[E]; None where leaves have no common first axis."""
    leaves = jax.tree.leaves(tree)
    if any(leaf.ndim == 0 for leaf in leaves):
        return None
    lengths = {leaf.shape[0] for leaf in leaves}
    if len(lengths) != 1:
        return None
    total = np.zeros(lengths.pop(), np.uint64)
    for leaf in leaves:
        # The factor makes the order of the leaves count.
        total = total * np.uint64(0x9E3779B97F4A7C15) + digests.row_hashes(leaf)
    return total


def _links_of(pattern: Participation) -> str:
    """Returns the digest of what draws the links of a round."""

    def draw(key: Key) -> PyTree:
        carry = pattern.init(prng.pattern_key(key))
        link_key = prng.round_key(key, 'participation', 0)
        return pattern.sample(carry, link_key, jax.numpy.int32(0))

    return digests.hash_program(draw, jax.random.key(0))


def _problem_programs_of(problem: Problem) -> dict[str, str]:
    """Returns digests of what makes the model, and of the loss of a problem with arrays."""
    key = jax.random.key(0)
    params = jax.eval_shape(problem.init_params, key)
    programs = {'initial model': digests.hash_program(problem.init_params, key)}
    if not isinstance(problem.owned, ExampleGenerator):
        programs['loss'] = digests.hash_program(problem.loss_fn, params, problem.data)
    return programs


def _algorithm_programs_of(
    plan: Plan, lane: Lane, problem: Problem, sample: Links
) -> dict[str, str]:
    """Returns digests of what starts a lane, runs its rounds and evaluates its models."""
    make_algorithm = compilation.algorithm_maker(plan, lane)
    columns = compilation.traced_columns(plan, lane)
    eval_fn = plan.eval_fn(problem)
    key = jax.random.key(0)

    def start(key: Key, columns: Point, problem: Problem) -> FederationState:
        return simulation.init(key, make_algorithm(columns), sample, problem)

    def advance(
        state: FederationState, key: Key, links: Links, columns: Point, problem: Problem
    ) -> tuple[FederationState, RoundMetrics]:
        algorithm = make_algorithm(columns)
        return simulation.advance(state, key, links, algorithm, problem)

    def evaluate(
        state: FederationState, key: Key, columns: Point, problem: Problem
    ) -> PyTree:
        algorithm = make_algorithm(columns)
        return simulation.evaluate(state, key, algorithm, problem, eval_fn)

    state = jax.eval_shape(start, key, columns, problem)
    # Two rounds, as a scan of one round would trace the algorithm twice.
    links = jax.tree.map(lambda a: jax.ShapeDtypeStruct((2, *a.shape), a.dtype), sample)
    label = lane.algorithm
    return {
        f'initial state of {label}': digests.hash_program(start, key, columns, problem),
        f'rounds of {label}': digests.hash_program(
            advance, state, key, links, columns, problem
        ),
        f'evaluation of {label}': digests.hash_program(
            evaluate, state, key, columns, problem
        ),
    }


def _modules_of(config: Section | None) -> dict[str, str]:
    """Returns digests of the user's modules that a config names.

    Args:
      config: nested sections with names ``module:factory``; None for an experiment of Python.

    Returns:
      By file name, the digest of each named module, and of each file in its folder that it
      imports. Files with the same name in several folders are combined to one digest.
    """
    waiting = [
        bound.FILES[name] for name in _modules_named_in(config) if name in bound.FILES
    ]
    digest_of: dict[Path, str] = {}
    while waiting:
        file = waiting.pop()
        if file in digest_of or not errors.is_users_file(file):
            continue
        content = file.read_bytes()
        digest_of[file] = digests.hash_bytes(content)
        waiting += [file.with_name(f'{name}.py') for name in _imports(content)]
    digests_of: dict[str, list[str]] = {}
    for file, digest in sorted(digest_of.items()):
        digests_of.setdefault(file.name, []).append(digest)
    return {
        name: found[0] if len(found) == 1 else digests.combine(sorted(found))
        for name, found in digests_of.items()
    }


def _imports(source: bytes) -> Iterator[str]:
    """Yields the names of the modules that a source imports."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        elif isinstance(node, ast.Import | ast.ImportFrom):  # also `from . import name`
            yield from (alias.name for alias in node.names)


def _modules_named_in(config: object) -> Iterator[str]:
    """Yields the modules of all names ``module:factory`` in a config."""
    if isinstance(config, str):
        module, colon, factory = config.partition(':')
        if colon and factory.isidentifier():
            yield module
    elif isinstance(config, Mapping):
        for value in config.values():
            yield from _modules_named_in(value)
    elif isinstance(config, list | tuple):
        for value in config:
            yield from _modules_named_in(value)
