"""Hours and gigabytes in the round's place: totals, prices of levels, and curves against either."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedjax_links import runs
from fedjax_links.config import nested, registries
from fedjax_links.core import checks, errors
from fedjax_links.experiment import build
from fedjax_links.experiment.config import recorded
from fedjax_links.pages import tables
from fedjax_links.report import cost_model
from fedjax_links.report.layouts import page, progress
from fedjax_links.report.run_view import RunView

_AXES = {'hours': 'hours', 'gigabytes': 'gigabytes, up and down'}
_UNITS = {'hours': 3600, 'GB up': 1e9, 'GB down': 1e9, 'compute': 3600, 'GB peers': 1e9}
"""Of the columns of a `pricing.Price`."""
_CHANGES_LINKS = ('links', 'patterns', 'problem', 'redraw')

Speed = float | str | Mapping[str, Any]


def price(
    source: RunView,
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
) -> page.Page:
    """What a run would have cost on given devices; `fedjax_links.report.cost_model` is the model.

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
    config, kept = _kept(source)
    first = next(iter(kept.masks[source.patterns[0]].values()))
    devices = cost_model.devices(
        first.shape[1], step=step, uplink=uplink, downlink=downlink
    )
    sizes = (
        dict.fromkeys(source.patterns, model_bytes)
        if model_bytes
        else _sizes(source, config)
    )
    units = {
        title: unit
        for title, unit in _UNITS.items()
        if title != 'GB peers' or kept.edges
    }
    places = {
        seed: place for place, seed in enumerate(source.data['seed'].values.tolist())
    }
    rows, spent = [], {}
    for key in source.rows():
        pattern, label, _ = key
        model, options, steps = _facts(
            source, config, label, local_steps, traffic or {}
        )
        if kept.first_round and model.senders is not None:
            requirement = f'be whole to price {label}, which looks at earlier rounds'
            raise errors.invalid(
                'links', requirement, f'from round {kept.first_round} on'
            )
        masks = kept.masks[pattern]
        terms: dict[str, Any] = {'model_bytes': sizes[pattern], 'local_steps': steps}
        terms |= {'overhead': overhead, 'options': options}
        prices, at = [], source.rounds - kept.first_round
        for seed, mask in masks.items():
            told = (
                part.get(pattern, {}).get(seed) for part in (kept.durations, kept.edges)
            )
            terms |= zip(('durations', 'edges'), told, strict=True)
            prices.append(cost_model.price(mask, model, devices, **terms))
        totals = {
            title: np.array([each[place][at] for each in prices]) / unit
            for place, (title, unit) in enumerate(units.items())
        }
        row = page.labels(source, key) | {
            'models up / down': f'{model.up} / {model.down}'
        }
        row |= {title: f'{total[:, -1].mean():.3g}' for title, total in totals.items()}
        moved = np.sum(
            [own for title, own in totals.items() if title.startswith('GB')], axis=0
        )
        costs = {'hours': totals['hours'], 'GB': moved}
        values = source.curve(kind.name, key)[[places[seed] for seed in masks]]
        for level, unit in itertools.product(targets, costs):
            when = progress.say_when(kind, float(level), values, costs[unit], '.3g')
            row[f'{kind.number(level)}: {unit}'] = when
        rows.append(row)
        spent[pattern, label] = costs['hours' if against == 'hours' else 'GB'].mean(
            axis=0
        )
    count = min(map(len, kept.masks.values()))
    priced = (
        f'mean over {"" if count == source.num_seeds else f"{count} of "}{source.seeds}'
    )
    caption = (
        f'What {int(source.rounds[-1]):,} rounds cost, {priced}: simulated hours, each round as '
        'long as its slowest awaited client, or as its pattern says; bytes that all clients sent '
        'and received (GB: 1e9), '
        'models per message; hours that all clients trained.'
    )
    if targets:
        caption += (
            f' Behind a level, hours, and gigabytes up and down, until {kind.title} reaches it; in '
            'brackets the range over seeds.'
        )
    drawn = progress.curves(
        source, metrics=(kind.name,), against=(_AXES[against], spent)
    )
    return drawn._replace(
        heading=f'Price in {against}', tables=[tables.of_rows(rows, caption)]
    )


def _kept(source: RunView) -> tuple[Mapping[str, Any], runs.RecordedLinks]:
    """The config, empty for a run made in Python, and the links; before a run those of nobody."""
    planned = source.experiment
    if source.folder is None and planned is not None and source.links:
        problem = planned.problem_at(source.patterns[0], planned.plan.points[0])
        nobody = np.zeros((int(source.rounds[-1]), problem.num_clients), bool)
        masks = {pattern: {planned.seeds[0]: nobody} for pattern in source.patterns}
        return planned.config or {}, runs.RecordedLinks(
            masks, {}, {}, {}, {}, {}, first_round=0
        )
    if source.folder is None:
        raise errors.invalid(
            'folder', 'be given to price a run, as its links are kept there', None
        )
    kept = runs.links(source.folder)
    if missing := [pattern for pattern in source.patterns if pattern not in kept.masks]:
        requirement = f"have kept the links of {missing[0]} (log: ('links',))"
        raise errors.invalid('workdir', requirement, source.folder)
    return runs.read_description(source.folder)[1] or {}, kept


def _facts(
    source: RunView,
    config: Mapping[str, Any],
    label: str,
    local_steps: int | None,
    given: Mapping[str, Any],
) -> tuple[cost_model.Traffic, Mapping[str, Any], Any]:
    """What a series sends, the options of its algorithm, and its local steps."""
    algorithm, point = source.members[label]
    for path, value in point.items():
        if path.split('.')[0] in _CHANGES_LINKS:
            requirement = 'leave the links alone, as those of its first point are kept'
            raise errors.invalid('grid', requirement, path)
        config = nested.with_value(config, path.split('.'), value)
    section = nested.section(config.get('algorithms', {}).get(algorithm) or {})
    options: dict[str, Any] = {'name': algorithm, **section}
    client = {**config.get('client', {}), **options.get('client', {})}
    if local_steps is None:
        local_steps = client.get('client_steps', client.get('local_steps'))
    if local_steps is None:
        requirement = f'be given, as no config says how many {algorithm} has'
        raise errors.invalid('local_steps', requirement, None)
    place = algorithm if algorithm in given else options['name']
    if place not in given:
        if place not in cost_model.TRAFFIC:
            raise errors.invalid(
                'traffic', f'say what {algorithm} sends', sorted(given)
            )
        return cost_model.TRAFFIC[place], options, local_steps
    checks.options(f'traffic.{place}', cost_model.Traffic, given[place])
    sent = cost_model.Traffic(**given[place])
    checks.static_int(f'traffic.{place}.up', sent.up, minimum=0)
    checks.static_int(f'traffic.{place}.down', sent.down, minimum=0)
    return sent, options, local_steps


def _sizes(source: RunView, config: Mapping[str, Any]) -> dict[str, float]:
    """Bytes of a model by pattern, the same at all points of a grid that leaves problems alone."""
    if source.experiment is None and not config:
        raise errors.invalid('model_bytes', 'be given for a run made in Python', None)
    planned = source.experiment
    if planned is None:
        kept = recorded(config, allow_imports=source.allow_imports)
        planned = build(kept)
    first = planned.plan.points[0]
    return {
        k: registries.bytes_of_model(planned.problem_at(k, first))
        for k in source.patterns
    }
