"""Hours and gigabytes in the round's place: totals, prices of levels, and curves against either."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from fedjax_links import checks, errors, experiment, pricing, runs, sections, tree
from fedjax_links.experiment import Experiment, config_parts
from fedjax_links.plot.panels import unit
from fedjax_links.report import folders
from fedjax_links.report.layouts.curves import Axis, curves
from fedjax_links.report.layouts.page import Page, metric_of, number
from fedjax_links.report.results import Results
from fedjax_links.report.tables import Table

_AXES = {'hours': 'hours', 'gigabytes': 'gigabytes, up and down'}
_CHANGES_LINKS = ('links', 'patterns', 'problem', 'redraw')

Speed = float | str | Mapping[str, Any]


class _Run(NamedTuple):
    """What prices are made of besides metrics.

    Attributes:
      config: of the run; empty for one made in Python.
      masks: bool[T, N] by place of the seed, by pattern.
      first_round: from which on masks are known; not 0 for a forked run.
    """

    config: Mapping[str, Any]
    masks: Mapping[str, Mapping[int, np.ndarray]]
    first_round: int


class _Spent(NamedTuple):
    """Prices of a series under a pattern at every evaluation, float[S, E] over priced seeds."""

    seeds: Sequence[int]
    traffic: pricing.Traffic
    hours: np.ndarray
    up: np.ndarray
    down: np.ndarray
    compute: np.ndarray


def price(
    results: Results,
    *,
    step: Speed,
    uplink: Speed,
    downlink: Speed,
    targets: Sequence[float] = (),
    metric: str | None = None,
    against: str = 'hours',
    overhead: float = 0.0,
    model_bytes: float | None = None,
    local_steps: int | None = None,
    traffic: Mapping[str, Any] | None = None,
) -> Page:
    """What a run would have cost on given devices; see `fedjax_links.pricing` for the model.

    Made of the links that the run kept: of the first seed, and of all seeds with
    ``log: ('links',)``; seeds without links are drawn at the mean price of the others and are not
    in the tables. The run itself is not touched.

    Args:
      results: what ran.
      step: seconds of a local step: a number, or a section of ``DEVICE_SPEEDS``.
      uplink: bytes per second; likewise.
      downlink: bytes per second; likewise.
      targets: levels of the metric to be priced.
      metric: which metric; that of the results by default.
      against: what the picture's horizontal axis is, ``'hours'`` or ``'gigabytes'``.
      overhead: seconds of every round besides.
      model_bytes: of a model; those of the problem's parameters by default.
      local_steps: of a round; the config's by default.
      traffic: by algorithm that is not registered, ``up``, ``down`` and ``everyone`` of
        `pricing.Traffic`; also for registered ones, in place of what is known of them.

    Returns:
      Totals, and the price of the targets, where there are any; curves.

    Raises:
      ValueError: for unknown names, numbers out of range, links that were not kept or that the grid
        changes, and algorithms of which nothing is known.
    """
    metric = metric_of(results, metric)
    checks.choice('against', against, _AXES)
    run = _run_of(results)
    num_clients = next(iter(next(iter(run.masks.values())).values())).shape[1]
    speeds = {'step': step, 'uplink': uplink, 'downlink': downlink}
    devices = pricing.devices(
        num_clients, **{name: _speed(name, given, num_clients) for name, given in speeds.items()}
    )
    sizes = _Sizes(results, run.config, model_bytes)
    spent: dict[tuple[str, str], _Spent] = {}
    for label in results.curves:
        known, options, steps = _facts(results, run, label, local_steps, traffic or {})
        for pattern, masks in run.masks.items():
            if run.first_round and known.asked is not None:
                requirement = f'be whole to price {label}, which looks at earlier rounds'
                raise errors.invalid('links', requirement, f'from round {run.first_round} on')
            at = results.rounds - run.first_round
            found = [
                pricing.price(
                    mask,
                    known,
                    devices,
                    model_bytes=sizes.of(label, pattern),
                    local_steps=steps,
                    overhead=overhead,
                    options=options,
                )
                for mask in masks.values()
            ]
            columns = {
                name: np.array([getattr(one, name)[at] for one in found]) / scale
                for name, scale in zip(pricing.Price._fields, (3600, 1e9, 1e9, 3600), strict=True)
            }
            spent[label, pattern] = _Spent(
                list(masks),
                known,
                columns['seconds'],
                columns['uplink'],
                columns['downlink'],
                columns['compute'],
            )
    tables = [_totals(results, spent)]
    if len(targets):
        tables.append(_reached(results, spent, metric, [float(target) for target in targets]))
    axis = {
        key: (own.hours if against == 'hours' else own.up + own.down).mean(axis=0)
        for key, own in spent.items()
    }
    drawn = curves(results, metrics=(metric,), against=Axis(_AXES[against], axis))
    return Page(f'Price in {against}', tables, drawn.draw, drawn.size)


def _run_of(results: Results) -> _Run:
    """Config and masks, from the folder; before a run, masks of nobody."""
    planned = results.experiment
    if results.folder is None and planned is not None and results.links:
        config = planned.config or {}
        problem = planned.problem_at(results.patterns[0], planned.grid_points[0])
        shape = (int(results.rounds[-1]), problem.num_clients)
        masks = {pattern: {0: np.zeros(shape, bool)} for pattern in results.patterns}
        return _Run(config, masks, 0)
    if results.folder is None:
        raise errors.invalid('folder', 'be given to price a run, as its links are kept there', None)
    facts, kept_config = runs.described(results.folder)
    arrays = folders.links(results.folder)
    by_pattern: dict[str, dict[int, np.ndarray]] = {}
    for pattern in results.patterns:
        names = [pattern, *(f'{pattern}/{seed}' for seed in facts['seeds'][1:])]
        kept = {k: arrays[f'mask/{n}'] for k, n in enumerate(names) if f'mask/{n}' in arrays}
        if not kept:
            requirement = f"have kept the links of {pattern} (log: ('links',))"
            raise errors.invalid('workdir', requirement, results.folder)
        by_pattern[pattern] = kept
    return _Run(kept_config or {}, by_pattern, int(arrays.get('first_round', 0)))


def _speed(argument: str, given: Speed, num_clients: int) -> Any:
    if isinstance(given, str | Mapping):
        return sections.named(argument, given, pricing.DEVICE_SPEEDS, num_clients)
    return given


def _facts(
    results: Results,
    run: _Run,
    label: str,
    local_steps: int | None,
    given: Mapping[str, Any],
) -> tuple[pricing.Traffic, Mapping[str, Any], Any]:
    """What a series sends, the options of its algorithm, and its local steps."""
    algorithm, point = results.members[label]
    for path in point:
        if path.split('.')[0] in _CHANGES_LINKS:
            requirement = 'leave the links alone, as those of its first point are kept'
            raise errors.invalid('grid', requirement, path)
    config: Mapping[str, Any] = run.config
    for path, value in point.items():
        config = config_parts.with_value(config, path.split('.'), value)
    section: Any = config.get('algorithms', {}).get(algorithm) or {}
    options: dict[str, Any] = {'name': section} if isinstance(section, str) else dict(section)
    name = options.get('name', algorithm)
    client = {**config.get('client', {}), **options.get('client', {})}
    if local_steps is None:
        local_steps = client.get('client_steps', client.get('local_steps'))
    if local_steps is None:
        requirement = f'be given, as no config says how many {algorithm} has'
        raise errors.invalid('local_steps', requirement, None)
    if algorithm in given or name in given:
        place = algorithm if algorithm in given else name
        checks.options(f'traffic.{place}', pricing.Traffic, given[place])
        known = pricing.Traffic(**given[place])
        for field in ('up', 'down'):
            checks.static_int(f'traffic.{place}.{field}', getattr(known, field), minimum=0)
    elif name in pricing.TRAFFIC:
        known = pricing.TRAFFIC[name]
    else:
        raise errors.invalid('traffic', f'say what {algorithm} sends', sorted(given))
    return known, options, local_steps


class _Sizes:
    """Bytes of the models; the experiment is built only where they are not given."""

    def __init__(self, results: Results, config: Mapping[str, Any], given: float | None) -> None:
        self._results, self._config, self._given = results, config, given
        self._planned = results.experiment

    def of(self, label: str, pattern: str) -> float:
        """B of a series under a pattern."""
        if self._given is not None:
            return self._given
        if self._planned is None:
            self._planned = self._built()
        _, point = self._results.members[label]
        at = next(p for p in self._planned.grid_points if point.items() <= p.items())
        problem = self._planned.problem_at(pattern, at)
        return float(tree.num_bytes(jax.eval_shape(problem.init_params, jax.random.key(0))))

    def _built(self) -> Experiment:
        if not self._config:
            raise errors.invalid('model_bytes', 'be given for a run made in Python', None)
        return experiment.build(self._config)


def _totals(results: Results, spent: Mapping[tuple[str, str], _Spent]) -> Table:
    """What all rounds cost."""
    rows = []
    for pattern in results.patterns:
        for label in results.curves:
            own = spent[label, pattern]
            ends = (own.hours, own.up, own.down, own.compute)
            rows.append(
                [
                    results.name(pattern),
                    results.name(label),
                    f'{own.traffic.up} / {own.traffic.down}',
                    *(f'{values[:, -1].mean():.3g}' for values in ends),
                ]
            )
    header = ['pattern', 'algorithm', 'models up / down', 'hours', 'GB up', 'GB down', 'compute']
    caption = (
        f'What {int(results.rounds[-1]):,} rounds cost, {_priced(results, spent)}: simulated '
        'hours, each round as long as its slowest awaited client; bytes that all clients sent and '
        'received (GB: 1e9), models per message; hours that all clients trained.'
    )
    return Table(header, rows, caption)


def _reached(
    results: Results,
    spent: Mapping[tuple[str, str], _Spent],
    metric: str,
    targets: Sequence[float],
) -> Table:
    """Hours and gigabytes until the mean over the priced seeds first reaches each level."""
    larger = results.larger_is_better(metric)
    rows = []
    for place, pattern in enumerate(results.patterns):
        for label, models in results.curves.items():
            own = spent[label, pattern]
            values = models[results.main_model(label)][metric][place][list(own.seeds)]
            row = [results.name(pattern), results.name(label)]
            for target in targets:
                row += [
                    _first(values, cost, target, larger) for cost in (own.hours, own.up + own.down)
                ]
            rows.append(row)
    columns = [f'{number(metric, t)}: {name}' for t in targets for name in ('hours', 'GB')]
    caption = (
        f'Simulated hours, and gigabytes up and down, until {unit(metric)} reaches the level in '
        f'front, {_priced(results, spent)}; in brackets the range over seeds.'
    )
    return Table(['pattern', 'algorithm', *columns], rows, caption)


def _first(values: np.ndarray, cost: np.ndarray, level: float, larger: bool) -> str:
    """``1.2 (1.1 to 1.4)`` for float[S, E] values and costs."""

    def reached(curve: np.ndarray, spent: np.ndarray) -> float:
        there = curve >= level if larger else curve <= level
        return float(spent[np.argmax(there)]) if there.any() else np.inf

    def shown(spent: float) -> str:
        return 'never' if np.isinf(spent) else f'{spent:.3g}'

    mean = shown(reached(values.mean(axis=0), cost.mean(axis=0)))
    if len(values) == 1:
        return mean
    every = [reached(*pair) for pair in zip(values, cost, strict=True)]
    low, high = shown(min(every)), shown(max(every))
    return mean if mean == low == high else f'{mean} ({low} to {high})'


def _priced(results: Results, spent: Mapping[tuple[str, str], _Spent]) -> str:
    """``mean over 1 of 5 seeds``."""
    count = min(len(own.seeds) for own in spent.values())
    of = '' if count == results.num_seeds else f'{count} of '
    return f'mean over {of}{results.num_seeds} seed{"" if results.num_seeds == 1 else "s"}'
