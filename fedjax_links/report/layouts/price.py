"""Shows costs in place of rounds: totals, costs of reaching levels, and curves against either."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedjax_links import runs
from fedjax_links.config import nested, registries
from fedjax_links.core import checks, errors
from fedjax_links.experiment import build
from fedjax_links.experiment.config import recorded
from fedjax_links.pages import tables
from fedjax_links.report import cost_model
from fedjax_links.report.comparisons import FinalKey
from fedjax_links.report.layouts import page, progress
from fedjax_links.report.run_view import RunView
from fedjax_links.results.metric import Metric

_AXES = {'hours': 'hours', 'gigabytes': 'gigabytes, up and down'}
_HOUR = 3600
_GIGABYTE = 1e9
_UNITS = {
    'seconds': ('hours', _HOUR),
    'uplink': ('GB up', _GIGABYTE),
    'downlink': ('GB down', _GIGABYTE),
    'compute': ('compute', _HOUR),
    'peers': ('GB peers', _GIGABYTE),
}
"""By field of `cost_model.RoundCosts`, the title of its column, and its unit."""
_CHANGES_LINKS = ('links', 'patterns', 'problem', 'redraw')

Speed = float | str | Mapping[str, Any]


class _Messages(NamedTuple):
    """What the clients of a series send and compute.

    Attributes:
      traffic: the messages of its algorithm.
      options: of the algorithm, as in a config.
      local_steps: of a round.
    """

    traffic: cost_model.Traffic
    options: Mapping[str, Any]
    local_steps: Any


class _SeriesCosts(NamedTuple):
    """Costs of a series by the seeds that have links.

    Attributes:
      by_title: float64[S, E], cumulative costs at each evaluation, by title of a column.
      seeds: the S seeds.
    """

    by_title: Mapping[str, np.ndarray]
    seeds: Sequence[int]

    @property
    def hours(self) -> np.ndarray:
        """Returns float64[S, E], simulated hours."""
        return self.by_title['hours']

    @property
    def gigabytes(self) -> np.ndarray:
        """Returns float64[S, E], what all clients sent and received."""
        moved = [
            total for title, total in self.by_title.items() if title.startswith('GB')
        ]
        return np.asarray(np.sum(moved, axis=0))


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
    """Shows what a run would have cost on given devices.

    `fedjax_links.report.cost_model` describes the model. It needs the links that the run recorded:
    those of the first seed, and of all seeds with ``log: ('links',)``. Seeds without links are
    drawn at the mean cost of the others, and are not in the tables. The run itself is not changed.

    Args:
      source: what ran.
      step: seconds of a local step: a number, or a section of ``DEVICE_SPEEDS``.
      uplink: bytes per second; likewise.
      downlink: bytes per second; likewise.
      targets: levels of the metric whose cost to show.
      metric: which metric; that of the results by default.
      against: what the picture's horizontal axis is, ``'hours'`` or ``'gigabytes'``.
      overhead: seconds that each round lasts in addition.
      model_bytes: of a model; those of the problem's parameters by default.
      local_steps: of a round; the config's by default.
      traffic: ``up``, ``down`` and ``everyone`` of `cost_model.Traffic` by algorithm that is not
        registered; also for registered ones, in place of what the registry knows.

    Returns:
      A table of totals and of the costs of the targets; curves.

    Raises:
      ValueError: for unknown names, numbers out of range, links that were not recorded or that the
        grid changes, and algorithms of which nothing is known.
    """
    shown_metric = source.metric(metric)
    checks.choice('against', against, _AXES)
    config, links = _config_and_links(source)
    first_mask = next(iter(links.masks[source.patterns[0]].values()))
    devices = cost_model.devices(
        first_mask.shape[1], step=step, uplink=uplink, downlink=downlink
    )
    if model_bytes:
        bytes_of_model = dict.fromkeys(source.patterns, model_bytes)
    else:
        bytes_of_model = _bytes_of_model(source, config)
    rows = []
    mean_costs = {}
    for key in source.rows():
        pattern, label, _ = key
        messages = _messages_of(source, config, label, local_steps, traffic or {})
        costs = _series_costs(
            source, links, key, messages, devices, bytes_of_model[pattern], overhead
        )
        row = page.labels(source, key)
        row['models up / down'] = f'{messages.traffic.up} / {messages.traffic.down}'
        for title, total in costs.by_title.items():
            row[title] = f'{total[:, -1].mean():.3g}'
        for target in targets:
            row |= _target_costs(source, shown_metric, key, costs, float(target))
        rows.append(row)
        along_axis = costs.hours if against == 'hours' else costs.gigabytes
        mean_costs[pattern, label] = along_axis.mean(axis=0)
    num_seeds = min(map(len, links.masks.values()))
    caption = _caption(source, shown_metric, num_seeds, has_targets=bool(targets))
    axis = _AXES[against], mean_costs
    drawn = progress.curves(source, metrics=(shown_metric.name,), against=axis)
    table = tables.of_rows(rows, caption)
    return drawn._replace(heading=f'Price in {against}', tables=[table])


def _series_costs(
    source: RunView,
    links: runs.RecordedLinks,
    key: FinalKey,
    messages: _Messages,
    devices: cost_model.DeviceSpeeds,
    model_bytes: float,
    overhead: float,
) -> _SeriesCosts:
    """Computes the costs of a series at the evaluations, for the seeds that have links.

    Raises:
      ValueError: for links of a forked run where the algorithm needs those before the fork.
    """
    pattern, label, _ = key
    if links.first_round and messages.traffic.senders is not None:
        requirement = f'be whole to price {label}, which looks at earlier rounds'
        value = f'from round {links.first_round} on'
        raise errors.invalid('links', requirement, value)
    by_seed = [
        cost_model.price(
            mask,
            messages.traffic,
            devices,
            model_bytes=model_bytes,
            local_steps=messages.local_steps,
            overhead=overhead,
            options=messages.options,
            durations=links.durations.get(pattern, {}).get(seed),
            edges=links.edges.get(pattern, {}).get(seed),
        )
        for seed, mask in links.masks[pattern].items()
    ]
    evaluated = source.rounds - links.first_round
    by_title = {}
    for field, (title, unit) in _UNITS.items():
        if field == 'peers' and not links.edges:
            continue
        totals = np.array([getattr(costs, field)[evaluated] for costs in by_seed])
        by_title[title] = totals / unit
    return _SeriesCosts(by_title, list(links.masks[pattern]))


def _target_costs(
    source: RunView,
    metric: Metric,
    key: FinalKey,
    costs: _SeriesCosts,
    target: float,
) -> dict[str, str]:
    """Writes the cost of reaching a level, a cell for hours and one for gigabytes."""
    all_seeds = source.data['seed'].values.tolist()
    positions = [all_seeds.index(seed) for seed in costs.seeds]
    values = source.curve(metric.name, key)[positions]
    cells = {}
    for unit, spent in (('hours', costs.hours), ('GB', costs.gigabytes)):
        when = progress.say_when(metric, target, values, spent, '.3g')
        cells[f'{metric.number(target)}: {unit}'] = when
    return cells


def _caption(
    source: RunView, metric: Metric, num_seeds: int, *, has_targets: bool
) -> str:
    """Says what the columns are."""
    part = '' if num_seeds == source.num_seeds else f'{num_seeds} of '
    caption = (
        f'What {int(source.rounds[-1]):,} rounds cost, mean over {part}{source.seeds}: simulated '
        'hours, each round as long as its slowest awaited client, or as its pattern says; bytes '
        'that all clients sent and received (GB: 1e9), models per message; hours that all clients '
        'trained.'
    )
    if has_targets:
        caption += (
            f' Behind a level, hours, and gigabytes up and down, until {metric.title} reaches it; '
            'in brackets the range over seeds.'
        )
    return caption


def _config_and_links(
    source: RunView,
) -> tuple[Mapping[str, Any], runs.RecordedLinks]:
    """Returns the config, empty for a run made in Python, and the recorded links.

    Before a run they are links without any active client.

    Raises:
      ValueError: if no links were recorded.
    """
    experiment = source.experiment
    if source.folder is None and experiment is not None and source.links:
        first_point = experiment.plan.points[0]
        problem = experiment.problem_at(source.patterns[0], first_point)
        nobody = np.zeros((int(source.rounds[-1]), problem.num_clients), bool)
        masks = {pattern: {experiment.seeds[0]: nobody} for pattern in source.patterns}
        links = runs.RecordedLinks(
            masks=masks,
            mean_probs={},
            probs={},
            durations={},
            neighbours={},
            edges={},
            first_round=0,
        )
        return experiment.config or {}, links
    if source.folder is None:
        requirement = 'be given to price a run, as its links are kept there'
        raise errors.invalid('folder', requirement, None)
    links = runs.links(source.folder)
    for pattern in source.patterns:
        if pattern not in links.masks:
            requirement = f"have kept the links of {pattern} (log: ('links',))"
            raise errors.invalid('workdir', requirement, source.folder)
    return runs.read_description(source.folder)[1] or {}, links


def _messages_of(
    source: RunView,
    config: Mapping[str, Any],
    label: str,
    local_steps: int | None,
    traffic: Mapping[str, Any],
) -> _Messages:
    """Returns what the clients of a series send and compute.

    Args:
      source: what ran.
      config: of the run, at the first point of its grid.
      label: of the series.
      local_steps: of a round; None for the config's.
      traffic: by algorithm, in place of what the registry knows.

    Raises:
      ValueError: for a grid that changes links, and for unknown steps or messages.
    """
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
    name = algorithm if algorithm in traffic else options['name']
    return _Messages(_traffic_of(algorithm, name, traffic), options, local_steps)


def _traffic_of(
    algorithm: str, name: str, traffic: Mapping[str, Any]
) -> cost_model.Traffic:
    """Returns the messages of an algorithm: those of the user first, else those of the registry.

    Args:
      algorithm: its label.
      name: in ``traffic``, or in the registry.
      traffic: options of `cost_model.Traffic` by name.

    Raises:
      ValueError: for an algorithm of which nothing is known, and numbers out of range.
    """
    if name in traffic:
        checks.options(f'traffic.{name}', cost_model.Traffic, traffic[name])
        messages = cost_model.Traffic(**traffic[name])
        checks.static_int(f'traffic.{name}.up', messages.up, minimum=0)
        checks.static_int(f'traffic.{name}.down', messages.down, minimum=0)
        return messages
    if name not in cost_model.TRAFFIC:
        requirement = f'say what {algorithm} sends'
        raise errors.invalid('traffic', requirement, sorted(traffic))
    return cost_model.TRAFFIC[name]


def _bytes_of_model(source: RunView, config: Mapping[str, Any]) -> dict[str, float]:
    """Returns the bytes of a model by pattern.

    They are the same at all points of a grid that leaves problems alone.

    Raises:
      ValueError: for a run made in Python, whose problem is not at hand.
    """
    experiment = source.experiment
    if experiment is None and not config:
        raise errors.invalid('model_bytes', 'be given for a run made in Python', None)
    if experiment is None:
        experiment = build(recorded(config, allow_imports=source.allow_imports))
    first_point = experiment.plan.points[0]
    return {
        pattern: registries.bytes_of_model(experiment.problem_at(pattern, first_point))
        for pattern in source.patterns
    }
