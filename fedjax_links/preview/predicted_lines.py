"""Writes predictions of final metrics as lines of text."""

from collections.abc import Mapping

from fedjax_links.preview import covered_runs, prediction
from fedjax_links.preview.configured_links import ConfiguredLinks


def describe(
    links: ConfiguredLinks, budget: prediction.Budget = prediction.QUICK
) -> list[str]:
    """Describes the predictions for a pattern of a config.

    Args:
      links: the pattern.
      budget: how much the predictions may compute.

    Returns:
      The predictions, or why there are none; no lines for a problem that no prediction covers, or
      if no client is ever active.
    """
    if prediction.hessian_work(links.problem) == 0:
        return []
    why_unpredicted = covered_runs.reason_unpredicted(links)
    if why_unpredicted:
        return [f'no end predicted: {why_unpredicted}']
    too_large = f'examples x parameters^2 above {budget.hessian:.2g}'
    if not prediction.is_affordable(links, budget):
        return [f'no accuracy predicted: {too_large}']
    predicted = prediction.for_links(links, budget)
    if predicted is None:
        return []
    why_biased = covered_runs.reason_client_mean_is_biased(links)
    by_name = {'FedAvg': predicted.fedavg}
    if not why_biased:
        by_name['FedPBC'] = predicted.fedpbc
    remark = '' if predicted.exact else ', simulated links'
    if links.differs_by_seed:
        remark += ', for the first seed'
    lines = _reached_lines(links, by_name, remark)
    if predicted.fedavg.limit is None:
        lines.append(f'no limit in the long run: {too_large}')
    else:
        lines += _limit_lines(by_name, remark)
    if why_biased:
        lines.append(f'no end of FedPBC predicted: {why_biased}')
    return lines


def _reached_lines(
    links: ConfiguredLinks, by_name: Mapping[str, prediction.Prediction], remark: str
) -> list[str]:
    """Describes the metrics of algorithms after the run's rounds."""
    reached = {name: predicted.reached for name, predicted in by_name.items()}
    if all(reached.values()):
        rounds = f'after {links.experiment.num_rounds:,} rounds of small steps'
        return [_ends_text(reached), f'  {rounds}{remark}']
    if links.flow_time is not None:
        time = f'{links.flow_time:.3g}'
        return [f'no end predicted: rate x steps x rounds = {time} takes too long']
    return []


def _limit_lines(
    by_name: Mapping[str, prediction.Prediction], remark: str
) -> list[str]:
    """Describes the metrics that algorithms would end at in the long run."""
    limits = {name: predicted.limit or {} for name, predicted in by_name.items()}
    if all(limits.values()):
        return [_ends_text(limits), f'  in the long run{remark}']
    return ['no limit in the long run: a linear model separates some labels']


def _ends_text(metrics_by_name: Mapping[str, Mapping[str, float]]) -> str:
    """Writes predicted accuracies, or the first metric of a problem without accuracy."""
    texts = {name: metric_text(metrics) for name, metrics in metrics_by_name.items()}
    first, *others = texts
    ends = [f'{first} is expected to end at {texts[first]}']
    ends += [f'{name} at {texts[name]}' for name in others]
    return ', '.join(ends)


def metric_text(metrics: Mapping[str, float]) -> str:
    """Writes the accuracy in percent, or the first metric with its name."""
    name = 'accuracy' if 'accuracy' in metrics else next(iter(metrics))
    value = metrics[name]
    return f'{100 * value:.1f} %' if name == 'accuracy' else f'{name} {value:.4g}'
