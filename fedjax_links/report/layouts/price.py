"""Hours and gigabytes in the round's place: totals, prices of levels, and curves against either."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from fedjax_links import experiment, runs
from fedjax_links.config import sections
from fedjax_links.core import checks, errors, tree
from fedjax_links.experiment import Experiment, config_parts
from fedjax_links.report import pricing, tables
from fedjax_links.report.layouts.curves import Axis, curves
from fedjax_links.report.layouts.first_rounds import say_when
from fedjax_links.report.layouts.page import Page
from fedjax_links.report.source import Key, Source

_AXES = {'hours': 'hours', 'gigabytes': 'gigabytes, up and down'}
_CHANGES_LINKS = ('links', 'patterns', 'problem', 'redraw')

Speed = float | str | Mapping[str, Any]


class _Spent(NamedTuple):
    """Prices of a series under a pattern at every evaluation, float[S, E] over priced seeds."""

    seeds: Sequence[int]
    traffic: pricing.Traffic
    hours: np.ndarray
    up: np.ndarray
    down: np.ndarray
    compute: np.ndarray


def price(
    source: Source,
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
    """What a run would have cost on given devices; `fedjax_links.report.pricing` is the model.

    Made of the links that the run kept: of the first seed, and of all seeds with
    ``log: ('links',)``; seeds without links are drawn at the mean price of the others and are not
    in the tables. The run itself is not touched.

    Args:
      source: what ran.
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
    kind = source.metric(metric)
    checks.choice('against', against, _AXES)
    config, masks, begin = _kept(source)
    num_clients = next(iter(next(iter(masks.values())).values())).shape[1]
    speeds: dict[str, Any] = {'step': step, 'uplink': uplink, 'downlink': downlink}
    for name, given in speeds.items():
        if isinstance(given, str | Mapping):
            speeds[name] = sections.named(name, given, pricing.DEVICE_SPEEDS, num_clients)
    devices = pricing.devices(num_clients, **speeds)
    planned = source.experiment
    if model_bytes is None and planned is None:
        planned = _build(config)
    spent: dict[tuple[str, str], _Spent] = {}
    for label in source.members:
        known, options, steps = _facts(source, config, label, local_steps, traffic or {})
        if begin and known.asked is not None:
            requirement = f'be whole to price {label}, which looks at earlier rounds'
            raise errors.invalid('links', requirement, f'from round {begin} on')
        for pattern, by_seed in masks.items():
            found = [
                pricing.price(
                    mask,
                    known,
                    devices,
                    model_bytes=model_bytes or _bytes(planned, source, label, pattern),
                    local_steps=steps,
                    overhead=overhead,
                    options=options,
                )
                for mask in by_seed.values()
            ]
            columns = [
                np.array([getattr(one, name)[source.rounds - begin] for one in found]) / scale
                for name, scale in zip(pricing.Price._fields, (3600, 1e9, 1e9, 3600), strict=True)
            ]
            spent[label, pattern] = _Spent(list(by_seed), known, *columns)

    def total(name: str) -> Any:
        return lambda key: f'{getattr(spent[key[1], key[0]], name)[:, -1].mean():.3g}'

    def first(key: Key, level: float, by_hours: bool) -> str:
        """When a level is reached: the mean over the priced seeds, and their range."""
        own = spent[key[1], key[0]]
        cost = own.hours if by_hours else own.up + own.down
        values = source.curve(kind.name, key)[list(own.seeds)]
        pairs = [(values.mean(axis=0), cost.mean(axis=0)), *zip(values, cost, strict=True)]
        mean, *every = (
            float(costs[np.argmax(there)])
            if (there := kind.reached(curve, level)).any()
            else np.inf
            for curve, costs in pairs
        )
        return say_when(mean, every, lambda value: f'{value:.3g}')

    names = {
        'pattern': lambda key: source.name(key[0]),
        'algorithm': lambda key: source.name(key[1]),
    }
    count = min(len(own.seeds) for own in spent.values())
    priced = f'mean over {"" if count == source.num_seeds else f"{count} of "}{source.seeds}'
    found_tables = [
        tables.fill(
            source.rows(),
            {
                **names,
                'models up / down': lambda key: '{0.up} / {0.down}'.format(
                    spent[key[1], key[0]].traffic
                ),
                'hours': total('hours'),
                'GB up': total('up'),
                'GB down': total('down'),
                'compute': total('compute'),
            },
            f'What {int(source.rounds[-1]):,} rounds cost, {priced}: simulated hours, each round '
            'as long as its slowest awaited client; bytes that all clients sent and received (GB: '
            '1e9), models per message; hours that all clients trained.',
        )
    ]
    if len(targets):
        reached = {
            f'{kind.number(level)}: {"hours" if by_hours else "GB"}': (
                lambda key, level=level, by_hours=by_hours: first(key, float(level), by_hours)
            )
            for level in targets
            for by_hours in (True, False)
        }
        caption = (
            f'Simulated hours, and gigabytes up and down, until {kind.title} reaches the level in '
            f'front, {priced}; in brackets the range over seeds.'
        )
        found_tables.append(tables.fill(source.rows(), {**names, **reached}, caption))
    axis = {
        key: (own.hours if against == 'hours' else own.up + own.down).mean(axis=0)
        for key, own in spent.items()
    }
    drawn = curves(source, metrics=(kind.name,), against=Axis(_AXES[against], axis))
    return Page(f'Price in {against}', found_tables, drawn.draw, drawn.size)


def _kept(
    source: Source,
) -> tuple[Mapping[str, Any], dict[str, dict[int, np.ndarray]], int]:
    """The config, masks by pattern and place of the seed, and their first round.

    Before a run masks of nobody; the config of one made in Python is empty.
    """
    planned = source.experiment
    if source.folder is None and planned is not None and source.links:
        problem = planned.problem_at(source.patterns[0], planned.grid_points[0])
        nobody = np.zeros((int(source.rounds[-1]), problem.num_clients), bool)
        return planned.config or {}, {pattern: {0: nobody} for pattern in source.patterns}, 0
    if source.folder is None:
        raise errors.invalid('folder', 'be given to price a run, as its links are kept there', None)
    facts, config = runs.described(source.folder)
    kept = runs.links(source.folder)
    for pattern in source.patterns:
        if pattern not in kept.masks:
            requirement = f"have kept the links of {pattern} (log: ('links',))"
            raise errors.invalid('workdir', requirement, source.folder)
    masks = {
        pattern: {facts['seeds'].index(seed): mask for seed, mask in kept.masks[pattern].items()}
        for pattern in source.patterns
    }
    return config or {}, masks, kept.first_round


def _facts(
    source: Source,
    config: Mapping[str, Any],
    label: str,
    local_steps: int | None,
    given: Mapping[str, Any],
) -> tuple[pricing.Traffic, Mapping[str, Any], Any]:
    """What a series sends, the options of its algorithm, and its local steps."""
    algorithm, point = source.members[label]
    for path in point:
        if path.split('.')[0] in _CHANGES_LINKS:
            requirement = 'leave the links alone, as those of its first point are kept'
            raise errors.invalid('grid', requirement, path)
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
    place = algorithm if algorithm in given else name
    if place in given:
        checks.options(f'traffic.{place}', pricing.Traffic, given[place])
        known = pricing.Traffic(**given[place])
        for field in ('up', 'down'):
            checks.static_int(f'traffic.{place}.{field}', getattr(known, field), minimum=0)
        return known, options, local_steps
    if name not in pricing.TRAFFIC:
        raise errors.invalid('traffic', f'say what {algorithm} sends', sorted(given))
    return pricing.TRAFFIC[name], options, local_steps


def _build(config: Mapping[str, Any]) -> Experiment:
    if not config:
        raise errors.invalid('model_bytes', 'be given for a run made in Python', None)
    return experiment.build(config)


def _bytes(planned: Experiment | None, source: Source, label: str, pattern: str) -> float:
    """Bytes of a series' model under a pattern."""
    assert planned is not None
    _, point = source.members[label]
    at = next(p for p in planned.grid_points if point.items() <= p.items())
    problem = planned.problem_at(pattern, at)
    return float(tree.num_bytes(jax.eval_shape(problem.init_params, jax.random.key(0))))
