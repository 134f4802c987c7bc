"""Exact curves of FedAvg and Debiasing FedAvg by minimum separation: studies/separation.md.

  python -m studies.separation [FOLDER]

Prints the tables, and draws the picture into the folder that is named. A minute on a CPU
core. Five clients with losses ``(x - u_i)^2 / 2`` take part one at a time, and wait R rounds.
"""

import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedjax_links import analysis
from fedjax_links.analysis import link_chains

SEPARATIONS = range(5)
TARGETS = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
SELECTION = {
    'equal': np.ones(5),
    'i^-0.5': np.arange(1, 6) ** -0.5,
    'i^-1.5': np.arange(1, 6) ** -1.5,
}
ALGORITHMS = {'FedAvg': 'fedavg', 'Debiasing FedAvg': 'fedavg_known'}
RATES = 0.5 ** np.arange(1, 9)
ROUNDS = 1000
# The error is E (x - 3)^2, which is 9 at the start.
TOLERANCES = (1.0, 0.3, 0.1, 0.03)


class Limit(NamedTuple):
    """Holds where an algorithm ends.

    Attributes:
      bias: E x - 3.
      deviation: standard deviation of x.
      rounds: to a mean that is closer to its end by a factor of e.
    """

    bias: float
    deviation: float
    rounds: float


def chain(weights: np.ndarray, separation: int) -> link_chains.LinkChain:
    """Returns the selection, whose long-run law the algorithms know."""
    links = link_chains.minimum_separation(weights, separation=separation)
    modes = links.modes()
    law = modes.stationary @ modes.masks
    return link_chains.from_modes(modes.transition, modes.masks, modes.start, law)


def limit(algorithm: str, weights: np.ndarray, separation: int, rate: float) -> Limit:
    """Computes an exact limit."""
    links = chain(weights, separation)
    result = analysis.linear_limit(ALGORITHMS[algorithm], links, TARGETS, rate, 1)
    bias = result.means['server'][0] - result.optimum[0]
    deviation = np.sqrt(result.covariances['server'][0, 0])
    return Limit(bias, deviation, -1.0 / np.log(result.rate))


def errors(
    algorithm: str, weights: np.ndarray, separation: int, rate: float
) -> np.ndarray:
    """Computes ``E (x - 3)^2`` after each round, float64[ROUNDS + 1]."""
    links = chain(weights, separation)
    curve = analysis.linear_curve(
        ALGORITHMS[algorithm], links, TARGETS, rate, 1, num_rounds=ROUNDS
    )
    bias = curve.means['server'][:, 0] - curve.optimum[0]
    return bias**2 + curve.covariances['server'][:, 0, 0]


def rounds_needed(
    algorithm: str, weights: np.ndarray, separation: int
) -> tuple[float, ...]:
    """Returns the rounds to each tolerance at the best of the rates; infinite if none does."""
    needed = np.full(len(TOLERANCES), np.inf)
    for rate in RATES:
        curve = errors(algorithm, weights, separation, rate)
        for number, tolerance in enumerate(TOLERANCES):
            last = np.flatnonzero(curve > tolerance)[-1]
            # All errors of the last lap must be below, as curves swing within a lap.
            if last <= ROUNDS - len(TARGETS):
                needed[number] = min(needed[number], last + 1)
    return tuple(needed)


class Steps(NamedTuple):
    """Counts steps from R to R + 1 on random problems.

    Attributes:
      number: of all steps.
      worse: steps after which the mean squared error at the end is larger.
    """

    number: int
    worse: int


def random_steps(num_problems: int = 40) -> dict[tuple[str, float], Steps]:
    """Counts steps by algorithm and rate.

    Four to six clients with random weights and targets; one or two take part in a round.
    Rates at which Debiasing FedAvg would overshoot are left out.
    """
    rng = np.random.default_rng(0)
    sizes = ((4, 1), (5, 1), (4, 2), (6, 2))
    counts = {(name, rate): Steps(0, 0) for name in ALGORITHMS for rate in (0.02, 0.3)}
    for problem in range(num_problems):
        size, cohort = sizes[problem % len(sizes)]
        weights = rng.dirichlet(np.ones(size))
        targets = rng.normal(size=size)
        squares: dict[tuple[str, float], float] = {}
        for separation in range(size // cohort):
            links = link_chains.minimum_separation(
                weights, separation=separation, cohort_size=cohort, design='successive'
            )
            modes = links.modes()
            law = modes.stationary @ modes.masks
            known = link_chains.from_modes(
                modes.transition, modes.masks, modes.start, law
            )
            for case, steps in counts.items():
                name, rate = case
                before = squares.pop(case, None)
                if name != 'FedAvg' and rate > size * law.min():
                    continue
                end = analysis.linear_limit(ALGORITHMS[name], known, targets, rate, 1)
                bias = end.means['server'] - end.optimum
                squares[case] = float(bias @ bias + end.covariances['server'][0, 0])
                if before is not None:
                    is_worse = squares[case] > before + 1e-12
                    counts[case] = Steps(steps.number + 1, steps.worse + is_worse)
    return counts


def limit_table(rate: float = 0.05) -> str:
    """Formats the ends by R as Markdown."""
    lines = [
        '| selection | algorithm | R | bias | standard deviation | rounds per factor of e |',
        '| --- | --- | --- | --- | --- | --- |',
    ]
    for selection, weights in SELECTION.items():
        for algorithm in ALGORITHMS:
            if selection == 'equal' and algorithm != 'FedAvg':
                continue
            for separation in SEPARATIONS:
                end = limit(algorithm, weights, separation, rate)
                name = 'both' if selection == 'equal' else algorithm
                bias = end.bias if abs(end.bias) > 1e-9 else 0.0
                lines.append(
                    f'| {selection} | {name} | {separation} | {bias:.3f} '
                    f'| {end.deviation:.3f} | {end.rounds:.1f} |'
                )
    return '\n'.join(lines)


def rounds_table() -> str:
    """Formats the rounds to each tolerance as Markdown."""
    titles = [f'R = {separation}' for separation in SEPARATIONS]
    lines = [
        f'| selection, algorithm | error | {" | ".join(titles)} |',
        f'| --- | --- {"| --- " * len(titles)}|',
    ]
    cases = [('equal', 'FedAvg')] + [('i^-1.5', name) for name in ALGORITHMS]
    for selection, algorithm in cases:
        columns = [
            rounds_needed(algorithm, SELECTION[selection], r) for r in SEPARATIONS
        ]
        name = 'both' if selection == 'equal' else algorithm
        for number, tolerance in enumerate(TOLERANCES):
            cells = [
                'never' if np.isinf(c[number]) else f'{c[number]:.0f}' for c in columns
            ]
            lines.append(
                f'| {selection}, {name} | {tolerance:g} | {" | ".join(cells)} |'
            )
    return '\n'.join(lines)


def draw(path: Path) -> None:
    """Draws errors over rounds at two rates, by R."""
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(
        2, 2, figsize=(10, 6), sharex=True, sharey=True, layout='constrained'
    )
    for row, algorithm in zip(axes, ALGORITHMS, strict=True):
        for panel, rate in zip(row, (0.125, 0.03125), strict=True):
            for separation in SEPARATIONS:
                curve = errors(algorithm, SELECTION['i^-1.5'], separation, rate)
                panel.plot(
                    curve[:301], label=f'R = {separation}', color=f'C{separation}'
                )
            panel.set(yscale='log', title=f'{algorithm}, rate {rate:g}')
        row[0].set_ylabel('E (x - x*)²')
    for panel in axes[1]:
        panel.set_xlabel('round')
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc='outside right center')
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    """Prints the tables, and draws the picture into the folder that is named."""
    print(limit_table(), rounds_table(), sep='\n\n')
    for (name, rate), steps in random_steps().items():
        print(f'{name}, rate {rate}: {steps.worse} of {steps.number} steps are worse')
    if len(sys.argv) > 1:
        draw(Path(sys.argv[1]) / 'separation.png')


if __name__ == '__main__':
    main()
