"""What the papers say of links and constants, beside exact values: no run is needed.

python -m studies.computed

Prints the rows of docs/papers.md that name this file. `python -m studies.claims` prints them too.
"""

from collections.abc import Callable, Iterator

import numpy as np

from fedjax_links import analysis
from fedjax_links.analysis.theorems import link_marginals, mixing_rates, mixing_times

NUM_CLIENTS = 100
LEAST = 0.02
"""Of Xiang et al. 2024, section 7.2: how many clients, and the least probability, delta."""
GAMMA = 0.4
PERIOD = 40
"""Of its sine: the amplitude, and rounds of a period."""
FIGURE_6 = 0.01, 0.1, 0.5, 0.9
"""The probabilities of its Figure 6."""
UP_RATE = 0.05
"""Of its Markov links: the rate at which they come up, unless that leaves no rate down."""
POWER = 1.5
"""Of Sun et al. 2025, section 6: weights of clients or groups fall as ``i^-1.5``."""
SETTLED = 10_000
"""Rounds after which the largest expected staleness of these links does not grow any more."""
RUN = '`studies/computed.py`'


def sine(prob: float) -> np.ndarray:
    """Computes a probability in each round of a period, float64[40]."""
    rounds = np.arange(PERIOD)
    swing = (1 - GAMMA) + GAMMA * np.sin(2 * np.pi * rounds / PERIOD)
    return np.minimum(1, prob * swing)


def staleness(probs: np.ndarray) -> float:
    """Computes the largest expected ``t - tau(t)`` under probabilities that repeat, [T]."""
    rounds = np.resize(probs, SETTLED)
    return float(mixing_rates.expected_staleness(rounds[:, None]).max())


def markov_fraction(probs: np.ndarray) -> float:
    """Computes the fraction of rounds in which a Markov link is up, in the long run.

    The rates are those of Xiang et al. 2024, Figure 7: up 0.05 and down ``0.05 (1 - p) / p``; up
    ``p / (1 - p)`` and down 1 where that exceeds one. They follow the probability of the round.

    Args:
      probs: float[T], in (0, 1), the probability in each round of a period.
    """
    down = UP_RATE * (1 - probs) / probs
    up = np.where(down > 1, probs / (1 - probs), UP_RATE)
    down = np.minimum(1, down)

    marginals = link_marginals.periodic_markov_marginals(up[:, None], down[:, None])
    return float(marginals.mean())


def mixing_time(weights: np.ndarray, separation: int) -> int | None:
    """Computes tau_mix of the windows of a minimum separation, one client a round."""
    chain = analysis.minimum_separation_chain(weights, separation)
    return mixing_times.mixing_time(chain.transition, chain.stationary)


def gossip(prob: float) -> str:
    """Formats ``1 - rho`` of equal clients, and its lower bound."""
    probs = np.full(NUM_CLIENTS, prob)
    exact = analysis.mixing_rate(probs)
    bound = analysis.mixing_rate_bound(probs)
    return f'{1 - exact:.2g}, {1 - bound:.2g}'


def cohort_gossip(num_clients: int, cohort_size: int) -> tuple[float, float]:
    """Computes rho of k clients chosen uniformly of m, and the printed bound."""
    exact = mixing_rates.uniform_cohort_mixing_rate(num_clients, cohort_size)
    bound = mixing_rates.uniform_cohort_mixing_rate_bound(num_clients, cohort_size)
    return exact, bound


def _row(item: str, text: str, numbers: str, verdict: str) -> str:
    return f'| {item} | {text} | {RUN} | {numbers} | {verdict} |'


def _staleness_row() -> str:
    swinging = sine(LEAST)
    numbers = '; '.join(
        f'{name} {staleness(probs):.1f} of {1 / probs.min():.0f}'
        for name, probs in (
            ('a probability that stays', np.array([LEAST])),
            ('with the sine', swinging),
        )
    )
    return _row(
        'Xiang et al. 2024, Proposition 2',
        'the expected staleness is at most 1 / c',
        f'delta = {LEAST}: {numbers}',
        'holds; reached by a probability that stays',
    )


def _gossip_row() -> str:
    numbers = '; '.join(f'p = {p:g}: {gossip(p)}' for p in (LEAST, 0.1, 0.5))
    return _row(
        'Xiang et al. 2024, Lemma 3',
        'rho, by which a round of gossip contracts, is at most 1 - c^4 [1 - (1 - c)^m]^2 / 8',
        f'1 - rho and its bound, 100 clients: {numbers}',
        'holds, far from tight',
    )


def _cohort_gossip_row() -> str:
    parts = []
    for cohort_size in (1, 2, 3, 6):
        exact, bound = cohort_gossip(6, cohort_size)
        parts.append(f'k = {cohort_size}: {exact:.4g} against {bound:.4g}')
    return _row(
        'Xiang et al. 2024, Lemma 3',
        'with k of m clients in each round, rho is at most 1 - (k / m)^2 / 8',
        f'6 clients: {"; ".join(parts)}',
        'false for k = 1, where a round changes nothing; holds from k = 2 on',
    )


def fractions_up() -> dict[str, list[float]]:
    """Computes how often the links of Figure 6 are up: by kind, for each of its probabilities."""
    kinds: dict[str, Callable[[float], float]] = {
        'Bernoulli': lambda p: p,
        'Bernoulli, sine': lambda p: float(sine(p).mean()),
        'Markov': lambda p: markov_fraction(np.array([p])),
        'Markov, sine': lambda p: markov_fraction(sine(p)),
    }
    return {kind: [compute(p) for p in FIGURE_6] for kind, compute in kinds.items()}


def _figure_6_rows() -> Iterator[str]:
    item = 'Xiang et al. 2024, Figure 6'
    numbers = {
        kind: ', '.join(f'{fraction:.3f}' for fraction in by_prob)
        for kind, by_prob in fractions_up().items()
    }
    fractions = 'fractions of rounds up for p = 0.01, 0.1, 0.5, 0.9'
    yield _row(
        item,
        'links are up less often with the sine (b) than without (a)',
        f'{fractions}: {numbers["Bernoulli"]} without; {numbers["Bernoulli, sine"]} with it',
        'holds',
    )
    yield _row(
        item,
        'links are up even less often if they are Markov, (c) and (d)',
        f'{fractions}: {numbers["Markov"]} in (c); {numbers["Markov, sine"]} in (d)',
        '(c): reversed, they are up as often as in (a) and more often than in (b); (d): holds for '
        'p = 0.5 and 0.9, equal below',
    )


def _mixing_rows() -> Iterator[str]:
    ranks = np.arange(1.0, 7.0)
    parts = []
    for name, weights in (('equal weights', ranks**0), ('i^-1.5', ranks**-POWER)):
        times = [mixing_time(weights, separation) for separation in range(5)]
        parts.append(f'{name}: {", ".join(map(str, times))}')
    yield _row(
        'Sun et al. 2025, section 6 and appendix I',
        'larger R has a smaller mixing time tau_mix (a conjecture)',
        f'6 clients, B = 1, R = 0 to 4, rounds: {"; ".join(parts)}',
        'reversed, for these two kinds of weights; '
        '[errors by R](../studies/separation.md)',
    )


def neighbourhood(cohort_size: int, num_clients: int = 500) -> list[float]:
    """Computes the L1 distance of pi_R to uniform at R = 0, near M / 2, and M - 2; M = N / B."""
    weights = np.arange(1.0, num_clients + 1) ** -POWER
    curve = analysis.minimum_separation_curve(weights, cohort_size)
    distances = np.abs(curve - 1 / num_clients).sum(axis=1)
    last = len(curve) - 1
    return [float(distances[row]) for row in (0, last // 2, last - 1)]


def _neighbourhood_row() -> str:
    parts = []
    for cohort_size in (1, 10, 50):
        shown = ', '.join(f'{distance:.3f}' for distance in neighbourhood(cohort_size))
        parts.append(f'B = {cohort_size}: {shown}')
    return _row(
        'Sun et al. 2025, Theorem 2',
        'pi_R comes within a multiple of 1 / N of uniform as R grows, with large B too',
        'distance (L1) at R = 0, about M / 2, and M - 2 for 500 clients with weights i^-1.5, '
        'M = 500 / B: ' + '; '.join(parts),
        'holds; one lap before the end the distance is below B / N, so more for larger B',
    )


def rows() -> Iterator[str]:
    """Yields the lines of the table, as docs/papers.md has them."""
    yield _staleness_row()
    yield _gossip_row()
    yield _cohort_gossip_row()
    yield from _figure_6_rows()
    yield from _mixing_rows()
    yield _neighbourhood_row()


if __name__ == '__main__':
    print('\n'.join(rows()))
