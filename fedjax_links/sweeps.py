"""Runs a grid of hyper-parameters times seeds in one compiled program.

A lane is one simulation of a sweep: a point of the grid with a seed.
"""

import functools
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike

from fedjax_links.base import Algorithm, Array, Participation, Problem
from fedjax_links.core import checks, contracts, errors, factory_options, prng
from fedjax_links.machines import devices as devices_
from fedjax_links.machines import lanes as lanes_
from fedjax_links.results.simulation import Grid
from fedjax_links.simulation import EvalFn, SimulationResult, simulate

Values = Mapping[str, Mapping[str, Sequence[Any] | np.ndarray]]

_MAKERS = ('algorithm', 'participation')
_BY_MAKER = "hold columns by maker, as {'algorithm': {'learning_rate': [0.1, 0.2]}}"
_LIST_OF_VALUES = 'be a list of at least one value, all of one shape'


def sweep(
    make_algorithm: Callable[..., Algorithm],
    make_participation: Callable[..., Participation],
    problem: Problem,
    *,
    seeds: Iterable[int],
    grid: Grid | None = None,
    num_rounds: int,
    eval_every: int | None = None,
    eval_fn: EvalFn | None = None,
    batching: str | None = None,
    devices: devices_.Devices = None,
) -> SimulationResult:
    """Runs all grid points with all seeds in one compiled program, or one for each GPU.

    A seed gives the same links and batches at all points, so differences between points are paired.
    Swept values are traced: they may scale things, but not set shapes or loop lengths. Both makers
    are first called with the plain numbers of each row of the grid, so that factories check these
    numbers.

    Args:
      make_algorithm: builds the algorithm from its columns of the grid, as keywords.
      make_participation: builds the pattern from its columns of the grid, as keywords.
      problem: data, loss and metrics, shared by all runs.
      seeds: S seeds in ``[0, 2**32)``.
      grid: columns by maker, one row per point: ``{'algorithm': {'learning_rate': [G]},
        'participation': {'p': [G, N]}}``; `product` crosses values into such columns. By default
        one point without swept values.
      num_rounds: as in `simulate`.
      eval_every: as in `simulate`.
      eval_fn: as in `simulate`.
      batching: ``'map'`` runs the lanes one after the other, each bit for bit equal to its own
        `simulate`; ``'vmap'`` runs them side by side, equal up to rounding. By default ``'map'`` on
        CPU, where side by side gains nothing, and ``'vmap'`` elsewhere.
      devices: devices of this process, or a number of devices or of threads of a CPU. By default
        all devices. On a CPU, by default all cores under ``'map'`` and one thread under ``'vmap'``.
        Devices and threads share the lanes and run at the same time. Under ``'map'`` the number of
        devices changes no bit. Under ``'vmap'`` lanes run in as few groups as fit into memory, at
        least one per device. The width of a group changes rounding.

    Returns:
      A `SimulationResult` with leaves [G, S, ...], on the first device; lane ``[g, s]`` is
      ``simulate(jax.random.key(seeds[s]), ...)`` at point g. `participation.packets` and
      `participation.minimum_separation` document where a swept value acts unlike a fixed one.

    Raises:
      ValueError: for an unknown maker, or columns that a maker does not take or that differ in
        length. Also for a value that a factory refuses, a seed out of range or named twice, or
        devices that are not there.
    """
    makers = {'algorithm': make_algorithm, 'participation': make_participation}
    for name, maker in makers.items():
        if not callable(maker):
            requirement = 'be a function of its grid columns, of none as `lambda: ...`'
            raise errors.invalid(f'make_{name}', requirement, errors.text_of(maker))
    contracts.check_problem(problem)
    seed_column = prng.seed_column(seeds)
    columns, num_points = _columns({} if grid is None else grid)
    for name, maker in makers.items():
        factory_options.check(f'grid.{name}', maker, columns[name])
        _check_values(maker, columns[name])
    # One lane for each point and seed; the seeds of a point are consecutive.
    num_seeds = len(seed_column)
    shape = (num_points, num_seeds)
    points = jax.tree.map(lambda a: np.repeat(a, num_seeds, axis=0), columns)
    seeds_of_lanes = np.tile(seed_column, num_points)
    lane_inputs = (points, seeds_of_lanes)
    run = functools.partial(
        simulate, num_rounds=num_rounds, eval_every=eval_every, eval_fn=eval_fn
    )

    def run_lane(inputs: tuple[Grid, Array], problem: Problem) -> SimulationResult:
        point, seed = inputs
        algorithm = make_algorithm(**point['algorithm'])
        pattern = make_participation(**point['participation'])
        return run(jax.random.key(seed), algorithm, pattern, problem)

    if batching is None:
        batching = 'map' if jax.default_backend() == 'cpu' else 'vmap'
    checks.choice('batching', batching, ('map', 'vmap'))
    side_by_side = batching == 'vmap'
    slots = devices_.device_slots(devices, one_thread=side_by_side)
    if not all(map(checks.is_concrete, jax.tree.leaves(problem))):
        # The caller traces the sweep, so its lanes cannot be sent to several devices.
        run_all = functools.partial(
            lanes_.in_one_program, run_lane, side_by_side=side_by_side
        )
        num_lanes = np.int32(num_points * num_seeds)
        results = jax.jit(run_all)(lane_inputs, problem, num_lanes)
        return jax.tree.map(lambda a: a.reshape(*shape, *a.shape[1:]), results)
    run_spread = lanes_.spread(
        run_lane, lane_inputs, problem, slots, shape, side_by_side=side_by_side
    )
    return run_spread()


def _check_values(
    maker: Callable[..., object], columns: Mapping[str, np.ndarray]
) -> None:
    """Calls a maker with the plain numbers of each row of its columns, which a factory checks.

    Raises:
      ValueError: if a factory refuses a value, naming the grid point.
    """
    checked = set()
    for point, row in enumerate(zip(*columns.values(), strict=True)):
        content = tuple(value.tobytes() for value in row)
        if content in checked:
            continue
        checked.add(content)
        try:
            maker(**dict(zip(columns, row, strict=True)))
        except errors.InvalidError as error:
            raise _at_point(error, point) from error
        except Exception:
            # A maker may need traced values. Tracing it then reports mistakes.
            return


def _at_point(error: errors.InvalidError, point: int) -> errors.InvalidError:
    """Returns the error with the point of the grid at which it was raised."""
    where = f'at point {point} of `grid`'
    message = error.message
    if message is not None:
        message = f'{message} ({where})'
    value = f'{error.value!s} {where}'
    return errors.InvalidError(error.path, error.requirement, value, message)


def product(
    values: Values | None = None,
    /,
    **by_maker: Mapping[str, Sequence[Any] | np.ndarray],
) -> dict[str, dict[str, np.ndarray]]:
    """Builds grid columns from the Cartesian product of values; the last name varies fastest.

    Args:
      values: values by maker and name, ``{'algorithm': {'learning_rate': [0.1, 0.2]}, ...}``.
      **by_maker: the same as keywords, ``algorithm={'learning_rate': [0.1, 0.2]}``.

    Returns:
      ``{maker: {name: [G, ...]}}`` with G the product of the numbers of values.

    Raises:
      ValueError: for an unknown maker, one that is given twice, or a list of values that is empty
        or whose entries have different shapes.

    Example:
      >>> from fedjax_links import sweeps
      >>> grid = sweeps.product(
      ...     algorithm={'learning_rate': [0.1, 0.2]}, participation={'p': [0.5, 0.9]}
      ... )
      >>> print(grid['algorithm']['learning_rate'], grid['participation']['p'])
      [0.1 0.1 0.2 0.2] [0.5 0.9 0.5 0.9]
    """
    all_values = _merged({} if values is None else values, by_maker)
    flat: dict[tuple[str, str], np.ndarray] = {}
    for maker, values_by_name in _by_maker(all_values):
        for name, column in values_by_name.items():
            flat[maker, name] = _array(name, column, _LIST_OF_VALUES)
    rows = itertools.product(*flat.values())
    columns: dict[str, dict[str, np.ndarray]] = {maker: {} for maker in all_values}
    for (maker, name), crossed in zip(flat, zip(*rows, strict=True), strict=True):
        columns[maker][name] = np.stack(crossed)
    return columns


def _merged(values: Values, by_maker: Values) -> Values:
    """Joins two mappings of values by maker; raises for a maker that both have."""
    if not hasattr(values, 'items'):
        raise errors.invalid('values', _BY_MAKER, errors.text_of(values))
    for maker in by_maker:
        if maker in values:
            got = errors.text_of(by_maker[maker])
            raise errors.invalid(maker, 'be left out, as `values` has it', got)
    return {**values, **by_maker}


def _by_maker(
    grid: Mapping[str, Mapping[str, Any]],
) -> Iterable[tuple[str, Mapping[str, Any]]]:
    """Returns the makers of a grid with their values by name; raises for anything else."""
    if not hasattr(grid, 'items'):
        raise errors.invalid('grid', _BY_MAKER, errors.text_of(grid))
    for maker, values_by_name in grid.items():
        checks.choice('grid', maker, _MAKERS)
        if not hasattr(values_by_name, 'items'):
            got = errors.text_of(values_by_name)
            raise errors.invalid(f'grid.{maker}', 'hold columns by name', got)
    return grid.items()


def _columns(grid: Grid) -> tuple[dict[str, dict[str, np.ndarray]], int]:
    """Converts the grid to arrays, one dictionary per maker, and counts its points."""
    columns: dict[str, dict[str, np.ndarray]] = {maker: {} for maker in _MAKERS}
    lengths: dict[str, int] = {}
    for maker, values_by_name in _by_maker(grid):
        for name, values in values_by_name.items():
            columns[maker][name] = _numbers(name, values)
            lengths[f'{maker}.{name}'] = len(columns[maker][name])
    if len(set(lengths.values())) > 1:
        raise errors.invalid('grid', 'have columns of one length', lengths)
    return columns, next(iter(lengths.values()), 1)


def _numbers(name: str, values: ArrayLike) -> np.ndarray:
    """Converts a column to numbers of JAX's default precision; raises where they do not fit."""
    requirement = 'be a column of numbers, one per point'
    array = _array(name, values, requirement)
    if array.dtype.kind not in 'biuf':
        raise errors.invalid(name, requirement, errors.text_of(values))
    dtype = jax.dtypes.canonicalize_dtype(array.dtype)
    with np.errstate(over='ignore'):
        column = array.astype(dtype)
    if array.dtype.kind == 'f' and not np.isfinite(column).all():
        raise errors.invalid(name, 'be finite', errors.text_of(values))
    if array.dtype.kind in 'iu' and (column != array).any():
        limits = np.iinfo(dtype)
        first = array[column != array].ravel()[0]
        raise errors.invalid(name, f'lie in [{limits.min}, {limits.max}]', first)
    return column


def _array(name: str, values: ArrayLike, requirement: str) -> np.ndarray:
    """Converts a column to an array; raises without entries, or if their shapes differ."""
    checks.no_hidden_entries(name, values)
    try:
        array = np.asarray(values)
    except ValueError:
        raise errors.invalid(name, requirement, errors.text_of(values)) from None
    if array.ndim == 0 or len(array) == 0:
        raise errors.invalid(name, requirement, errors.text_of(values))
    return array
