"""Writes predictions of final metrics as lines of text."""

from collections.abc import Mapping

from fedjax_links.preview import prediction
from fedjax_links.preview.configured_links import ConfiguredLinks


def describe(
    links: ConfiguredLinks, budget: prediction.Budget = prediction.QUICK
) -> list[str]:
    """Describes the predictions for a pattern of a config.

    Args:
      links: the pattern.
      budget: what it may compute.

    Returns:
      Lines of at most 80 columns, none where nothing can be predicted.
    """
    required = prediction.hessian_work(links.problem)
    if required and prediction.is_unequal(links):
        return [
            'no end predicted: clients weigh or step unequally, by more than their links'
        ]
    predicted = prediction.for_links(links, budget)
    too_large = f'examples x parameters^2 above {budget.hessian:.2g}'
    if predicted is None:
        is_large = required > budget.hessian
        return [f'no accuracy predicted: {too_large}'] if is_large else []
    remark = '' if predicted.exact else ', simulated links'
    lines = _reached_lines(links, predicted, remark)
    if predicted.fedavg.limit is None:
        return [*lines, f'no limit in the long run: {too_large}']
    return [*lines, *_limit_lines(predicted, remark)]


def _reached_lines(
    links: ConfiguredLinks, predicted: prediction.Predictions, remark: str
) -> list[str]:
    """Describes where both algorithms are after the run's rounds."""
    if predicted.fedavg.reached and predicted.fedpbc.reached:
        rounds = f'after {links.experiment.num_rounds:,} rounds of small steps'
        line = _ends_text(predicted.fedavg.reached, predicted.fedpbc.reached)
        return [line, f'  {rounds}{remark}']
    if links.flow_time is not None:
        time = f'{links.flow_time:.3g}'
        return [f'no end predicted: rate x steps x rounds = {time} takes too long']
    return []


def _limit_lines(predicted: prediction.Predictions, remark: str) -> list[str]:
    """Describes where both algorithms would end in the long run."""
    if predicted.fedavg.limit and predicted.fedpbc.limit:
        line = _ends_text(predicted.fedavg.limit, predicted.fedpbc.limit)
        return [line, f'  in the long run{remark}']
    return ['no limit in the long run: a linear model separates some labels']


def _ends_text(fedavg: Mapping[str, float], fedpbc: Mapping[str, float]) -> str:
    """Writes both predicted accuracies, or the first metric of a problem without accuracy."""
    both = f'{metric_text(fedavg)}, FedPBC at {metric_text(fedpbc)}'
    return f'FedAvg is expected to end at {both}'


def metric_text(metrics: Mapping[str, float]) -> str:
    """Writes the accuracy in percent, or the first metric with its name."""
    name = 'accuracy' if 'accuracy' in metrics else next(iter(metrics))
    value = metrics[name]
    return f'{100 * value:.1f} %' if name == 'accuracy' else f'{name} {value:.4g}'
