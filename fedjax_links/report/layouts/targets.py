"""Shows when metrics reach targets: by round, or as the cells of other tables."""

from collections.abc import Callable, Sequence

import numpy as np

from fedjax_links.core import checks, errors, reprs
from fedjax_links.core.records import Section
from fedjax_links.pages import printed_numbers, tables
from fedjax_links.report.comparisons import FinalKey, FinalMetrics
from fedjax_links.report.layouts.page import Page, labels, models_text
from fedjax_links.report.run_view import RunView
from fedjax_links.results.metric import Metric

_LARGEST = 1e300  # of a target or share, so that a share of a metric is finite


def first_rounds(
    view: RunView,
    *,
    targets: Sequence[float] = (),
    shares: Sequence[float] = (),
    metric: str | None = None,
    published: Section | None = None,
) -> Page:
    """Shows the first evaluated round at which the mean over seeds reaches each target.

    Args:
      view: what ran.
      targets: values of the metric.
      shares: targets as shares of the best final metric of all algorithms under a pattern, above 1
        for a loss. Give either ``shares`` or ``targets``.
      metric: which metric; the run's metric by default.
      published: a ``module:factory`` that returns texts by (pattern, algorithm, target), and its
        options. Cells then read ``paper / ours``.

    Returns:
      One row per pattern and algorithm; in brackets the range over seeds.

    Raises:
      ValueError: if both or none of targets and shares are given, or a metric or printed table is
        unknown. Also if a target or share is not finite, or the table prints two alike.
    """
    final_metrics = view.final_metrics(metric)
    shown_metric = final_metrics.metric
    if bool(targets) == bool(shares):
        got = 'both' if targets else 'neither'
        raise errors.invalid('targets', 'be given, or `shares`, not both', got)
    paper = printed_numbers.load(published)
    target_of_title = by_title('targets', targets, shown_metric.number)
    share_of_title = by_title('shares', shares, _share_title)
    best_of = _best_metrics(view, final_metrics) if shares else {}
    rows = []
    for key in view.rows():
        row = labels(view, key)
        row_targets = target_of_title
        if shares:
            best = best_of[key.pattern]
            row['best'] = shown_metric.number(best)
            row_targets = {
                title: share * best for title, share in share_of_title.items()
            }
        values = view.curve(shown_metric.name, key)
        for title, target in row_targets.items():
            round_text = reached_text(shown_metric, target, values, view.rounds, '.0f')
            printed = paper.get((row['pattern'], row['algorithm'], target))
            row[title] = round_text if printed is None else f'{printed} / {round_text}'
        rows.append(row)
    caption = (
        f'First evaluated round at which {shown_metric.title}, averaged over {view.seeds}, reaches '
        'the target above; in brackets the range over seeds.' + models_text(view)
    )
    if shares:
        caption += f' Best: of all algorithms, {final_metrics.span}.'
    if paper:
        caption += ' Paper / ours.'
    return Page('First round to reach a target', [tables.from_rows(rows, caption)])


def _share_title(share: float) -> str:
    """Returns the title of the column of a share."""
    return f'{100 * share:g} % of it'


def by_title(
    argument: str, values: Sequence[float], title_of: Callable[[float], str]
) -> dict[str, float]:
    """Returns numbers by the titles of their columns.

    Args:
      argument: the name of the argument.
      values: one for each column.
      title_of: writes the title of a value.

    Raises:
      ValueError: for a value that is not finite, or two with one title, of which the table would
        show one.
    """
    checks.within(argument, values, -_LARGEST, _LARGEST, axis='entry')
    value_of: dict[str, float] = {}
    for value in map(float, values):
        if value_of.setdefault(title_of(value), value) != value:
            requirement = 'differ where the table rounds them'
            raise errors.invalid(argument, requirement, tuple(values))
    return value_of


def _best_metrics(view: RunView, final_metrics: FinalMetrics) -> dict[str, float]:
    """Returns the best final metric of all algorithms, by pattern."""
    best: dict[str, FinalKey] = {}
    for key in view.rows():
        best_so_far = best.get(key.pattern, key)
        best[key.pattern] = max(best_so_far, key, key=final_metrics.score)
    return {pattern: final_metrics.choices[key].mean for pattern, key in best.items()}


def reached_text(
    metric: Metric, target: float, values: np.ndarray, costs: np.ndarray, form: str
) -> str:
    """Writes when a target is reached: ``300 (150 to 450)``.

    Args:
      metric: the target's metric.
      target: its value.
      values: float[S, E], evaluations.
      costs: float[S, E] or float[E], the round of each evaluation, or its cost.
      form: the format of a cost.

    Returns:
      When the means over seeds reach the target, and the range over seeds; no range for one seed.
    """

    def first_cost(curve: np.ndarray, cost: np.ndarray) -> float:
        is_reached = metric.reached(curve, target)
        return float(cost[np.argmax(is_reached)]) if is_reached.any() else np.inf

    def cost_text(cost: float) -> str:
        return 'never' if np.isinf(cost) else format(cost, form)

    costs = np.broadcast_to(costs, values.shape)
    cost_of_mean = first_cost(values.mean(axis=0), costs.mean(axis=0))
    cost_by_seed = list(map(first_cost, values, costs))
    if len(cost_by_seed) == 1:
        return cost_text(cost_of_mean)
    least = cost_text(min(cost_by_seed))
    most = cost_text(max(cost_by_seed))
    return f'{cost_text(cost_of_mean)} ({reprs.span(least, most)})'
