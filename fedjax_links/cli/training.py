"""The body of a training command: describe, train with a progress line, report."""

import sys

import jax
import numpy as np
from tqdm import tqdm

from fedjax_links import analysis, evaluation, runs, simulation, tree
from fedjax_links.cli import memory
from fedjax_links.experiment import Experiment
from fedjax_links.problems import owners, partition
from fedjax_links.report import history, pictures, tables
from fedjax_links.report.results import LINKS

TABLE, PICTURE = 'table.md', 'overview.png'


def describe(plan: Experiment) -> str:
    """A few lines: the problem, the links and their predicted bias, the work ahead."""
    config, problem = plan.config, plan.problem
    params = jax.eval_shape(problem.init_params, jax.random.key(0))
    num_runs = len(plan.algorithms) * config.num_seeds
    lines = [
        config.title,
        f'problem  {config.problem["name"]}: {problem.num_clients} clients with '
        f'{problem.min_examples} to {problem.max_examples} examples, '
        f'{tree.size(params):,} parameters',
        f'links    {config.links["name"]}{_describe_probs(plan)}',
        f'work     {len(plan.algorithms)} algorithms x {config.num_seeds} seeds x '
        f'{config.num_rounds:,} rounds = {num_runs * config.num_rounds:,} rounds '
        f'in {len(plan.algorithms)} programs',
    ]
    labels = getattr(problem.data, 'labels', None)
    if labels is not None and np.issubdtype(labels.dtype, np.integer):
        mix = partition.report(owners(problem), np.asarray(labels))
        lines.insert(
            2,
            f'data     {np.mean(mix.classes_held):.1f} of {mix.class_mix.shape[1]} labels per '
            f'client, total variation {np.mean(mix.total_variation):.2f} from the global mix',
        )
    return '\n'.join(lines)


def _describe_probs(plan: Experiment) -> str:
    if plan.probs is None:
        return ''
    probs = plan.probs
    text = f': probability {probs.min():.3g} to {probs.max():.3g}, mean {probs.mean():.3g}'
    schedule = plan.config.links.get('schedule', {'name': 'constant'})
    if plan.config.links['name'] != 'bernoulli' or schedule['name'] != 'constant':
        return text
    weights = analysis.fedavg_weights(probs)
    bias = np.abs(weights - 1 / len(probs)).sum()
    return f"{text}\n         FedAvg's implicit weights are {bias:.2f} from equal (L1, exact)"


def print_costs(plan: Experiment) -> None:
    """Compiles every program and prints what it needs, without running it."""
    for label, program in _programs(plan):
        peak = 'unknown' if program.peak_bytes is None else memory.size(program.peak_bytes)
        print(
            f'{label:12s} compiled in {program.compile_seconds:.1f} s; states '
            f'{memory.size(program.state_bytes)}, peak {peak}'
        )


def _programs(plan: Experiment):
    config = plan.config
    eval_fn = evaluation.for_problem(plan.problem)
    for label, algorithm in plan.algorithms.items():
        yield (
            label,
            runs.build_program(
                algorithm,
                plan.participation,
                plan.problem,
                seeds=config.seeds,
                eval_every=config.eval_every,
                eval_fn=eval_fn,
            ),
        )


def train(plan: Experiment, folder: runs.RunFolder) -> None:
    """Trains the algorithms one after the other, with one live line each."""
    config = plan.config
    for label, program in _programs(plan):
        memory.refuse_if_above(memory.available_bytes(), program.peak_bytes or 0, label)
        with tqdm(
            total=config.num_rounds,
            desc=f'{label:12s}',
            unit='round',
            file=sys.stdout,
            bar_format='{desc}|{bar:24}| {n_fmt}/{total_fmt} rounds [{elapsed}<{remaining}, '
            '{rate_fmt}]',
        ) as progress:

            def show(done: int, progress=progress) -> None:
                if done and not progress.n and done > config.eval_every:
                    progress.initial = done  # resumed: no credit for rounds done before
                progress.n = done
                progress.refresh()

            folder.train(label, program, plan.problem, num_rounds=config.num_rounds, on_chunk=show)


def report(plan: Experiment, folder: runs.RunFolder) -> None:
    """Prints the table and writes it, the realised links of the first seed and the picture."""
    config = plan.config
    recorded = history.read(folder.metrics())
    links = jax.jit(
        lambda key: simulation.realised_links(key, plan.participation, num_rounds=config.num_rounds)
    )(jax.random.key(config.first_seed))
    mask, prob = np.asarray(links.mask), np.asarray(links.prob)
    table = tables.final_table(recorded)
    realised = analysis.participation_report(mask).distance_to_uniform
    (folder.path / TABLE).write_text(f'# {config.title}\n\n{table.markdown()}')
    np.savez_compressed(folder.path / LINKS, mask=mask, prob=prob)
    pictures.overview(folder.path / PICTURE, config.title, recorded, mask, prob.mean(axis=0))
    print(f'\n{table.text()}')
    print(
        f"FedAvg's realised weights were {realised:.2f} from equal (L1, seed {config.first_seed})."
    )
    print(f'Wrote {runs.METRICS}, {runs.CONFIG}, {TABLE}, {PICTURE} and {LINKS} to {folder.path}')
