"""Biases of algorithms under links with memory, by number of clients: studies/memory.md.

  python -m studies.memory                # the tables and the picture, two minutes
  python -m studies.memory --simulate     # the record of simulated points again, minutes

Half of the clients have targets 0 and p = .5, half have targets 100 and p = .3. So the optimum
is 50, and FedAvg without memory ends near 35.
"""

import csv
import functools
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from fedjax_links import (
    algorithms,
    analysis,
    local_training,
    participation,
    problems,
    simulation,
)
from fedjax_links.analysis import link_chains

FOLDER = Path(__file__).parent
RECORD = FOLDER / 'records' / 'memory.csv'
OPTIMUM = 50.0
RATE = 0.02
STEPS = 5
CUTOFF = 50
CLIENTS = (2, 4, 10, 30, 100)
TIMES = (0.0, 3.0, 10.0, 30.0, 100.0, 300.0)
CORRECTED = {
    'FedAvg known': 'fedavg_known',
    'FedAU': 'fedau',
    'FedPBC, server': 'fedpbc',
}
SIMULATED = ((2, 10.0), (10, 30.0))
WITH_MEMORY = {**CORRECTED, 'SCAFFOLD': 'scaffold', 'MIFA': 'mifa'}
SEEDS = 1000
ROUNDS = 600
# Models are averaged over evaluations after this round.
FROM_ROUND = 300
BETWEEN = 50


class End(NamedTuple):
    """Holds where a server model ends, measured from the optimum.

    Attributes:
      bias: of its mean.
      spread: its standard deviation.
    """

    bias: float
    spread: float


class Point(NamedTuple):
    """Holds a simulated point.

    Attributes:
      algorithm: its name on the page.
      num_clients: N.
      time: correlation time of the links, in rounds.
      bias: mean of the server model less the optimum.
      error: its standard error.
    """

    algorithm: str
    num_clients: int
    time: float
    bias: float
    error: float


def probs_and_targets(num_clients: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns p and u, float64[N]."""
    half = num_clients // 2
    return np.repeat([0.5, 0.3], half), np.repeat([0.0, 100.0], half)


def chain(num_clients: int, time: float) -> link_chains.LinkChain:
    """Returns links of a correlation time; of zero, links without memory."""
    probs, _ = probs_and_targets(num_clients)
    if time == 0:
        return link_chains.independent(probs)
    return link_chains.markov(probs, correlation_time=time)


@functools.cache
def end(algorithm: str, num_clients: int, time: float, rate: float = RATE) -> End:
    """Computes an exact limit. FedAU has the weights to which its estimates tend."""
    links = chain(num_clients, time)
    _, targets = probs_and_targets(num_clients)
    if algorithm == 'fedau':
        algorithm = 'fedavg_known'
        links = _with_interval_means(links)
    limit = analysis.linear_limit(algorithm, links, targets, rate, STEPS)
    spread = np.sqrt(limit.covariances['server'][0, 0])
    return End(limit.means['server'][0] - OPTIMUM, spread)


def _with_interval_means(links: link_chains.LinkChain) -> link_chains.LinkChain:
    """Replaces probabilities by inverses of mean intervals, which FedAU multiplies by."""
    kinds = []
    for kind in links.kinds:
        rates = kind.transition[0, 0, 1], kind.transition[0, 1, 0]
        mean = analysis.markov_interval_mean(*rates, CUTOFF)
        kinds.append(kind._replace(prob=np.atleast_1d(1.0 / mean)))
    return links._replace(kinds=tuple(kinds))


def first_order(algorithm: str, num_clients: int, time: float) -> float:
    """Computes the bias to first order in the rate."""
    _, targets = probs_and_targets(num_clients)
    cutoff = CUTOFF if algorithm == 'fedau' else None
    law = analysis.first_order_mean(
        algorithm, chain(num_clients, time), targets, RATE, STEPS, cutoff=cutoff
    )
    return float(law.mean[0]) - OPTIMUM


def two_rates(num_clients: int, time: float) -> float:
    """Computes the bias of 2 x(eta / 2) - x(eta) with known probabilities."""
    once = end('fedavg_known', num_clients, time)
    half = end('fedavg_known', num_clients, time, RATE / 2)
    return 2 * half.bias - once.bias


def simulate(algorithm: str, num_clients: int, time: float) -> Point:
    """Runs seeds of the engine. FedAU estimates its weights."""
    probs, targets = probs_and_targets(num_clients)
    client = local_training.local_sgd(RATE, local_steps=STEPS)
    name = WITH_MEMORY[algorithm]
    options = {'cutoff': CUTOFF} if name == 'fedau' else {}
    instance = algorithms.ALGORITHMS[name](client, **options)
    pattern = participation.markov(probs, correlation_time=time)
    problem = problems.quadratic(targets[:, None])

    def server(key: jax.Array) -> Mapping[str, jax.Array]:
        return simulation.simulate(
            key,
            instance,
            pattern,
            problem,
            num_rounds=ROUNDS,
            eval_every=BETWEEN,
            eval_fn=lambda params, key, problem: params,
        ).evals

    keys = jax.random.split(jax.random.key(0), SEEDS)
    models = np.asarray(jax.jit(jax.vmap(server))(keys)['server'], float)
    means = models[:, FROM_ROUND // BETWEEN :, 0].mean(axis=1)
    error = means.std(ddof=1) / np.sqrt(SEEDS)
    return Point(algorithm, num_clients, time, means.mean() - OPTIMUM, error)


def recorded() -> list[Point]:
    """Reads the simulated points."""
    with RECORD.open(newline='') as file:
        return [
            Point(
                row['algorithm'],
                int(row['num_clients']),
                float(row['time']),
                float(row['bias']),
                float(row['error']),
            )
            for row in csv.DictReader(file)
        ]


def record() -> None:
    """Simulates all points and writes them."""
    with RECORD.open('w', newline='') as file:
        writer = csv.writer(file, lineterminator='\n')
        writer.writerow(Point._fields)
        for num_clients, time in SIMULATED:
            for algorithm in WITH_MEMORY:
                point = simulate(algorithm, num_clients, time)
                numbers = f'{point.bias:.3f}', f'{point.error:.3f}'
                writer.writerow([algorithm, num_clients, f'{time:g}', *numbers])
                print(point, flush=True)


def bias_after_rounds(point: Point) -> float:
    """Computes what a simulated point estimates: the mean bias of its evaluations."""
    _, targets = probs_and_targets(point.num_clients)
    curve = analysis.linear_curve(
        WITH_MEMORY[point.algorithm],
        chain(point.num_clients, point.time),
        targets,
        RATE,
        STEPS,
        num_rounds=ROUNDS,
    )
    return float(curve.means['server'][FROM_ROUND::BETWEEN, 0].mean()) - OPTIMUM


def bias_table() -> str:
    """Formats biases by algorithm, clients and correlation time as Markdown."""
    lines = [
        f'| algorithm | N | {" | ".join(f"{time:g}" for time in TIMES)} |',
        f'| --- | --- {"| --- " * len(TIMES)}|',
    ]
    for name, algorithm in {'FedAvg': 'fedavg', **CORRECTED}.items():
        for num_clients in CLIENTS:
            biases = [end(algorithm, num_clients, time).bias for time in TIMES]
            lines.append(_row(name, num_clients, biases))
    for num_clients in CLIENTS:
        biases = [two_rates(num_clients, time) for time in TIMES]
        lines.append(_row('FedAvg known, two rates', num_clients, biases))
    return '\n'.join(lines)


def spread_table() -> str:
    """Formats standard deviations of the server model as Markdown."""
    lines = [
        f'| algorithm | N | {" | ".join(f"{time:g}" for time in TIMES)} |',
        f'| --- | --- {"| --- " * len(TIMES)}|',
    ]
    for name, algorithm in {'FedAvg': 'fedavg', 'FedAvg known': 'fedavg_known'}.items():
        for num_clients in (2, 10, 100):
            spreads = [end(algorithm, num_clients, time).spread for time in TIMES]
            lines.append(_row(name, num_clients, spreads))
    return '\n'.join(lines)


def _row(name: str, num_clients: int, values: list[float]) -> str:
    cells = [_two_decimals(value) for value in values]
    return f'| {name} | {num_clients} | {" | ".join(cells)} |'


def _two_decimals(value: float) -> str:
    """Writes a number with two decimals, and zero without a sign."""
    return f'{value:.2f}'.replace('-0.00', '0.00')


def rare_table() -> str:
    """Formats ends of 100 clients of which half are rarely up, p = .4 and .05."""
    targets = np.repeat([0.0, 100.0], 50)
    probs = np.repeat([0.4, 0.05], 50)
    lines = [
        '| algorithm | correlation time | bias | spread |',
        '| --- | --- | --- | --- |',
    ]
    for name, algorithm in {'FedAvg': 'fedavg', 'FedAvg known': 'fedavg_known'}.items():
        for time in (0.0, 100.0, 300.0):
            links = link_chains.independent(probs)
            if time > 0:
                links = link_chains.markov(probs, correlation_time=time)
            limit = analysis.linear_limit(algorithm, links, targets, RATE, STEPS)
            bias = limit.means['server'][0] - OPTIMUM
            spread = np.sqrt(limit.covariances['server'][0, 0])
            cell = _two_decimals(bias)
            lines.append(f'| {name} | {time:g} | {cell} | {spread:.2f} |')
    return '\n'.join(lines)


def simulated_table() -> str:
    """Formats simulated points as Markdown."""
    lines = [
        '| algorithm | N | correlation time | exact | simulated |',
        '| --- | --- | --- | --- | --- |',
    ]
    for point in recorded():
        exact = 'not known'
        if point.algorithm != 'FedAU':
            exact = _two_decimals(bias_after_rounds(point))
        lines.append(
            f'| {point.algorithm} | {point.num_clients} | {point.time:g} | {exact} '
            f'| {point.bias:.2f} ± {point.error:.2f} |'
        )
    return '\n'.join(lines)


def draw(path: Path) -> None:
    """Draws biases over the correlation time, exact, to first order and simulated."""
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(
        1, 3, figsize=(12, 3.8), sharex=True, sharey=True, layout='constrained'
    )
    times = np.geomspace(1.0, 300.0, 10)
    sizes = {'FedAvg known': CLIENTS, 'FedAU': CLIENTS, 'FedPBC, server': (2, 10, 30)}
    for panel, (name, algorithm) in zip(axes, CORRECTED.items(), strict=True):
        for num_clients in sizes[name]:
            colour = f'C{CLIENTS.index(num_clients)}'
            exact = [end(algorithm, num_clients, time).bias for time in times]
            panel.plot(times, exact, color=colour, label=f'N = {num_clients}')
            law = [first_order(algorithm, num_clients, time) for time in times]
            panel.plot(times, law, ':', color=colour, linewidth=1)
        for point in recorded():
            if point.algorithm == name:
                colour = f'C{CLIENTS.index(point.num_clients)}'
                panel.errorbar(
                    point.time, point.bias, 2 * point.error, fmt='o', color=colour
                )
        panel.axhline(0.0, color='0.4', linewidth=0.8)
        panel.set(xscale='log', title=name, xlabel='correlation time, rounds')
        panel.set_ylim(-15.5, 1.0)
    axes[0].set_ylabel('E x - x*')
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc='outside right center')
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    """Prints the tables and draws the picture."""
    if '--simulate' in sys.argv:
        record()
    tables = bias_table(), spread_table(), rare_table(), simulated_table()
    print(*tables, sep='\n\n')
    draw(FOLDER / 'memory.png')


if __name__ == '__main__':
    main()
