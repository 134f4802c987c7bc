"""Hours and gigabytes in the round's place: totals, prices of levels, and curves against either."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from fedjax_links import experiment, runs
from fedjax_links.config import trees
from fedjax_links.core import checks, errors, tree
from fedjax_links.experiment import Experiment
from fedjax_links.report import pricing, tables
from fedjax_links.report.layouts.page import Page, labels
from fedjax_links.report.layouts.progress import Axis, curves, say_when
from fedjax_links.report.source import Key, Source

_AXES = {'hours': 'hours', 'gigabytes': 'gigabytes, up and down'}
_UNITS = {'hours': 3600, 'GB up': 1e9, 'GB down': 1e9, 'compute': 3600}
"""Of the columns of a `pricing.Price`."""
_CHANGES_LINKS = ('links', 'patterns', 'problem', 'redraw')

Speed = float | str | Mapping[str, Any]


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
      A table of totals and of the price of the targets; curves.

    Raises:
      ValueError: for unknown names, numbers out of range, links that were not kept or that the grid
        changes, and algorithms of which nothing is known.
    """
    kind = source.metric(metric)
    checks.choice('against', against, _AXES)
    config, masks, begin = _kept(source)
    num_clients = next(iter(masks[source.patterns[0]].values())).shape[1]
    devices = pricing.devices(num_clients, step=step, uplink=uplink, downlink=downlink)
    planned = source.experiment
    if model_bytes is None and planned is None:
        if not config:
            raise errors.invalid('model_bytes', 'be given for a run made in Python', None)
        planned = experiment.build(config)
    units = np.array([*_UNITS.values()])[:, None]
    traffics, spent = {}, {}
    for label in source.members:
        model, options, steps = _facts(source, config, label, local_steps, traffic or {})
        if begin and model.asked is not None:
            requirement = f'be whole to price {label}, which looks at earlier rounds'
            raise errors.invalid('links', requirement, f'from round {begin} on')
        traffics[label] = f'{model.up} / {model.down}'
        for pattern, by_seed in masks.items():
            terms: dict[str, Any] = {
                'model_bytes': model_bytes or _bytes(planned, source, label, pattern),
                **{'local_steps': steps, 'overhead': overhead, 'options': options},
            }
            prices = [pricing.price(mask, model, devices, **terms) for mask in by_seed.values()]
            spent[label, pattern] = np.array(prices)[..., source.rounds - begin] / units

    def cost(label: str, pattern: str, by_hours: bool) -> np.ndarray:
        """float[S, E], hours, or gigabytes both ways."""
        own = spent[label, pattern]
        found: np.ndarray = own[:, 0] if by_hours else own[:, 1] + own[:, 2]
        return found

    def first(key: Key, level: float, by_hours: bool) -> str:
        values = source.curve(kind.name, key)[list(masks[key[0]])]
        return say_when(kind, level, values, cost(key[1], key[0], by_hours), '.3g')

    count = min(map(len, masks.values()))
    priced = f'mean over {"" if count == source.num_seeds else f"{count} of "}{source.seeds}'
    totals = {
        title: lambda key, k=k: f'{spent[key[1], key[0]][:, k, -1].mean():.3g}'
        for k, title in enumerate(_UNITS)
    }
    reached = {
        f'{kind.number(level)}: {"hours" if by_hours else "GB"}': (
            lambda key, level=level, by_hours=by_hours: first(key, float(level), by_hours)
        )
        for level in targets
        for by_hours in (True, False)
    }
    caption = (
        f'What {int(source.rounds[-1]):,} rounds cost, {priced}: simulated hours, each round as '
        'long as its slowest awaited client; bytes that all clients sent and received (GB: 1e9), '
        'models per message; hours that all clients trained.'
    )
    if reached:
        caption += (
            f' Behind a level, hours, and gigabytes up and down, until {kind.title} reaches it; in '
            'brackets the range over seeds.'
        )
    sent = {'models up / down': lambda key: traffics[key[1]]}
    table = tables.fill(source.rows(), {**labels(source), **sent, **totals, **reached}, caption)
    axis = {key: cost(*key, against == 'hours').mean(axis=0) for key in spent}
    drawn = curves(source, metrics=(kind.name,), against=Axis(_AXES[against], axis))
    return Page(f'Price in {against}', [table], drawn.draw, drawn.size)


def _kept(
    source: Source,
) -> tuple[Mapping[str, Any], dict[str, dict[int, np.ndarray]], int]:
    """The config, masks by pattern and place of the seed, and their first round.

    Before a run masks of nobody; the config of one made in Python is empty.
    """
    planned = source.experiment
    if source.folder is None and planned is not None and source.links:
        problem = planned.problem_at(source.patterns[0], planned.plan.points[0])
        nobody = np.zeros((int(source.rounds[-1]), problem.num_clients), bool)
        return planned.config or {}, {pattern: {0: nobody} for pattern in source.patterns}, 0
    if source.folder is None:
        raise errors.invalid('folder', 'be given to price a run, as its links are kept there', None)
    facts, config = runs.described(source.folder)
    kept = runs.links(source.folder)
    if missing := [pattern for pattern in source.patterns if pattern not in kept.masks]:
        requirement = f"have kept the links of {missing[0]} (log: ('links',))"
        raise errors.invalid('workdir', requirement, source.folder)
    places = {seed: place for place, seed in enumerate(facts['seeds'])}
    masks = {
        pattern: {places[seed]: mask for seed, mask in kept.masks[pattern].items()}
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
    for path, value in point.items():
        if path.split('.')[0] in _CHANGES_LINKS:
            requirement = 'leave the links alone, as those of its first point are kept'
            raise errors.invalid('grid', requirement, path)
        config = trees.with_value(config, path.split('.'), value)
    section = trees.section(config.get('algorithms', {}).get(algorithm) or {})
    options: dict[str, Any] = {'name': algorithm, **section}
    client = {**config.get('client', {}), **options.get('client', {})}
    if local_steps is None:
        local_steps = client.get('client_steps', client.get('local_steps'))
    if local_steps is None:
        requirement = f'be given, as no config says how many {algorithm} has'
        raise errors.invalid('local_steps', requirement, None)
    place = algorithm if algorithm in given else options['name']
    if place not in given:
        if place not in pricing.TRAFFIC:
            raise errors.invalid('traffic', f'say what {algorithm} sends', sorted(given))
        return pricing.TRAFFIC[place], options, local_steps
    checks.options(f'traffic.{place}', pricing.Traffic, given[place])
    sent = pricing.Traffic(**given[place])
    checks.static_int(f'traffic.{place}.up', sent.up, minimum=0)
    checks.static_int(f'traffic.{place}.down', sent.down, minimum=0)
    return sent, options, local_steps


def _bytes(planned: Experiment | None, source: Source, label: str, pattern: str) -> float:
    """Bytes of a series' model under a pattern."""
    assert planned is not None
    _, point = source.members[label]
    at = next(p for p in planned.plan.points if point.items() <= p.items())
    problem = planned.problem_at(pattern, at)
    return float(tree.num_bytes(jax.eval_shape(problem.init_params, jax.random.key(0))))
