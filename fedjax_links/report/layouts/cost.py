"""Shows what a run would cost: totals, costs of reaching targets, and curves against a cost."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedjax_links import runs
from fedjax_links.config import nested, registries
from fedjax_links.core import checks, errors, factory_options
from fedjax_links.core.records import Section
from fedjax_links.experiment import build
from fedjax_links.experiment.config import prepare_recorded
from fedjax_links.pages import tables
from fedjax_links.report import cost_model
from fedjax_links.report.comparisons import FinalKey
from fedjax_links.report.layouts import page, progress
from fedjax_links.report.layouts.targets import by_title, reached_text
from fedjax_links.report.run_view import RunView
from fedjax_links.results.metric import Metric

_AXES = {'hours': 'hours', 'gigabytes': 'gigabytes of all messages'}
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

Speed = float | str | Mapping[str, Any]


class _Messages(NamedTuple):
    """Holds what the clients of a series (an algorithm at a grid point) send and compute.

    Attributes:
      traffic: the messages of its algorithm.
      options: the algorithm's options, as in a config.
      local_steps: local steps of a round, one number or one per client.
    """

    traffic: cost_model.Traffic
    options: Mapping[str, Any]
    local_steps: Any


class _SeriesCosts(NamedTuple):
    """Holds cumulative costs of a series at each evaluation, for the seeds that have links.

    Attributes:
      by_title: float64[S, E], by title of a column.
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
        parts = [
            part for title, part in self.by_title.items() if title.startswith('GB')
        ]
        return np.asarray(np.sum(parts, axis=0))


def cost(
    view: RunView,
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
    traffic: Section | None = None,
) -> page.Page:
    """Shows what a run would have cost on devices of some speeds.

    `fedjax_links.report.cost_model` describes the model of costs. Costs need the links that the run
    recorded: of the first seed, and with ``log: ('links',)`` of all seeds. Tables have the costs of
    the seeds with recorded links. The picture has the curves of all seeds against the mean of the
    tables' costs.

    Args:
      view: the run.
      step: seconds of a local step: a number, or a section of ``DEVICE_SPEEDS``.
      uplink: bytes per second; likewise.
      downlink: bytes per second; likewise.
      targets: values of the metric; the table shows what it costs to reach each.
      metric: which metric; the results' metric by default.
      against: the picture's horizontal axis, ``'hours'`` or ``'gigabytes'``.
      overhead: seconds, at least 0, that each round lasts in addition.
      model_bytes: bytes of a model; by default the bytes of the problem's parameters.
      local_steps: local steps of a round; the config's by default.
      traffic: by algorithm, fields of `cost_model.Traffic` such as ``up``, ``down``, ``peers`` and
        ``everyone``. They are needed for an algorithm that is not registered. For a registered
        algorithm they replace the registry's.

    Returns:
      A page with a table of totals and costs of targets, and learning curves against a cost.

    Raises:
      ValueError: for unknown names, numbers out of range, or targets that the table prints alike.
        Also for links that were not recorded or that the grid changes, and for algorithms whose
        traffic is unknown.
    """
    shown_metric = view.metric(metric)
    checks.choice('against', against, _AXES)
    target_of_title = by_title('targets', targets, shown_metric.number)
    config, links = _config_and_links(view)
    _check_traffic(view, config, traffic or {})
    devices = {}
    for pattern in view.patterns:
        _, num_clients = next(iter(links.masks[pattern].values())).shape
        devices[pattern] = cost_model.devices(
            num_clients, step=step, uplink=uplink, downlink=downlink
        )
    if model_bytes is not None:
        bytes_of_model = dict.fromkeys(view.patterns, model_bytes)
    else:
        bytes_of_model = _bytes_of_model(view, config)
    rows = []
    mean_costs: dict[tuple[str, str], np.ndarray] = {}
    for key in view.rows():
        messages = _messages_of(view, config, key.series, local_steps, traffic or {})
        costs = _series_costs(
            view,
            links,
            key,
            messages,
            devices[key.pattern],
            bytes_of_model[key.pattern],
            overhead,
        )
        row = page.labels(view, key)
        row['models up / down'] = f'{messages.traffic.up} / {messages.traffic.down}'
        for title, total in costs.by_title.items():
            row[title] = f'{total[:, -1].mean():.3g}'
        for title, target in target_of_title.items():
            row |= _target_costs(view, shown_metric, key, costs, title, target)
        rows.append(row)
        shown_costs = costs.hours if against == 'hours' else costs.gigabytes
        mean_costs[key.pattern, key.series] = shown_costs.mean(axis=0)
    seeds = set(view.data['seed'].values.tolist())
    seeds.intersection_update(*(links.masks[pattern] for pattern in view.patterns))
    caption = _caption(view, shown_metric, len(seeds), has_targets=bool(targets))
    table = tables.from_rows(rows, caption + cost_model.directions_text(config))
    axis = _AXES[against], mean_costs
    curves = progress.curves(view, metrics=(shown_metric.name,), against=axis)
    return curves._replace(heading=f'Cost in {against}', tables=[table])


def _series_costs(
    view: RunView,
    links: runs.RecordedLinks,
    key: FinalKey,
    messages: _Messages,
    devices: cost_model.DeviceSpeeds,
    model_bytes: float,
    overhead: float,
) -> _SeriesCosts:
    """Computes the costs of a series at the evaluations, for the seeds that have links.

    Raises:
      ValueError: for links of a fork, if the algorithm needs the links before the fork as well.
    """
    masks = links.masks[key.pattern]
    # With seeds until decided, links are drawn for all seeds that might run.
    seeds = [seed for seed in view.seeds_of(key) if seed in masks]
    if links.first_round and messages.traffic.senders is not None:
        requirement = f'start at round 0, as {key.series} looks at earlier rounds'
        value = f'from round {links.first_round} on'
        raise errors.invalid('links', requirement, value)
    by_seed = [
        cost_model.round_costs(
            masks[seed],
            messages.traffic,
            devices,
            model_bytes=model_bytes,
            local_steps=messages.local_steps,
            overhead=overhead,
            options=messages.options,
            durations=links.durations.get(key.pattern, {}).get(seed),
            edges=links.edges.get(key.pattern, {}).get(seed),
        )
        for seed in seeds
    ]
    evaluated = view.rounds - links.first_round
    by_title = {}
    for field, (title, unit) in _UNITS.items():
        if field == 'peers' and not links.edges:
            continue
        totals = np.array([getattr(costs, field)[evaluated] for costs in by_seed])
        by_title[title] = totals / unit
    return _SeriesCosts(by_title, seeds)


def _target_costs(
    view: RunView,
    metric: Metric,
    key: FinalKey,
    costs: _SeriesCosts,
    title: str,
    target: float,
) -> dict[str, str]:
    """Formats the cost of reaching a target: a cell for hours and one for gigabytes."""
    seeds = view.seeds_of(key)
    seed_indices = [seeds.index(seed) for seed in costs.seeds]
    values = view.curve(metric.name, key)[seed_indices]
    cells = {}
    for unit, totals in (('hours', costs.hours), ('GB', costs.gigabytes)):
        cells[f'{title}: {unit}'] = reached_text(metric, target, values, totals, '.3g')
    return cells


def _caption(
    view: RunView, metric: Metric, num_seeds: int, *, has_targets: bool
) -> str:
    """Explains the columns of the table."""
    fraction = '' if num_seeds == view.num_seeds else f'{num_seeds} of '
    caption = (
        f'What {int(view.rounds[-1]):,} rounds cost, mean over {fraction}{view.seeds}: simulated '
        'hours, each round as long as its slowest awaited client, or as its pattern says; bytes '
        'that all clients sent and received (GB: 1e9), models per message; hours that all clients '
        'trained.'
    )
    if has_targets:
        caption += (
            f' Columns of a target: hours, and gigabytes of all messages, until {metric.title} '
            'reaches it; in brackets the range over seeds.' + page.models_text(view)
        )
    return caption


def _config_and_links(view: RunView) -> tuple[Section, runs.RecordedLinks]:
    """Returns the config, empty for a run made in Python, and the recorded links.

    A check of the layout before a run has no recorded links. Links without an active client then
    stand in.

    Raises:
      ValueError: if no links were recorded.
    """
    experiment = view.experiment
    if view.folder is None and experiment is not None and view.links:
        first_point = experiment.plan.points[0]
        problem = experiment.problem_at(view.patterns[0], first_point)
        all_down = np.zeros((int(view.rounds[-1]), problem.num_clients), bool)
        first_seed = experiment.seeds[0]
        masks = {pattern: {first_seed: all_down} for pattern in view.patterns}
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
    if view.folder is None:
        requirement = 'be given for the cost of a run, as its links are recorded there'
        raise errors.invalid('folder', requirement, None)
    links = runs.links(view.folder)
    for pattern in view.patterns:
        if pattern not in links.masks:
            requirement = f"have recorded the links of {pattern} (log: ('links',))"
            raise errors.invalid('workdir', requirement, view.folder)
    return runs.read_description(view.folder)[1] or {}, links


def _messages_of(
    view: RunView,
    config: Section,
    label: str,
    local_steps: int | None,
    traffic: Section,
) -> _Messages:
    """Returns what the clients of a series send and compute.

    Args:
      view: the run.
      config: the config of the run, at the first point of its grid.
      label: the label of the series.
      local_steps: local steps of a round; None for the config's.
      traffic: by algorithm, in place of the registry's.

    Raises:
      ValueError: for a grid that changes links, and for unknown steps or messages.
    """
    algorithm, point = view.members[label]
    for path, value in point.items():
        if page.may_change_links(view, path):
            requirement = (
                'not change links, as only those of its first point are recorded'
            )
            raise errors.invalid('grid', requirement, path)
        config = nested.put(config, path.split('.'), value)
    section = nested.section(config.get('algorithms', {}).get(algorithm) or {})
    options: dict[str, Any] = {'name': algorithm, **section}
    client = {**config.get('client', {}), **nested.section(options.get('client', {}))}
    if local_steps is None:
        local_steps = client.get('client_steps', client.get('local_steps'))
    if local_steps is None:
        requirement = f'be given, as no config says how many {algorithm} has'
        raise errors.invalid('local_steps', requirement, None)
    name = algorithm if algorithm in traffic else options['name']
    return _Messages(_traffic_of(algorithm, name, traffic), options, local_steps)


def _check_traffic(view: RunView, config: Section, traffic: Section) -> None:
    """Raises for messages of an algorithm that the run does not have."""
    sections = config.get('algorithms', {})
    names = dict.fromkeys(view.algorithms)
    for label in view.algorithms:
        name = nested.section(sections.get(label) or {}).get('name')
        if isinstance(name, str):
            names[name] = None
    for name in traffic:
        checks.choice('traffic', name, names)


def _traffic_of(algorithm: str, name: str, traffic: Section) -> cost_model.Traffic:
    """Returns the messages of an algorithm: the user's, or else the registry's.

    Args:
      algorithm: its label.
      name: in ``traffic``, or in the registry.
      traffic: options of `cost_model.Traffic` by name.

    Raises:
      ValueError: for an algorithm whose messages are unknown, and numbers out of range.
    """
    if name in traffic:
        section = traffic[name]
        if not isinstance(section, Mapping):
            requirement = 'have `up`, `down` and the like by name'
            raise errors.invalid(
                f'traffic.{name}', requirement, errors.text_of(section)
            )
        factory_options.check(f'traffic.{name}', cost_model.Traffic, section)
        messages = cost_model.Traffic(**section)
        for field in ('up', 'down', 'peers'):
            num_models = getattr(messages, field)
            checks.static_int(f'traffic.{name}.{field}', num_models, minimum=0)
        return messages
    if name not in cost_model.TRAFFIC:
        requirement = f'say what {algorithm} sends'
        raise errors.invalid('traffic', requirement, sorted(traffic))
    return cost_model.TRAFFIC[name]


def _bytes_of_model(view: RunView, config: Section) -> dict[str, float]:
    """Returns the bytes of a model by pattern.

    The bytes are the same at all points of a grid that does not change problems.

    Raises:
      ValueError: for the folder of a run made in Python, which cannot rebuild its problem.
    """
    experiment = view.experiment
    if experiment is None and not config:
        raise errors.invalid('model_bytes', 'be given for a run made in Python', None)
    if experiment is None:
        experiment = build(prepare_recorded(config, allow_imports=view.allow_imports))
    first_point = experiment.plan.points[0]
    return {
        pattern: registries.bytes_of_model(experiment.problem_at(pattern, first_point))
        for pattern in view.patterns
    }
