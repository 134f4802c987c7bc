"""What tuning chose beside printed rates, and what a printed grid of rates would give."""

from collections.abc import Iterator, Mapping

import numpy as np

from fedjax_links import evaluation
from studies.claim import LEVEL, link, read

FIGURE_3 = 'xiang2023_figure3'
PRINTED_GRID = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5)
"""Of Xiang et al. 2023, Figure 3; its dots are read as 0.05."""


def rates(
    item: str, run: str, printed: Mapping[str, float], minutes: Mapping[str, str]
) -> str:
    """Formats the line of local rates that tuning chose, beside printed ones.

    An arrow marks a rate at the upper or lower edge of those tried.

    Args:
      item: table of the paper.
      run: the archive.
      printed: rates by algorithm.
      minutes: what the runs cost, by archive.
    """
    columns = read(run)
    tuning = columns['stage'] == 'tuning'
    chosen = {}
    here = []
    for name in printed:
        is_algorithm = columns['algorithm'] == name
        values = columns['client.learning_rate']
        rate = float(values[is_algorithm & ~tuning][-1])
        chosen[name] = rate
        tried = values[is_algorithm & tuning]
        edge = ''
        if rate == tried.max():
            edge = ' ↑'
        elif rate == tried.min():
            edge = ' ↓'
        here.append(f'{name} {rate:g}{edge}')
    equal = sum(chosen[name] == rate for name, rate in printed.items())
    text = '; '.join(f'{name} {rate:g}' for name, rate in printed.items())
    seeds = len(np.unique(columns['seed'][tuning]))
    verdict = (
        f'equal {equal} of {len(printed)}, by {seeds} seed{"s" if seeds > 1 else ""}'
    )
    report = link(run, minutes)
    return f'| {item} | best local rates: {text} | {report} | {"; ".join(here)} | {verdict} |'


def same_rates(item: str, run: str, printed: float, minutes: Mapping[str, str]) -> str:
    """Formats the line that one rate is the best on both patterns of a search."""
    columns = read(run)
    main = columns['stage'] == 'main'
    chosen = {
        str(pattern): float(
            columns['client.learning_rate'][main & (columns['pattern'] == pattern)][-1]
        )
        for pattern in np.unique(columns['pattern'])
    }
    here = '; '.join(f'{pattern} {rate:g}' for pattern, rate in chosen.items())
    is_same = len(set(chosen.values())) == 1
    verdict = 'holds, by 1 seed' if is_same else 'reversed, by 1 seed'
    if printed not in chosen.values():
        verdict += f'; another rate than for FashionMNIST ({printed:g})'
    text = 'the best initial rate is the same for independent and regularised participation'
    return f'| {item} | {text} | {link(run, minutes)} | {here} | {verdict} |'


def tuned_ends(pattern: str, algorithm: str, model: str) -> dict[float, np.ndarray]:
    """Reads the losses at the end of tuning of Figure 3, by rate: float[S], by seed."""
    columns = read(FIGURE_3)
    is_tuning = columns['stage'] == 'tuning'
    is_tuning &= (columns['pattern'] == pattern) & (columns['algorithm'] == algorithm)
    is_tuning &= columns['round'] == columns['round'][is_tuning].max()
    order = np.argsort(columns['seed'][is_tuning], kind='stable')
    losses = columns[f'{model}/train_loss'][is_tuning][order]
    tried = columns['client.learning_rate'][is_tuning][order]
    return {float(rate): losses[tried == rate] for rate in np.unique(tried)}


def printed_grid(minutes: Mapping[str, str]) -> str:
    """Formats the line of FedPBC beside FedAvg, each at its best of the printed rates."""
    parts = []
    verdicts = set()
    for name, pattern in (('3a', 'invariant'), ('3b', 'varying')):
        best_rates = {}
        losses = {}
        for algorithm, model in (('fedavg', 'server'), ('fedpbc', 'client_mean')):
            ends = tuned_ends(pattern, algorithm, model)
            printed_ends = {rate: ends[rate] for rate in PRINTED_GRID if rate in ends}
            mean_losses = {rate: values.mean() for rate, values in printed_ends.items()}
            best_rates[algorithm] = min(mean_losses, key=mean_losses.__getitem__)
            losses[algorithm] = printed_ends[best_rates[algorithm]]
        differences = 1000 * (losses['fedavg'] - losses['fedpbc'])
        interval = evaluation.seed_interval(differences)
        parts.append(
            f'{name}: FedPBC at {best_rates["fedpbc"]:g}, FedAvg at {best_rates["fedavg"]:g}, '
            f'{float(interval.mean):+.0f} ± {float(interval.half_width):.0f}'
        )
        decided = evaluation.p_value(differences) < LEVEL and differences.mean() > 0
        verdicts.add('holds' if decided else 'cannot be told')
    text = 'FedPBC below FedAvg, each at its best of the printed rates'
    numbers = '; '.join(parts) + ' thousandths of loss after 500 rounds of tuning'
    verdict = ', '.join(sorted(verdicts))
    verdict += ', by 3 seeds; 0.05 to 0.5 were not run, the loss grows from 0.005 on'
    run = link(FIGURE_3, minutes)
    return f'| Xiang et al. 2023, Figure 3 | {text} | {run} | {numbers} | {verdict} |'


def lines(
    table_d1: str, printed: Mapping[str, float], minutes: Mapping[str, str]
) -> Iterator[str]:
    """Yields all lines about rates."""
    yield rates('Wang and Ji 2022, Table D.1', table_d1, printed, minutes)
    yield same_rates(
        'Wang and Ji 2022, D.1', 'wang2022_initial_rates_gaussians', 0.1, minutes
    )
    yield printed_grid(minutes)
