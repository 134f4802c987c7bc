"""Sets the theorems of four papers beside the runs in these papers, as a table and a picture.

  python -m studies.tightness [FOLDER]

It takes a few seconds on one CPU core. Without a folder it prints only the table.
"""

import math
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedjax_links import analysis
from fedjax_links.analysis.theorems import (
    gradient_runs,
    problem_constants,
    regularity,
    sun2025,
    wang2022,
    xiang2024,
)

SUN_ROUNDS = 20_000


class Row(NamedTuple):
    """Describes a setting of a paper beside its theorem.

    Attributes:
      setting: which run of which paper.
      rate_used: the local rate that the paper used; NaN if it prints none.
      rate_cap: the largest rate that the theorem covers.
      exact_at_used: the mean squared gradient norm of the paper's run; NaN if unknown.
      bound_at_cap: the theorem's bound at the largest rate and the paper's number of rounds.
      exact_at_cap: the mean squared gradient norm of such a run.
      broken: the first assumption that the paper's run breaks.
    """

    setting: str
    rate_used: float
    rate_cap: float
    exact_at_used: float
    bound_at_cap: float
    exact_at_cap: float
    broken: str


def rows() -> list[Row]:
    """Computes every row."""
    settings = [
        ('Xiang 2023, Figure 2, p .1/.9', 'xiang2023', 0.1, 30, 4000, 3e-4),
        ('Xiang 2023, Figure 2, p .5/.5', 'xiang2023', 0.5, 30, 4000, 3e-4),
        ('Xiang 2024, Figure 3, p .1/.9', 'xiang2024', 0.1, 100, 2500, 1e-4),
        ('Xiang 2024, Figure 3, p .5/.5', 'xiang2024', 0.5, 100, 2500, 1e-4),
    ]
    results = [_fedpbc(*setting) for setting in settings]
    results.append(_networks())
    results.append(_toy('Wang 2022, Figure B.1, gamma .5', 1, 0.5, 1.0))
    results.append(_toy('Wang 2022, Figure B.1, gamma .05', 1, 0.05, 1.0))
    results.append(_toy('Wang 2022, Figure B.2, eta 10', 3, 0.05, 10.0))
    results.append(_separation())
    return results


def _fedpbc(
    setting: str, theorem: str, first: float, steps: int, rounds: int, rate: float
) -> Row:
    """Bounds FedPBC on the papers' counterexample: N = d = 100, half of the links at each p."""
    noise = np.random.default_rng(0).normal(scale=0.1, size=(100, 100))
    targets = np.arange(1, 101)[:, None] / 1000 + noise
    constants = problem_constants.quadratic_constants(targets)
    probs = np.repeat([first, 1.0 - first], 50)
    run = analysis.TheoremRun(
        rate,
        steps,
        rounds,
        realised=_client_mean(constants.initial_gap, rate, steps, rounds),
        rounds_are_independent=True,
        mixing_rate=analysis.mixing_rate(probs),
    )
    used = analysis.check_theorem(theorem, constants, run)
    covered = used.rate_cap
    broken = used.first_broken
    at_cap = rounds
    if theorem == 'xiang2023':  # It ties the rate to the rounds: eta = sqrt(m / (s T)).
        at_cap = math.ceil(100 / (steps * covered**2))
    bound = analysis.check_theorem(
        theorem, constants, run._replace(learning_rate=covered, num_rounds=at_cap)
    ).bound
    return Row(
        setting,
        rate,
        covered,
        used.realised,
        bound,
        _client_mean(constants.initial_gap, covered, steps, at_cap),
        'none' if broken is None else broken.statement,
    )


def _client_mean(gap: float, rate: float, steps: int, rounds: int) -> float:
    """Averages ||xbar^t - x*||^2 over rounds; it falls by (1 - eta)^(2 s) in a round."""
    per_round = -2.0 * steps * math.log1p(-rate)
    total = -math.expm1(-per_round * rounds) / -math.expm1(-per_round)
    return 2.0 * gap * total / rounds


def _networks() -> Row:
    """Bounds the journal's image classifiers: the cap at the least L that the theorem allows."""
    rho = analysis.mixing_rate(np.full(100, 0.02))
    cap = xiang2024.step_size_cap(smoothness=1.0, local_steps=5, mixing_rate=rho)
    rate_used = 5e-4
    unknown = math.nan
    setting = 'Xiang 2024, Table 1, p >= .02, L = 1'
    broken = 'rate at most the cap'
    return Row(setting, rate_used, cap, unknown, unknown, unknown, broken)


def _toy(setting: str, period: int, rate: float, amplification: float) -> Row:
    """Runs three clients in turn on the plane, 15 rounds, one local step."""
    targets = np.array([[-1.0, 0.0], [1.0, 0.0], [0.0, 3**0.5]])
    start = [1.0, 2.0]
    masks = np.eye(3, dtype=bool)[np.arange(15) % 3]
    constants = problem_constants.quadratic_constants(targets, initial_point=start)
    differences = constants.gradient_differences
    assert differences is not None
    weights = regularity.participation_weights(masks)
    pattern = regularity.pattern_constants(weights, differences, period)
    caps = {'smoothness': 1.0, 'local_steps': 1, 'period': period}
    cap = wang2022.local_rate_cap(**caps)
    rates = {rate: amplification, cap: wang2022.rate_product_cap(**caps) / cap}
    checks = []
    for gamma, eta in rates.items():
        clients = gradient_runs.quadratic_clients(
            targets, gamma, 1, initial_point=start
        )
        squares = gradient_runs.amplified_fedavg_gradient_squares(
            masks, clients, period=period, amplification=eta
        )
        run = analysis.TheoremRun(
            gamma,
            1,
            15,
            realised=float(squares[::period].mean()),
            period=period,
            amplification=eta,
            pattern=pattern,
        )
        checks.append(analysis.check_theorem('wang2022', constants, run))
    used, covered = checks
    broken = used.first_broken
    return Row(
        setting,
        rate,
        cap,
        used.realised,
        covered.bound,
        covered.realised,
        'none' if broken is None else broken.statement,
    )


def _separation() -> Row:
    """Bounds FedAvg on the three quadratics of Sun et al., Proposition 3."""
    weights = [0.25, 0.25, 0.5]
    targets = np.array([1.0, 2.0, 3.0])
    chain = analysis.minimum_separation_chain(weights, 1)
    constants = problem_constants.quadratic_constants(targets)
    lag = sun2025.least_lag(chain)
    assert lag is not None
    cap = sun2025.theorem4_rate(
        sun2025.theorem4_scale_cap(smoothness=1.0, lag=lag),
        smoothness=1.0,
        local_steps=1,
    )
    realised = _mean_square(chain, targets, cap)
    run = analysis.TheoremRun(
        cap, 1, SUN_ROUNDS, realised=realised, chain=chain, largest_gradient=2.0
    )
    results = analysis.check_theorem('sun2025', constants, run)
    setting = f'Sun 2025, Proposition 3, T = {SUN_ROUNDS:,}'
    return Row(setting, math.nan, cap, math.nan, results.bound, realised, 'none')


def _mean_square(
    chain: analysis.MinimumSeparationChain, targets: np.ndarray, rate: float
) -> float:
    """Averages E (x_t - 2)^2 over rounds from 0, by the moments given the state of the chain."""
    pulled = targets[np.argmax(chain.states, axis=1)]
    move = chain.transition.toarray()
    law = chain.stationary
    mean = 0.0 * law
    square = 0.0 * law
    total = 0.0
    for _ in range(SUN_ROUNDS):
        total += square.sum() - 4.0 * mean.sum() + 4.0
        flow = mean @ move
        flow_square = square @ move
        mean = (1.0 - rate) * flow + rate * pulled * law
        square = (1.0 - rate) ** 2 * flow_square
        square = square + 2.0 * rate * (1.0 - rate) * pulled * flow
        square = square + rate**2 * pulled**2 * law
    return float(total) / SUN_ROUNDS


def table(rows: list[Row]) -> str:
    """Formats rows as Markdown."""
    lines = [
        '| setting | rate used | largest covered | used / covered | run of the paper, exact '
        '| bound at the largest rate | exact there | bound / exact | broken first |',
        '| --- | --- | --- | --- | --- | --- | --- | --- | --- |',
    ]
    for row in rows:
        numbers = (
            row.rate_used,
            row.rate_cap,
            row.rate_used / row.rate_cap,
            row.exact_at_used,
            row.bound_at_cap,
            row.exact_at_cap,
            row.bound_at_cap / row.exact_at_cap,
        )
        cells = ['' if math.isnan(number) else f'{number:.2g}' for number in numbers]
        lines.append(f'| {row.setting} | {" | ".join(cells)} | {row.broken} |')
    return '\n'.join(lines)


def draw(rows: list[Row], path: Path) -> None:
    """Draws how far rates are above caps, and bounds above exact values."""
    from matplotlib import pyplot as plt

    names = [row.setting for row in rows]
    positions = np.arange(len(rows))
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.2), sharey=True, layout='tight')
    axes[0].barh(positions, [row.rate_used / row.rate_cap for row in rows], color='C0')
    axes[1].barh(
        positions, [row.bound_at_cap / row.exact_at_cap for row in rows], color='C1'
    )
    for panel, label in zip(
        axes, ('rate used / largest rate covered', 'bound / exact value'), strict=True
    ):
        panel.set_xscale('log')
        panel.axvline(1.0, color='0.4', linewidth=0.8)
        panel.set_xlabel(label)
    axes[0].set_yticks(positions, names)
    axes[0].invert_yaxis()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    """Prints the table, and draws the picture into the folder that is named."""
    results = rows()
    print(table(results))
    if len(sys.argv) > 1:
        draw(results, Path(sys.argv[1]) / 'tightness.png')


if __name__ == '__main__':
    main()
