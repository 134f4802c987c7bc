"""Claims of Wang and Ji 2022."""

from collections.abc import Iterator, Sequence

from studies.claim import Claim, Side, fluctuation, until

EARLY = {'statistic': until(30_000), 'part': 'first 30,000 rounds'}
"""A tenth of the runs of Wang and Ji, beside their ends."""
CONVEX = {'shows': False}
"""Ends of runs on a convex problem, where all factors and waiting share one minimiser."""
STEPS = {
    'statistic': fluctuation,
    'scale': 1.0,
    'margin': 0.0,
    'unit': 'doublings of the steps',
}
"""How far apart successive evaluations are, at the end."""


def claims() -> Iterator[Claim]:
    """Yields the claims in the order of the paper."""
    yield from _figures_1_and_d1()
    yield from _figure_2()
    yield from _figure_d2()
    yield from _figure_d3()


def _figures_1_and_d1() -> Iterator[Claim]:
    item = 'Wang and Ji 2022, Figure D.1'
    yield from _figure_d1(item, 'wang2022_figure_d1_gaussians')
    item += ' on Fashion-MNIST, half of the rounds'
    yield from _figure_d1(item, 'wang2022_figure_d1_fashion_mnist_short')
    amplified = Side('amplified', 'periodic')
    pairs = {
        'against none': (amplified, Side('plain', 'periodic')),
        'against wait-minibatch': (amplified, Side('wait_minibatch', 'periodic')),
        'against wait-full': (amplified, Side('wait_full', 'periodic')),
    }
    item = 'Wang and Ji 2022, Figure 1'
    run = 'wang2022_figure1_gaussians'
    text = 'amplification ahead of none and of waiting'
    yield Claim(item, text, run, pairs, **CONVEX)
    yield Claim(item, text, run, pairs, **EARLY)


def _figure_d1(item: str, run: str) -> Iterator[Claim]:
    pair = {'': (Side('fedavg', 'regularised'), Side('fedavg', 'independent'))}
    text = 'regularised and independent participation similar'
    yield Claim(item, text, run, pair, ordered=False)
    yield Claim(item, 'regularised participation marginally ahead', run, pair)


def _figure_2() -> Iterator[Claim]:
    item = 'Wang and Ji 2022, Figure 2'
    run = 'wang2022_figure2_gaussians'
    plain = Side('plain', 'periodic')
    pairs = {
        f'P = {5 * percent}': (Side(f'period{percent}', 'periodic'), plain)
        for percent in (20, 50, 70)
    }
    text = 'amplification helps with P below the cycle'
    yield Claim(item, text, run, pairs, **CONVEX)
    yield Claim(item, text, run, pairs, **EARLY)


def _figure_d2() -> Iterator[Claim]:
    item = 'Wang and Ji 2022, Figure D.2'
    run = 'wang2022_figure_d2_gaussians'
    smallest = {'1e-5': (Side('amplified', 'rate4'), Side('plain', 'rate4'))}
    text = 'at the smallest local rate amplification ahead'
    yield Claim(item, text, run, smallest)
    yield Claim(item, text, run, smallest, **EARLY)
    unstable = {
        'factor 1': (Side('plain', 'rate2'), Side('plain', 'rate0')),
        '10': (Side('amplified', 'rate2'), Side('amplified', 'rate0')),
    }
    yield Claim(item, 'large local rates unstable: 0.001 ahead of 0.1', run, unstable)


def _figure_d3() -> Iterator[Claim]:
    item = 'Wang and Ji 2022, Figure D.3'
    run = 'wang2022_figure_d3_gaussians'
    worse = _by_factor(10, (2, 20))
    similar = _by_factor(10, (5, 15))
    worse_text = 'factors 2 and 20 worse than 10'
    similar_text = 'factors 5, 10 and 15 similar, especially near convergence'
    yield Claim(item, worse_text, run, worse, **CONVEX)
    yield Claim(item, similar_text, run, similar, ordered=False)
    yield Claim(item, worse_text, run, worse, **EARLY)
    yield Claim(item, similar_text, run, similar, **EARLY, ordered=False)
    rough = _by_factor(20, (5, 10, 15))
    for metric, name in (('train_loss', 'loss'), ('eval_accuracy', 'accuracy')):
        text = f'factor 20 fluctuates more in {name}'
        yield Claim(item, text, run, rough, metric=metric, **STEPS)


def _by_factor(first: int, others: Sequence[int]) -> dict[str, tuple[Side, Side]]:
    """Pairs an amplification factor with others."""
    side = Side(f'eta{first:02d}', 'periodic')
    return {
        f'{first} over {other}': (side, Side(f'eta{other:02d}', 'periodic'))
        for other in others
    }
