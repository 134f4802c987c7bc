"""Claims of Sun et al. 2025."""

from collections.abc import Iterator, Mapping, Sequence

from studies.claim import Claim, Side

Pair = tuple[str, str]
Pairs = dict[str, tuple[Side, Side]]

NAMES = {
    'debiased_fedavg': 'Debiasing FedAvg',
    'fedvarp': 'FedVARP',
    'fedavg': 'FedAvg',
}
TABLE_PATTERNS = {'R = 5': 'R05', 'R = 10': 'R10', 'R = 15': 'R15'}
FIGURE_PATTERNS = {'R = 5': 'R05', 'R = 8': 'R08'}
SPEED = {'target': 1.15, 'part': 'to a loss of 1.15', 'unit': 'doublings of the rounds'}
"""A loss between start and end of every curve of Figure 3; our choice."""
LOSS = {
    'metric': 'train_loss',
    'sign': -1,
    'scale': 1000.0,
    'unit': 'thousandths of loss',
}
PRINTED_TEST_LEADS = {
    ('debiased_fedavg', 'fedavg'): '6.2, 6.1, 4.0',
    ('debiased_fedavg', 'fedvarp'): '5.8, 5.5, 1.6',
    ('fedvarp', 'fedavg'): '0.4, 0.6, 2.4',
}
"""By who leads whom, in test accuracy, from Table 1."""
PRINTED_TRAINING_LEADS = {
    ('debiased_fedavg', 'fedavg'): '4.4, 6.2, 7.3',
    ('debiased_fedavg', 'fedvarp'): '2.6, 4.0, 3.4',
    ('fedvarp', 'fedavg'): '1.8, 2.2, 3.9',
}


def claims() -> Iterator[Claim]:
    """Yields the claims in the order of the paper."""
    yield from _figure_2()
    yield from _table_1()
    yield from _figure_3()
    yield from _figure_3_on_mnist()


def _figure_2() -> Iterator[Claim]:
    run = 'sun2025_figure2'
    loss = {'metric': 'loss', 'sign': -1, 'scale': 1e5, 'unit': '1e-5 of loss'}
    yield Claim(
        'Sun et al. 2025, Figure 2a',
        'FedAvg ends at a lower loss for larger R',
        run,
        _by_separation('fedavg', ((0, 5), (5, 10), (10, 15), (15, 19))),
        **loss,
    )
    patterns = {f'R = {n}': f'R{n:02d}' for n in (0, 5, 10, 15, 19)}
    yield Claim(
        'Sun et al. 2025, Figure 2b',
        'Debiasing FedAvg ends at the loss of uniform sampling',
        run,
        _against_uniform('debiased_fedavg', patterns),
        **loss,
        ordered=False,
    )


def _table_1() -> Iterator[Claim]:
    yield from _leads('test', 'eval_accuracy', PRINTED_TEST_LEADS)
    training = 'training, as in Figure 4'
    yield from _leads(training, 'train_accuracy', PRINTED_TRAINING_LEADS)


def _leads(part: str, metric: str, printed: Mapping[Pair, str]) -> Iterator[Claim]:
    """Makes the claims of one kind of accuracy."""
    item = 'Sun et al. 2025, Table 1'
    run = 'sun2025_table1_gaussians'
    for (first, second), points in printed.items():
        text = f'{part}: {NAMES[first]} ahead of {NAMES[second]}, by {points} points'
        pairs = _between(first, second, TABLE_PATTERNS)
        yield Claim(item, text, run, pairs, metric=metric, shows=False)
    gain = {'15 over 5': (Side('fedavg', 'R15'), Side('fedavg', 'R05'))}
    yield Claim(item, f'{part}: FedAvg gains with R', run, gain, metric=metric)


def _figure_3() -> Iterator[Claim]:
    run = 'sun2025_figure3_gaussians'
    steps = ((0, 5), (5, 10), (10, 15))
    yield Claim(
        'Sun et al. 2025, Figure 3a',
        'Debiasing FedAvg reaches the loss of uniform sampling',
        run,
        _against_uniform('debiased_fedavg', TABLE_PATTERNS),
        **LOSS,
        ordered=False,
    )
    yield Claim(
        'Sun et al. 2025, Figure 3b',
        "FedAvg's loss is lower for larger R",
        run,
        _by_separation('fedavg', steps),
        **LOSS,
    )
    for letter, algorithm in (('a', 'debiased_fedavg'), ('b', 'fedavg')):
        item = f'Sun et al. 2025, Figure 3{letter}'
        text = f'{NAMES[algorithm]} converges faster for larger R'
        pairs = _by_separation(algorithm, steps)
        yield Claim(item, text, run, pairs, metric='train_loss', sign=-1, **SPEED)
    for algorithm in ('fedavg', 'fedvarp'):
        yield Claim(
            'Sun et al. 2025, Figure 3c',
            f'Debiasing FedAvg below {NAMES[algorithm]}',
            run,
            _between('debiased_fedavg', algorithm, FIGURE_PATTERNS),
            **LOSS,
            shows=False,
        )


def _figure_3_on_mnist() -> Iterator[Claim]:
    """Yields the claims of a part of the figure, on the paper's data."""
    run = 'sun2025_figure3_mnist_short'
    pattern = {'R = 5': 'R05'}
    item = 'Sun et al. 2025, Figure 3{} on MNIST, half of the rounds'
    yield Claim(
        item.format('a'),
        'Debiasing FedAvg reaches the loss of uniform sampling',
        run,
        _against_uniform('debiased_fedavg', pattern),
        **LOSS,
        ordered=False,
    )
    yield Claim(
        item.format('b'),
        "FedAvg's loss is lower for larger R",
        run,
        _by_separation('fedavg', ((0, 5),)),
        **LOSS,
    )
    yield Claim(
        item.format('c'),
        'Debiasing FedAvg below FedAvg',
        run,
        _between('debiased_fedavg', 'fedavg', pattern),
        **LOSS,
    )


def _between(first: str, second: str, patterns: Mapping[str, str]) -> Pairs:
    """Pairs two algorithms under each pattern."""
    return {label: (Side(first, p), Side(second, p)) for label, p in patterns.items()}


def _against_uniform(algorithm: str, patterns: Mapping[str, str]) -> Pairs:
    """Pairs an algorithm under each pattern with FedAvg under uniform sampling."""
    uniform = Side('fedavg', 'uniform')
    return {label: (Side(algorithm, p), uniform) for label, p in patterns.items()}


def _by_separation(algorithm: str, steps: Sequence[tuple[int, int]]) -> Pairs:
    """Pairs a larger minimum separation R with a smaller one."""
    pairs = {}
    for smaller, larger in steps:
        sides = Side(algorithm, f'R{larger:02d}'), Side(algorithm, f'R{smaller:02d}')
        pairs[f'R = {larger} over {smaller}'] = sides
    return pairs
