"""FedPBC minus FedAvg by depth of the model and examples per client, beside theory.

python -m studies.depth --picture=studies/depth.png

Prints the tables of studies/depth.md from the archives in studies/records/depth and draws its
picture. Three minutes on a CPU core, most of them for theory.
"""

import argparse
import functools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import fedjax_links as fl
from configs import depth
from fedjax_links import (
    analysis,
    evaluation,
    local_training,
    participation,
    partition,
    problems,
    runs,
)
from fedjax_links.base import Array, Key, Params, Problem
from fedjax_links.plot import COLOURS, EXACT
from fedjax_links.preview import prediction
from fedjax_links.problems import classification

FOLDER = Path(__file__).parent / 'records' / 'depth'
DATA = ('gaussians', 'images', 'digits')
MODELS = {
    'FedAvg': ('fedavg', 'server'),
    'client mean': ('fedpbc', 'client_mean'),
    'server': ('fedpbc', 'server'),
}
TAIL = 0.4
INTERPOLATED = 0.99
LONG_RATE = 0.16
LINEAR = '_linear'
TITLES = (
    'data',
    'examples',
    'model',
    'FedAvg',
    'FedPBC, client mean',
    'FedPBC, server',
    'client mean minus FedAvg',
    'theory',
    'left',
    'moved',
)
LIMITS = (
    'examples',
    'FedAvg: population, data, simulated',
    'client mean: the same',
    'left',
)

# The training of `scores`, in the limit of many examples.
_NUM_EXAMPLES = 100_000
_NUM_ROUNDS = 100
_STEPS = 100
_BATCH = 64
_RATE = 0.3


class Level(NamedTuple):
    """Names an algorithm's model at the best of its rates, by the mean over seeds.

    Attributes:
      rate: of the clients, with an arrow to where none was tried.
      accuracy: on held-out data, float[S] by seed, mean of the last 40 % of the evaluations.
      training: on the clients' data, likewise.
      moved: by how much the second half of those is more accurate than the first.
    """

    rate: str
    accuracy: np.ndarray
    training: np.ndarray
    moved: np.ndarray


class Point(NamedTuple):
    """Describes a model on data of a size.

    Attributes:
      problem: section of the config that the point has.
      probs: section of the link probabilities.
      examples: of a client, the mean over clients.
      model: label of the model.
      levels: by `MODELS`.
    """

    problem: dict[str, Any]
    probs: dict[str, Any]
    examples: float
    model: str
    levels: dict[str, Level]

    @property
    def data(self) -> str:
        """Returns what the problem is called."""
        return str(self.problem['name'])

    @property
    def ahead(self) -> np.ndarray:
        """Returns FedPBC's client mean minus FedAvg, in points, float[S]."""
        return 100 * (
            self.levels['client mean'].accuracy - self.levels['FedAvg'].accuracy
        )


def points(
    data: str, *, rounds: int | None = None, rate: float | None = None
) -> Iterator[Point]:
    """Yields an archive's points by model and size, after so many rounds, at one rate if given."""
    columns = read(data)
    config = runs.read_json(FOLDER / data, runs.CONFIG)
    chosen = columns['round'] <= (rounds or config['num_rounds'])
    if rate is not None:
        chosen &= columns[depth.RATE] == rate
    columns = {name: values[chosen] for name, values in columns.items()}
    axis = next(name for name in columns if name.startswith('problem.'))
    for model in (name for name in depth.MODELS if name in config['patterns']):
        for size in np.unique(columns[axis]).astype(int).tolist():
            rows = (columns['pattern'] == model) & (columns[axis] == size)
            here = {name: values[rows] for name, values in columns.items()}
            problem = {**config['problem'], **config['problems'][model]}
            _, *section, option = axis.split('.')
            for name in section:
                problem[name] = {**problem[name], option: size}
            if not section:
                problem[option] = size
            yield Point(
                problem=problem,
                probs=config['patterns'][model]['probs'],
                examples=float(np.mean(built(problem, 0).counts)),
                model=model,
                levels={name: level(here, *which) for name, which in MODELS.items()},
            )


def read(data: str) -> dict[str, np.ndarray]:
    """Reads the columns of an archive, with those of larger rates for softmax regression if any."""
    further = FOLDER / f'{data}{LINEAR}'
    results = [
        runs.read(folder).columns
        for folder in (FOLDER / data, further)
        if folder.exists()
    ]
    shared = (
        name for name in results[0] if all(name in columns for columns in results)
    )
    return {
        name: np.concatenate([columns[name] for columns in results]) for name in shared
    }


def built(section: dict[str, Any], seed: int) -> Problem:
    """Returns a problem as the runs of a seed draw it."""
    options = {name: value for name, value in section.items() if name != 'name'}
    make = problems.PROBLEMS[section['name']]
    return make(**options, data_seed=seed, partition_seed=seed)


def level(columns: dict[str, np.ndarray], algorithm: str, model: str) -> Level:
    """Returns the best of the rates among an algorithm's lines at a point."""
    mine = columns['algorithm'] == algorithm
    keys = [columns[name][mine] for name in ('round', 'seed', depth.RATE)]
    order = np.lexsort(keys)
    rates = np.unique(keys[-1])
    shape = len(rates), len(np.unique(keys[1])), -1
    accuracy = columns[f'{model}/eval_accuracy'][mine][order].reshape(shape)
    training = columns[f'{model}/train_accuracy'][mine][order].reshape(shape)
    last = round(TAIL * accuracy.shape[-1])
    late = accuracy[..., -last:].mean(axis=-1)
    best = int(late.mean(axis=-1).argmax())
    second_half = accuracy[best, :, -(last // 2) :].mean(axis=-1)
    edges = {0: ' ↓', len(rates) - 1: ' ↑'} if len(rates) > 1 else {}
    return Level(
        rate=f'{rates[best]:g}' + edges.get(best, ''),
        accuracy=late[best],
        training=training[best, :, -last:].mean(axis=-1),
        moved=2 * (second_half - late[best]),
    )


def weights(point: Point, seed: int) -> tuple[Problem, np.ndarray, np.ndarray]:
    """Returns a seed's problem, its class shares by client, FedAvg's implicit weights."""
    problem = built(point.problem, seed)
    mix = partition.class_mix(problems.owners(problem), np.asarray(problem.data.labels))
    options = {name: value for name, value in point.probs.items() if name != 'name'}
    probs = participation.label_dependent_probs(mix, **options, seed=seed)
    return problem, mix, analysis.fedavg_weights(probs)


def population(point: Point) -> np.ndarray | None:
    """Computes FedAvg's and FedPBC's limits by seed, accuracies float[2, S]; None for digits.

    Bayes' rule for the class shares that unequal and equal weights give: exact for Gaussian
    classes, for images with the `scores` of the model itself.
    """
    if point.data == 'digits':
        return None
    results = np.empty((2, point.ahead.size))
    for seed in range(results.shape[1]):
        _, mix, implicit = weights(point, seed)
        for row, shares in enumerate((implicit @ mix, mix.mean(axis=0))):
            if point.data == 'gaussians':
                best = point.problem['bayes_accuracy']
                distance = analysis.equidistant_distance(best, mix.shape[1])
                results[row, seed] = analysis.equidistant_skewed_accuracy(
                    distance, shares
                )
            else:
                logits, labels = scores(point.model, seed)
                results[row, seed] = np.mean(
                    np.argmax(logits + np.log(shares), axis=1) == labels
                )
    return results


@functools.cache
def scores(model: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Computes logits float[T, C] of a seed's test images, and returns them with the labels.

    The model is trained by one client: 10,000 steps of batch 64 on 100,000 images of all classes.
    """
    config = depth.get_config('images').to_dict()
    section = {**config['problem'], **config['problems'][model], 'num_clients': 1}
    section['data'] = {**section['data'], 'num_train': _NUM_EXAMPLES}
    problem = built(section, seed)
    options = dict(depth.MODELS[model]) if model != 'softmax' else {'name': model}
    network = classification.MODELS[options.pop('name')](10, **options)

    def logits(params: Params, key: Key, problem: Problem) -> Array:
        del key
        return network.apply({'params': params}, problem.eval_data.features)

    client = local_training.local_sgd(_RATE, local_steps=_STEPS, batch_size=_BATCH)
    results = jax.jit(
        lambda key: fl.simulate(
            key,
            fl.ALGORITHMS['fedavg'](client),
            participation.bernoulli(jnp.ones(1)),
            problem,
            num_rounds=_NUM_ROUNDS,
            eval_every=_NUM_ROUNDS,
            eval_fn=logits,
        )
    )(jax.random.key(seed))
    return np.asarray(results.evals['server'][-1], float), np.asarray(
        problem.eval_data.labels
    )


def interval(values: np.ndarray) -> str:
    """Returns a mean over seeds with its 95 % interval."""
    results = evaluation.seed_interval(values)
    return f'{results.mean:+.1f} ± {results.half_width:.1f}'


def rows(points_of_table: Iterable[Point]) -> Iterator[str]:
    """Yields the lines of the table."""
    for point in points_of_table:
        yield f'| {" | ".join([point.data, *cells(point, population(point))])} |'


def long_rows() -> Iterator[str]:
    """Yields the lines of the table of a long run: every rate after half and all of the rounds."""
    config = runs.read_json(FOLDER / 'long', runs.CONFIG)
    total = config['num_rounds']
    # By model and size: limits depend on no rate and no number of rounds.
    limits: dict[tuple[str, float], np.ndarray | None] = {}
    for rate in config['grid']['client']['learning_rate']:
        for rounds in (total // 2, total):
            for point in points('long', rounds=rounds, rate=rate):
                problem = point.model, point.examples
                if problem not in limits:
                    limits[problem] = population(point)
                row = [f'{rounds:,}', *cells(point, limits[problem])]
                yield f'| {" | ".join(row)} |'


def cells(point: Point, limits: np.ndarray | None) -> list[str]:
    """Returns all cells of a line but the first, with the limits of `population`."""
    levels = [
        f'{100 * level.accuracy.mean():.1f} ({level.rate}; {100 * level.training.mean():.1f})'
        for level in point.levels.values()
    ]
    theory = ['', '']
    if limits is not None:
        expected = 100 * (limits[1] - limits[0])
        theory = [f'{expected.mean():+.1f}', interval(point.ahead - expected)]
    moved = (
        100 * point.levels[name].moved.mean() for name in ('FedAvg', 'client mean')
    )
    first = [
        f'{point.examples:.0f}',
        depth.NAMES[point.model],
        *levels,
        interval(point.ahead),
    ]
    return [*first, *theory, ', '.join(f'{value:+.1f}' for value in moved)]


def limit_row(point: Point) -> str:
    """Returns the row of softmax regression's minimisers, between the population and the runs."""
    exact = population(point)
    assert exact is not None
    on_data = np.empty_like(exact)
    for seed in range(exact.shape[1]):
        problem, _, implicit = weights(point, seed)
        results = prediction.predictions(problem, implicit)
        assert results is not None
        on_data[:, seed] = [part.limit['accuracy'] for part in results[:2]]
    simulated = [point.levels[name].accuracy for name in ('FedAvg', 'client mean')]
    levels = [
        ', '.join(f'{100 * part[k].mean():.1f}' for part in (exact, on_data, simulated))
        for k in range(2)
    ]
    left = interval(point.ahead - 100 * (on_data[1] - on_data[0]))
    return f'| {point.examples:.0f} | {" | ".join(levels)} | {left} |'


def draw(panels: Sequence[Sequence[Point]], path: Path) -> None:
    """Draws differences with theory, and training accuracies, over the examples of a client."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(
        2,
        len(panels),
        figsize=(10, 6.6),
        sharex='col',
        layout='constrained',
        width_ratios=(3, 2, 1),
    )
    for column, panel in zip(axes.T, panels, strict=True):
        for index, model in enumerate(depth.MODELS):
            model_points = [point for point in panel if point.model == model]
            if model_points:
                _draw_line(column, model_points, 1.06 ** (index - 1.5), COLOURS[index])
        sizes = sorted({round(point.examples) for point in panel})
        column[0].set_title(panel[0].data)
        column[0].axhline(0, color=EXACT, linewidth=0.8)
        column[1].axhline(100 * INTERPOLATED, color=EXACT, linewidth=0.8, linestyle=':')
        column[1].set(xscale='log', xlabel='examples per client', ylim=(55, 102))
        column[1].set_xticks(sizes, [str(size) for size in sizes])
        column[1].set_xticks([], minor=True)
    longest = list(points('long', rate=LONG_RATE))
    label = f'{depth.NAMES["two"]}, 8,000 rounds at {LONG_RATE:g}'
    _draw_line(axes[:, 0], longest, 1.13, COLOURS[4], label, line='none')
    axes[0, 0].set_ylabel('FedPBC minus FedAvg, points')
    axes[1, 0].set_ylabel('training accuracy, %')
    shown = {}
    for panel in axes[0]:
        handles, labels = panel.get_legend_handles_labels()
        shown |= dict(zip(labels, handles, strict=True))
    figure.legend(shown.values(), shown, loc='outside lower center', ncols=3)
    figure.savefig(path, dpi=110)


def _draw_line(
    axes: Sequence[Any],
    mine: Sequence[Point],
    shift: float,
    colour: str,
    label: str | None = None,
    line: str = '-',
) -> None:
    """Draws a model's differences and its training accuracies, beside those of others."""
    x = shift * np.array([point.examples for point in mine])
    ahead = [evaluation.seed_interval(point.ahead) for point in mine]
    mean = np.array([part.mean for part in ahead])
    half = [part.half_width for part in ahead]
    look: Any = {
        'color': colour,
        'capsize': 2,
        'label': label or depth.NAMES[mine[0].model],
    }
    axes[0].errorbar(x, mean, half, marker='o', linestyle=line, **look)
    limits = [population(point) for point in mine if label is None]
    expected = [100 * np.mean(part[1] - part[0]) for part in limits if part is not None]
    axes[0].plot(x[: len(expected)], expected, ':', color=colour, linewidth=2)
    fits = np.array([p.levels['FedAvg'].training.mean() > INTERPOLATED for p in mine])
    axes[0].plot(x[fits], mean[fits], 'o', color='black', mfc='none', ms=12)
    for name, style, fill in (('FedAvg', '-', colour), ('client mean', '--', 'white')):
        training = [100 * point.levels[name].training.mean() for point in mine]
        style = style if line == '-' else 'none'
        axes[1].plot(
            x,
            training,
            linestyle=style,
            color=colour,
            marker='o',
            markersize=5,
            mfc=fill,
        )


def main() -> None:
    """Prints the tables and draws the picture."""
    parser = argparse.ArgumentParser(prog='python -m studies.depth')
    parser.add_argument('--picture', type=Path, help='where to draw; not by default')
    picture = parser.parse_args().picture
    results = [list(points(data)) for data in DATA]
    softmax = [point for point in results[0] if point.model == 'softmax']
    tables = {
        TITLES: (line for panel in results for line in rows(panel)),
        ('rounds', *TITLES[1:]): long_rows(),
        LIMITS: map(limit_row, softmax),
    }
    for titles, lines in tables.items():
        print(f'\n| {" | ".join(titles)} |\n{"| --- " * len(titles)}|')
        for line in lines:
            print(line, flush=True)
    if picture:
        draw(results, picture)


if __name__ == '__main__':
    main()
