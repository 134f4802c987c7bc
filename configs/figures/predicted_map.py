"""Maps FedAvg's and FedPBC's limits over overlap, inequality of links and heterogeneity, exactly.

Nothing is simulated: on Gaussian classes at equal distances all is known. FedAvg's implicit weights
under independent links are exact (`analysis.fedavg_weights`). The minimiser of weighted losses is
Bayes' rule for the weighted class fractions (`analysis.gaussian_minimiser`), and its accuracy is
one integral (`analysis.equidistant_skewed_accuracy`). FedPBC has equal weights. See studies/map.md.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedjax_links import analysis, evaluation, partition, plot, runs
from fedjax_links.core import checks, errors
from fedjax_links.pages.figure import FigureResult
from fedjax_links.pages.tables import Table
from fedjax_links.participation import label_dependent_probs
from fedjax_links.plot import heat
from fedjax_links.problems import gaussians, owners
from fedjax_links.report import cells, run_view

_COLUMNS = {
    'bayes_accuracy': 'problem.bayes_accuracy',
    'sigma': 'links.probs.sigma',
    'alpha': 'problem.alpha',
}
_MOST_SHOWN = 6  # values of an axis in the table
_FEW = 12  # cells with their value
_CONTOURS = (0.5, 1, 2, 5, 10, 20, 30)


class Limits(NamedTuple):
    """Holds accuracies in the limit of small steps and many rounds.

    Attributes:
      fedavg: FedAvg's model, float[A, B, S, D] by alpha, Bayes accuracy, sigma and draw.
      fedpbc: the mean of FedPBC's client models, likewise.
    """

    fedavg: np.ndarray
    fedpbc: np.ndarray


def limits(
    *,
    bayes_accuracies: Sequence[float],
    sigmas: Sequence[float],
    alphas: Sequence[float],
    seeds: Sequence[int],
    num_clients: int = 100,
    examples_per_client: int = 200,
    num_classes: int = 10,
    minimum: float = 0.02,
) -> Limits:
    """Computes the limits at each point, over the population of the classes that clients hold.

    Every seed draws partition, labels and class weights as a run that redraws by seed does; only
    features are not drawn but known.

    Args:
      bayes_accuracies: B values in (1 / K, 1).
      sigmas: S values of `label_dependent_probs`, each at least 0.
      alphas: A concentrations of `problems.gaussians`.
      seeds: D seeds.
      num_clients: N.
      examples_per_client: n.
      num_classes: K.
      minimum: smallest link probability.

    Returns:
      The limits.

    Raises:
      ValueError: if an argument is out of range, or no client has examples of a class.
    """
    arguments = {
        'bayes_accuracies': bayes_accuracies,
        'sigmas': sigmas,
        'alphas': alphas,
        'seeds': seeds,
    }
    for name, values in arguments.items():
        checks.not_empty(name, values)
    is_valid = [1 / num_classes < a < 1 for a in bayes_accuracies]
    if not all(is_valid):
        requirement = f'lie above {1 / num_classes:g} and below 1'
        wrong = bayes_accuracies[is_valid.index(False)]
        raise errors.invalid('bayes_accuracies', requirement, wrong)
    distances = [
        analysis.equidistant_distance(a, num_classes) for a in bayes_accuracies
    ]
    shape = len(alphas), len(bayes_accuracies), len(sigmas), len(seeds)
    predicted = Limits(np.empty(shape), np.empty(shape))

    def accuracies(weights: np.ndarray, mix: np.ndarray) -> list[float]:
        class_mix = weights @ mix
        return [analysis.equidistant_skewed_accuracy(d, class_mix) for d in distances]

    equal = np.full(num_clients, 1 / num_clients)
    for row, alpha in enumerate(alphas):
        for draw, seed in enumerate(seeds):
            problem = gaussians(
                num_clients=num_clients,
                examples_per_client=examples_per_client,
                num_classes=num_classes,
                alpha=alpha,
                seed=seed,
                test_examples=num_classes,
            )
            mix = partition.class_mix(owners(problem), np.asarray(problem.data.labels))
            predicted.fedpbc[row, :, :, draw] = np.array(accuracies(equal, mix))[
                :, None
            ]
            for column, sigma in enumerate(sigmas):
                probs = label_dependent_probs(
                    mix, sigma=sigma, minimum=minimum, seed=seed
                )
                weights = analysis.fedavg_weights(probs)
                predicted.fedavg[row, :, column, draw] = accuracies(weights, mix)
    return predicted


def predicted_map(
    *,
    bayes_accuracies: Sequence[float],
    sigmas: Sequence[float],
    alphas: Sequence[float],
    num_draws: int = 10,
    first_seed: int = 0,
    num_clients: int = 100,
    examples_per_client: int = 200,
    num_classes: int = 10,
    minimum: float = 0.02,
    folder: str = '',
    best_over: Sequence[str] = ('client.learning_rate',),
    tail: float = 0.1,
) -> FigureResult:
    """Draws the predicted difference of FedPBC to FedAvg, and beside it the simulated one.

    Args:
      bayes_accuracies: along the vertical axis, see `limits`.
      sigmas: along the horizontal axis.
      alphas: one panel each.
      num_draws: D, the number of seeds.
      first_seed: the first of them.
      num_clients: N.
      examples_per_client: n.
      num_classes: K.
      minimum: smallest link probability.
      folder: of a run of configs/map.py with ``fedavg`` and ``fedpbc``: then its values, seeds,
        sizes and smallest probability in place of all others, and its simulated differences; empty
        for none.
      best_over: columns of that run of which both algorithms take the best value at a cell.
      tail: fraction of that run's evaluations, the last ones, that are averaged over, in [0, 1].

    Returns:
      The figure.

    Raises:
      ValueError: if an argument is out of range, or the run has no such grid.
    """
    checks.static_int('num_draws', num_draws)
    checks.static_int('first_seed', first_seed, minimum=0)
    checks.within('tail', tail, 0, 1)
    axes = {'bayes_accuracy': bayes_accuracies, 'sigma': sigmas, 'alpha': alphas}
    seeds: Sequence[int] = range(first_seed, first_seed + num_draws)
    options: dict[str, Any] = {
        'num_clients': num_clients,
        'examples_per_client': examples_per_client,
        'num_classes': num_classes,
        'minimum': minimum,
    }
    simulated = None
    if folder:
        axes, seeds, simulated = _simulated(Path(folder), best_over, tail)
        options |= _options(Path(folder), options)
    predicted = limits(
        bayes_accuracies=axes['bayes_accuracy'],
        sigmas=axes['sigma'],
        alphas=axes['alpha'],
        seeds=seeds,
        **options,
    )
    differences = [Difference.of('predicted', predicted.fedpbc - predicted.fedavg)]
    if simulated is not None:
        differences.append(Difference.of('simulated', simulated))
        prediction_errors = simulated - (predicted.fedpbc - predicted.fedavg)
        differences.append(Difference.of('simulated - predicted', prediction_errors))
    columns = _as_columns(axes, predicted, differences)
    return FigureResult(
        columns, _table(axes, differences, len(seeds)), _drawing(axes, differences)
    )


class Difference(NamedTuple):
    """Holds a difference of FedPBC to FedAvg in percentage points.

    Attributes:
      name: predicted, simulated, or both.
      interval: over draws, float[A, B, S].
    """

    name: str
    interval: evaluation.Interval

    @classmethod
    def of(cls, name: str, values: np.ndarray) -> 'Difference':
        """Computes intervals from accuracies float[A, B, S, D] by draw."""
        return cls(name, evaluation.seed_interval(100 * values, axis=-1))


def _simulated(
    folder: Path, best_over: Sequence[str], tail: float
) -> tuple[dict[str, Sequence[float]], Sequence[int], np.ndarray]:
    """Reads a run's axes, the seeds of all cells, and differences to FedAvg [A, B, S, D]."""
    run = runs.read(folder)
    view = run_view.from_run(run)
    map_cells = cells.map_cells(
        view,
        x=_COLUMNS['sigma'],
        y=_COLUMNS['bayes_accuracy'],
        best_over=best_over,
        tail=tail,
    )
    for label in ('fedavg', 'fedpbc'):
        checks.choice('algorithm', label, list(map_cells.choices))
    if map_cells.third != _COLUMNS['alpha'] or len(view.patterns) > 1:
        raise errors.invalid(
            'folder', f'have a grid of {", ".join(_COLUMNS.values())}', folder
        )
    axes = {
        'bayes_accuracy': map_cells.y[1],
        'sigma': map_cells.x[1],
        'alpha': [third for _, third in map_cells.panels],
    }
    ahead = map_cells.by_seed('fedpbc')
    behind = map_cells.by_seed('fedavg')
    count = min(ahead.shape[-1], behind.shape[-1])
    return axes, run.facts['seeds'][:count], ahead[..., :count] - behind[..., :count]


def _options(folder: Path, names: Iterable[str]) -> dict[str, Any]:
    """Returns the options of a run's clients and links that have these names."""
    config = runs.read_json(folder, runs.CONFIG)
    options = {**config['problem'], **config['links']['probs']}
    return {name: options[name] for name in names if name in options}


def _as_columns(
    axes: Mapping[str, Sequence[float]],
    predicted: Limits,
    differences: Sequence[Difference],
) -> dict[str, np.ndarray]:
    """Returns one row per point, in per cent."""
    order = ('alpha', 'bayes_accuracy', 'sigma')
    mesh = np.meshgrid(
        *(np.asarray(axes[name], float) for name in order), indexing='ij'
    )
    columns = {name: values.ravel() for name, values in zip(order, mesh, strict=True)}
    for name, accuracy in predicted._asdict().items():
        columns[f'{name}_predicted'] = 100 * accuracy.mean(axis=-1).ravel()
    for difference in differences:
        name = difference.name.replace(' - ', '_minus_')
        columns[f'difference_{name}'] = difference.interval.mean.ravel()
        columns[f'half_width_{name}'] = difference.interval.half_width.ravel()
    return columns


def _some(values: Sequence[float]) -> list[int]:
    """Returns the indices of a few values, the first and the last among them."""
    count = min(len(values), _MOST_SHOWN)
    return np.unique(
        np.rint(np.linspace(0, len(values) - 1, count)).astype(int)
    ).tolist()


def _table(
    axes: Mapping[str, Sequence[float]],
    differences: Sequence[Difference],
    num_draws: int,
) -> Table:
    """Makes a table of the differences at some points."""
    columns = _some(axes['sigma'])
    sigmas = [f'{axes["sigma"][column]:g}' for column in columns]
    rows = []
    for difference in differences:
        mean = difference.interval.mean
        half_width = difference.interval.half_width
        for index, alpha in enumerate(axes['alpha']):
            for row in _some(axes['bayes_accuracy']):
                labels = [difference.name, f'{alpha:g}']
                labels.append(f'{axes["bayes_accuracy"][row]:g}')
                cells_of_row = [
                    _cell(mean[index, row, column], half_width[index, row, column])
                    for column in columns
                ]
                rows.append([*labels, *cells_of_row])
    caption = (
        f'FedPBC minus FedAvg, accuracy in points, mean over {num_draws} draws of partition and '
        'link quality; ± is the 95 % interval over draws (Student t).'
    )
    sigmas[0] = f'sigma {sigmas[0]}'
    header = ['difference', 'alpha', 'bayes accuracy', *sigmas]
    return Table(header, rows, caption)


def _cell(mean: float, half_width: float) -> str:
    """Formats a difference with its interval."""
    # Adding zero turns -0.0 into 0.0.
    text = f'{round(mean, 1) + 0.0:+.1f}'
    if not np.isnan(half_width):
        text += f' ± {half_width:.1f}'
    return text


def _drawing(
    axes: Mapping[str, Sequence[float]], differences: Sequence[Difference]
) -> Callable[[Any], None]:
    """Returns a function that draws a row of panels for each difference."""
    few = max(len(axes['sigma']), len(axes['bayes_accuracy'])) <= _FEW
    x = [f'{value:g}' for value in axes['sigma']]
    y = [f'{value:g}' for value in axes['bayes_accuracy']]

    def draw(figure: Any) -> None:
        shape = len(differences), len(axes['alpha'])
        grid = figure.subplots(*shape, squeeze=False, sharex=True, sharey=True)
        scale_ends = [
            np.nanmax(np.abs([0.0, *d.interval.mean.ravel()])) for d in differences
        ]
        # What is predicted and what is simulated have one scale.
        scale_ends[:2] = [max(scale_ends[:2])] * len(scale_ends[:2])
        for row, (difference, most) in enumerate(
            zip(differences, scale_ends, strict=True)
        ):
            line = grid[row]
            last = row == len(grid) - 1
            for index, panel in enumerate(line):
                mean = difference.interval.mean[index]
                unclear = ~difference.interval.excludes_zero[index]
                plot.heat_map(
                    mean,
                    most=most,
                    texts='+.1f' if few else None,
                    unclear=unclear if few else None,
                    colorbar=False,
                    ax=panel,
                )
                if not few:
                    shown = [c for c in _CONTOURS if mean.min() < c < mean.max()]
                    lines = panel.contour(
                        mean, levels=shown, colors='black', linewidths=0.6
                    )
                    panel.clabel(lines, fmt='%g', fontsize=7)
                heat.label_axes(
                    panel,
                    ('sigma of the links' if last else '', x),
                    ('Bayes accuracy' if index == 0 else '', y),
                )
            is_between = ' - ' in difference.name
            direction = '' if is_between else ': FedPBC minus FedAvg'
            label = f'{difference.name.replace(" - ", " minus ")}{direction}, points'
            figure.colorbar(line[-1].images[0], ax=list(line), label=label)
        for panel, alpha in zip(grid[0], axes['alpha'], strict=True):
            panel.set_title(f'alpha = {alpha:g}', fontsize=10)

    return draw
