"""Computes FedAvg's loss over label-dependent links by boundaries of classes: boundary.md.

python -m studies.boundary                # the table and the picture, from the record
python -m studies.boundary --simulate     # the record again, studies/records/boundary.csv
python -m studies.boundary --digits       # the table of digits
"""

import csv
import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from matplotlib import pyplot as plt
from scipy import optimize
from sklearn.datasets import load_digits

import fedjax_links as fl
from fedjax_links import analysis, local_training, participation, problems
from fedjax_links.participation import label_dependent_probs
from fedjax_links.problems import models
from fedjax_links.problems.gaussians import simplex
from studies.gaussian_accuracy import gaussian_accuracy

RECORD = Path(__file__).parent / 'records' / 'boundary.csv'
KINDS = ('random', 'clustered')
DIMS = (2, 5, 9, 30)
BAYES = (0.3, 0.5, 0.7, 0.85, 0.95)
ALPHAS = (0.05, 0.1, 0.3)
SIGMAS = (1.0, 2.0, 4.0, 10.0)
SIMULATED = len(KINDS) * len(DIMS) * len(BAYES)
POINTS = SIMULATED + 20  # those at equal distances, of theory alone
DIGITS_DIMS = (2, 3, 5)
DIGITS_LINKS = ((0.05, 10.0), (0.1, 10.0), (0.1, 2.0), (0.3, 10.0))
FORMULAS = ('equidistant', 'quadratic', 'pairs', 'confusion')
CLASSES = 10
CLIENTS = 100
EXAMPLES = 2000
BATCH = 16
RATE = 0.1
ROUNDS = 10_000
NUM_EVALS = 100
SEEDS = 2


class Point(NamedTuple):
    """Holds a line of the record; accuracies and their differences in per cent.

    Attributes:
      kind: of the class means.
      dim: of the features.
      bayes: Bayes accuracy.
      alpha: of the clients' labels.
      sigma: of the links.
      mass: of all boundaries together, in per cent.
      exact: what FedAvg's limit loses in the population.
      quadratic: the same to second order.
      pairs: by `analysis.skewed_loss`.
      confusion: the same by the confusion matrix of Bayes' rule.
      equidistant: the loss at the same Bayes accuracy, were the classes equally far apart.
      simulated: client mean of FedPBC minus FedAvg, each the mean of its models over the second
        half of a run, mean over the runs.
      error: standard error of that, from the differences of the runs.
    """

    kind: str
    dim: int
    bayes: float
    alpha: float
    sigma: float
    mass: float
    exact: float
    quadratic: float
    pairs: float
    confusion: float
    equidistant: float
    simulated: float = np.nan
    error: float = np.nan


class Setting(NamedTuple):
    """Holds what runs of a point need.

    Attributes:
      means: float[10, d], of the classes.
      features: float[E, d], by client.
      labels: int[E].
      probs: float[N], of independent links.
    """

    means: np.ndarray
    features: np.ndarray
    labels: np.ndarray
    probs: np.ndarray


def accuracy(means: np.ndarray, shares: np.ndarray) -> float:
    """Returns the accuracy of Bayes' rule for class shares on classes that are equally likely."""
    model = analysis.gaussian_minimiser(means, shares[None], [1.0])
    return gaussian_accuracy(model, means).accuracy


def class_means(
    kind: str, dim: int, bayes: float, rng: np.random.Generator
) -> np.ndarray:
    """Draws means of ten classes for a Bayes accuracy: independent, or in four clusters."""
    means = rng.normal(size=(CLASSES, dim))
    if kind == 'clustered':
        centres = rng.normal(size=(4, dim))
        means = 1.6 * centres[np.arange(CLASSES) % 4] + 0.6 * means
    equal = np.ones(CLASSES)
    return means * optimize.brentq(
        lambda scale: accuracy(scale * means, equal) - bayes, 0.02, 50, xtol=1e-4
    )


def confusion(means: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Returns the confusion matrix of Bayes' rule on 10,000 examples of each class."""
    counts = np.empty((CLASSES, CLASSES))
    for label, mean in enumerate(means):
        x = mean + rng.normal(size=(10_000, means.shape[1]))
        scores = x @ means.T - 0.5 * np.sum(means**2, axis=1)
        counts[label] = np.bincount(scores.argmax(axis=1), minlength=CLASSES)
    return counts


def point(index: int) -> tuple[Point, Setting]:
    """Returns a point by theory, and what the runs that check it need."""
    dim = DIMS[index % len(DIMS)]
    bayes = BAYES[index % len(BAYES)]
    # After all pairs of the above, kinds change places, so that every pair has both.
    num_pairs = len(DIMS) * len(BAYES)
    kind = KINDS[(index + index // num_pairs) % len(KINDS)]
    alpha = ALPHAS[index // 2 % len(ALPHAS)]
    sigma = SIGMAS[index // 5 % len(SIGMAS)]
    rng = np.random.default_rng(index)
    distance = analysis.equidistant_distance(bayes, CLASSES)
    if index < SIMULATED:
        means = class_means(kind, dim, bayes, rng)
    else:
        kind = 'equidistant'
        dim = CLASSES - 1
        means = simplex(CLASSES, distance)
    mix = rng.dirichlet(np.full(CLASSES, alpha), size=CLIENTS)
    labels = np.stack([rng.choice(CLASSES, size=EXAMPLES, p=q) for q in mix])
    mix = np.stack([np.bincount(row, minlength=CLASSES) / EXAMPLES for row in labels])
    probs = label_dependent_probs(mix, sigma=sigma, minimum=0.02, seed=index)
    fedavg = analysis.fedavg_weights(probs) @ mix
    equal = mix.mean(axis=0)
    boundaries = analysis.gaussian_boundaries(means)
    matrix = analysis.confusion_boundaries(confusion(means, rng))

    def quadratic(shares: np.ndarray) -> float:
        ratios = np.subtract.outer(np.log(shares), np.log(shares))
        return float(np.sum(boundaries.mass * ratios**2) / 4)

    formulas = (
        lambda shares: -accuracy(means, shares),
        quadratic,
        lambda shares: analysis.skewed_loss(boundaries, shares),
        lambda shares: analysis.skewed_loss(matrix, shares),
        lambda shares: -analysis.equidistant_skewed_accuracy(distance, shares),
    )
    lost = [100 * (formula(fedavg) - formula(equal)) for formula in formulas]
    mass = 100 * float(boundaries.mass.sum()) / 2  # the matrix has every pair twice
    features = means[labels.ravel()] + rng.normal(size=(labels.size, dim))
    theory = Point(kind, dim, bayes, alpha, sigma, mass, *lost)
    return theory, Setting(means, features, labels.ravel(), probs)


def simulated(setting: Setting) -> tuple[float, float]:
    """Returns FedPBC's client mean minus FedAvg, and its standard error.

    Runs begin at Bayes' rule for equal shares, the limit of FedPBC, which FedAvg has to leave. From
    zero, steps small enough for these limits would separate clusters too slowly. Features are
    centred and whitened, which moves no limit and saves rounds.
    """
    start = analysis.gaussian_minimiser(setting.means, np.ones((1, CLASSES)), [1.0])
    centre = setting.means.mean(axis=0)
    spread = np.linalg.eigh(np.eye(len(centre)) + np.cov(setting.means.T, bias=True))
    whiten = spread.eigenvectors / np.sqrt(spread.eigenvalues)
    layer = {
        'kernel': np.linalg.solve(whiten, start.coefficients).astype(np.float32),
        'bias': (start.intercept + centre @ start.coefficients).astype(np.float32),
    }
    problem = problems.from_flax(
        ((setting.features - centre) @ whiten).astype(np.float32),
        setting.labels,
        np.repeat(np.arange(CLIENTS), EXAMPLES),
        module=models.Softmax(CLASSES, zero=True),
    )
    (layer_name,) = problem.init_params(jax.random.key(0))
    problem = dataclasses.replace(problem, init_params=lambda key: {layer_name: layer})
    client = local_training.local_sgd(
        fl.learning_rates.inverse_sqrt(RATE), local_steps=1, batch_size=BATCH
    )
    pattern = participation.bernoulli(setting.probs.astype(np.float32))

    def accuracies(name: str, model: str) -> np.ndarray:
        @jax.jit
        @jax.vmap
        def run(seed: jax.Array) -> Any:
            result = fl.simulate(
                jax.random.key(seed),
                fl.ALGORITHMS[name](client),
                pattern,
                problem,
                num_rounds=ROUNDS,
                eval_every=ROUNDS // NUM_EVALS,
                eval_fn=lambda params, key, problem: params,
            )
            return jax.tree.map(
                lambda params: params[NUM_EVALS // 2 :].mean(axis=0),
                result.evals[model],
            )

        (mean_layer,) = run(np.arange(SEEDS)).values()
        coefficients = whiten @ np.asarray(mean_layer['kernel'], np.float64)
        intercepts = np.asarray(mean_layer['bias'], np.float64) - centre @ coefficients
        accuracy_by_seed = []
        for weights, bias in zip(coefficients, intercepts, strict=True):
            mean_model = analysis.LinearModel(weights, bias)
            result = gaussian_accuracy(mean_model, setting.means)
            accuracy_by_seed.append(result.accuracy)
        return np.array(accuracy_by_seed)

    gains = 100 * (accuracies('fedpbc', 'client_mean') - accuracies('fedavg', 'server'))
    return float(gains.mean()), float(gains.std(ddof=1) / len(gains) ** 0.5)


def read() -> list[Point]:
    """Reads the record, in order of the points."""
    with RECORD.open(newline='') as file:
        rows = list(csv.reader(file))[1:]
    points = []
    for kind, *cells in rows:
        points.append(Point(kind, *[float(cell or 'nan') for cell in cells]))
    return points


def write(rows: list[Point]) -> None:
    """Writes the record, four digits, what is not simulated left empty."""
    with RECORD.open('w', newline='') as file:
        writer = csv.writer(file, lineterminator='\n')
        writer.writerow(Point._fields)
        for kind, *values in rows:
            writer.writerow(
                [kind, *('' if np.isnan(v) else f'{v:.4g}' for v in values)]
            )


def record() -> None:
    """Computes theory of all points, then runs those without runs; resumes an unfinished record."""
    rows = read() if RECORD.exists() else []
    for index in range(len(rows), POINTS):
        rows.append(point(index)[0])
        write(rows)
    for index in range(SIMULATED):
        if np.isnan(rows[index].simulated):
            gain, error = simulated(point(index)[1])
            rows[index] = rows[index]._replace(simulated=gain, error=error)
            write(rows)


def table(rows: list[Point]) -> Iterator[str]:
    """Yields how far each formula and the runs are from the exact loss, by Bayes accuracy."""
    titles = 'Bayes accuracy', 'exact loss', *FORMULAS, 'simulated'
    yield f'| {" | ".join(titles)} |\n{"| --- " * len(titles)}|'
    for bayes in BAYES:
        selected = [
            row for row in rows if row.bayes == bayes and row.kind != 'equidistant'
        ]
        lost = [row.exact for row in selected]
        cells = [f'{min(lost):.2f} to {max(lost):.2f}']
        for formula in (*FORMULAS, 'simulated'):
            differences = np.array(
                [getattr(row, formula) - row.exact for row in selected]
            )
            known = np.abs(differences[~np.isnan(differences)])
            size = f' ({known.size})' if formula == 'simulated' else ''
            if known.size:
                cells.append(
                    f'{np.sqrt(np.mean(known**2)):.2f}, {known.max():.2f}{size}'
                )
            else:
                cells.append('not run')
        yield f'| {bayes:g} | {" | ".join(cells)} |'


def draw(rows: list[Point]) -> None:
    """Draws the exact loss over what three formulas say."""
    axes = plt.subplots(1, 3, figsize=(11, 4), sharey=True, layout='constrained')[1]
    panels = (
        ('equidistant', 'equal distances, same Bayes accuracy'),
        ('pairs', 'sum over boundaries'),
        ('confusion', 'the same, from a confusion matrix'),
    )
    for ax, (formula, title) in zip(axes, panels, strict=True):
        for kind, mark in (*zip(KINDS, 'os', strict=True), ('equidistant', 'x')):
            selected = [row for row in rows if row.kind == kind]
            ax.plot(
                [getattr(row, formula) for row in selected],
                [row.exact for row in selected],
                mark,
                ms=5,
                label=kind,
            )
        simulated_rows = [row for row in rows if not np.isnan(row.simulated)]
        ax.plot(
            [getattr(row, formula) for row in simulated_rows],
            [row.simulated for row in simulated_rows],
            'k.',
            ms=4,
            label='simulated',
        )
        ax.axline((1, 1), (10, 10), color='0.6', lw=1, zorder=0)
        ax.set(
            xscale='log', yscale='log', xlim=(0.02, 25), ylim=(0.02, 25), aspect='equal'
        )
        ax.set_xlabel(f'{title}, points')
    axes[0].set_ylabel("FedAvg's loss, points of accuracy")
    axes[0].legend(loc='upper left', frameon=False)
    plt.savefig(Path(__file__).parent / 'boundary.png', dpi=110)


def digits(dim: int) -> tuple[float, np.ndarray]:
    """Compares the law with fits on digits, reduced to their first principal components.

    A fit is on one half of the digits, with classes weighted equally or by shares q, and its
    accuracy is that on the other half.

    Returns:
      Balanced accuracy under equal weights, and float[4, 5, 2] by `DIGITS_LINKS` and draw: the
      accuracy that weights q lose, measured and by the law. All are in per cent.
    """
    pixels, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(labels.size)
    centred = (pixels - pixels.mean(axis=0))[order]
    labels = labels[order]
    components, _, _ = np.linalg.svd(centred, full_matrices=False)
    features = components[:, :dim] * labels.size**0.5

    def matrix(shares: np.ndarray) -> np.ndarray:
        counts = np.zeros((CLASSES, CLASSES))
        for half in range(2):
            in_half = np.arange(labels.size) % 2 == half
            # Each class is a client, so that weights are those of classes.
            fit = analysis.weighted_minimiser(
                features[in_half], labels[in_half], labels[in_half], shares
            )
            predicted = fit.model.scores(features[~in_half]).argmax(axis=1)
            np.add.at(counts, (labels[~in_half], predicted), 1)
        return counts

    def balanced(counts: np.ndarray) -> float:
        return float(np.mean(np.diag(counts) / counts.sum(axis=1)))

    equal = matrix(np.full(CLASSES, 1 / CLASSES))
    boundaries = analysis.confusion_boundaries(equal)
    lost = np.empty((len(DIGITS_LINKS), 5, 2))
    for row, (alpha, sigma) in enumerate(DIGITS_LINKS):
        for seed in range(5):
            rng = np.random.default_rng(seed)
            mix = rng.dirichlet(np.full(CLASSES, alpha), size=CLIENTS)
            probs = label_dependent_probs(mix, sigma=sigma, minimum=0.02, seed=seed)
            shares = analysis.fedavg_weights(probs) @ mix
            measured = balanced(equal) - balanced(matrix(shares))
            lost[row, seed] = measured, analysis.skewed_loss(boundaries, shares)
    return 100 * balanced(equal), 100 * lost


def digits_table() -> Iterator[str]:
    """Yields means over the draws, and how far the law is off at single draws."""
    yield '| components | accuracy | alpha, sigma | measured | by the law | off, rms |'
    yield f'{"| --- " * 6}|'
    for dim in DIGITS_DIMS:
        accuracy, lost = digits(dim)
        for (alpha, sigma), draws in zip(DIGITS_LINKS, lost, strict=True):
            rms = np.sqrt(np.mean((draws[:, 1] - draws[:, 0]) ** 2))
            means = ' | '.join(f'{mean:.1f}' for mean in draws.mean(axis=0))
            yield f'| {dim} | {accuracy:.1f} | {alpha:g}, {sigma:g} | {means} | {rms:.1f} |'


def main() -> None:
    """Draws and tabulates the record, or makes it; or tabulates digits."""
    if '--digits' in sys.argv:
        print(*digits_table(), sep='\n')
        return
    if '--simulate' in sys.argv:
        record()
    print(*table(read()), sep='\n')
    draw(read())


if __name__ == '__main__':
    main()
