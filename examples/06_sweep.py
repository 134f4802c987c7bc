# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     name: python3
# ---

# %% [markdown]
# # A sweep over rates, links and seeds in one program
#
# Which learning rate do FedAvg and FedPBC want, and does it follow the quality of the links? That
# takes a grid of rates and of links, and seeds for error bars: hundreds of runs of each algorithm.
# They are one compiled program, and on quadratics theory knows what every point should give.

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import fedjax_links as fl
from fedjax_links import (
    analysis,
    evaluation,
    local_training,
    participation,
    problems,
    sweeps,
)

# %% [markdown]
# Ten clients with F_i(x) = ||x - u_i||^2 / 2. The first five are reached in 90 % of the rounds, the
# other five with probability `worst`; and it is the latter whose optima lie further out.

# %%
NUM_CLIENTS = 10
NUM_ROUNDS = 120
LOCAL_STEPS = 5
rarely = np.arange(NUM_CLIENTS) >= NUM_CLIENTS // 2
centres = np.where(rarely, 3.0, 1.0)[:, None]
targets = np.random.default_rng(0).normal(centres, 0.5, (NUM_CLIENTS, 4))
problem = problems.quadratic(targets)

# %% [markdown]
# ## Two makers and a grid
#
# `sweep` takes what builds the algorithm and what builds the links, each from its own columns of
# the grid. First each value builds its algorithm once, so that a wrong one is refused at once. Then
# the values are traced: makers run once per trace of the program and not once per point. Counting
# those calls counts the traces, and each trace is one compilation.

# %%
traced = []


def algorithm(name, learning_rate):
    if isinstance(learning_rate, jax.core.Tracer):
        traced.append(name)
    client = local_training.local_sgd(learning_rate, local_steps=LOCAL_STEPS)
    return fl.ALGORITHMS[name](client)


def links(worst):
    return participation.bernoulli(jnp.where(rarely, worst, 0.9))


rates = [0.001, 0.002, 0.004, 0.008, 0.016, 0.032]
worsts = [0.05, 0.1, 0.2, 0.4, 0.9]
seeds = range(64)
grid = sweeps.product(
    algorithm={'learning_rate': rates}, participation={'worst': worsts}
)


def run(name):
    return fl.sweep(
        lambda learning_rate: algorithm(name, learning_rate),
        links,
        problem,
        seeds=seeds,
        grid=grid,
        num_rounds=NUM_ROUNDS,
        eval_every=NUM_ROUNDS,
        batching='vmap',
        devices=1,
    )


results = {name: run(name) for name in ('fedavg', 'fedpbc')}
num_points, num_seeds, _ = results['fedavg'].evals['server']['distance'].shape
print(
    f'{num_points} points x {num_seeds} seeds = {num_points * num_seeds} runs of each'
)
print('traces:', traced)
assert traced == ['fedavg', 'fedpbc']

# %% [markdown]
# `batching='vmap'` has all runs advance side by side. On a CPU the default is one after the other,
# still in one program; then each has the bits of a `simulate` of its own. Side by side they agree
# with it up to rounding:

# %%
point = 17
seed = 5
alone = fl.simulate(
    jax.random.key(seed),
    algorithm('fedavg', float(grid['algorithm']['learning_rate'][point])),
    links(float(grid['participation']['worst'][point])),
    problem,
    num_rounds=NUM_ROUNDS,
    eval_every=NUM_ROUNDS,
)
together = results['fedavg'].evals['server']['distance'][point, seed]
print('in the sweep', together, 'alone', alone.evals['server']['distance'])
np.testing.assert_allclose(together, alone.evals['server']['distance'], rtol=1e-4)

# %% [markdown]
# ## As a table
#
# One row per point, seed and evaluation, with the columns of the grid.

# %%
try:
    table = results['fedavg'].to_pandas(seeds=seeds, grid=grid)
except ImportError as error:
    print(error)
else:
    assert len(table) == num_points * num_seeds
    table = table.rename(
        columns={'algorithm.learning_rate': 'rate', 'participation.worst': 'p'}
    )
    print(
        table.groupby(['rate', 'p'])['server/distance']
        .mean()
        .unstack()
        .round(2)
        .to_string()
    )

# %% [markdown]
# ## Results
#
# The pictures have the distance of the server's model to the optimum after 120 rounds, in the mean
# over seeds. The last one has the difference of the two. Cells are hatched where its 95 % interval
# includes zero. All algorithms of a seed have the same links, so the differences are paired.

# %%
shape = (len(rates), len(worsts), num_seeds)
distances = {
    name: np.asarray(result.evals['server']['distance'], float).reshape(shape)
    for name, result in results.items()
}
difference = evaluation.paired_interval(
    np.moveaxis(distances['fedpbc'], -1, 0), np.moveaxis(distances['fedavg'], -1, 0)
)
figure, row = plt.subplots(1, 3, figsize=(10.5, 3.2), layout='constrained')
cells = {'x': ('probability of the worse links', worsts), 'y': ('learning rate', rates)}
means = {name: values.mean(axis=-1) for name, values in distances.items()}
least = min(mean.min() for mean in means.values())
most = max(mean.max() for mean in means.values())  # one scale of colours for both
for ax, (name, mean) in zip(row, means.items(), strict=False):
    fl.plot.heat_map(
        mean,
        **cells,
        least=least,
        most=most,
        around_zero=False,
        texts='.2f',
        colorbar=False,
        ax=ax,
    )
    ax.set_title(f'{name}: distance', fontsize=9)
unclear = ~difference.excludes_zero
axes = fl.plot.heat_map(
    difference.mean, **cells, texts='+.2f', reverse=True, unclear=unclear, ax=row[2]
)
axes.set_title('FedPBC minus FedAvg', fontsize=9)
best_rows = means['fedpbc'].argmin(axis=0)
best_rates = {p: rates[best] for p, best in zip(worsts, best_rows, strict=True)}
print('best rates of FedPBC:', best_rates)
assert (np.diff(best_rows) >= 0).all()
assert best_rows[0] < best_rows[-1]

# %% [markdown]
# Where links differ, FedAvg is left with its bias from a rate of 0.008 on, and no rate removes it.
# FedPBC has a best rate, and it is smaller where links differ: long absences let clients drift, and
# small steps keep the drift small. Where all links are equally good there is no bias to correct;
# rates that are too small for 120 rounds are so for both.

# %% [markdown]
# ## The best rate, without fooling oneself
#
# The least of many means is too good by chance. So half of the seeds choose the rate, and the other
# half say how good it is, with a 95 % interval.

# %%
column = worsts.index(0.1)
judged = {}
for name, values in distances.items():
    best = int(values[:, column, :32].mean(axis=-1).argmin())
    judged[name] = values[best, column, 32:]
    level = evaluation.seed_interval(judged[name])
    print(
        f'{name}: rate {rates[best]:g}, distance {level.mean:.3f} ± {level.half_width:.3f}'
    )
gain = evaluation.paired_interval(judged['fedpbc'], judged['fedavg'])
print(f'FedPBC minus FedAvg: {gain.mean:.2f} ± {gain.half_width:.2f}')
assert gain.mean + gain.half_width < -0.3

# %% [markdown]
# ## Against exact theory
#
# On quadratics the mean square distance after any number of rounds is known: two times thirty
# comparisons, in standard errors.


# %%
def exact_square(name, rate, worst):
    probs = np.where(rarely, worst, 0.9)
    setting = (probs, targets, rate, LOCAL_STEPS)
    if name == 'fedpbc':
        law = analysis.fedpbc_mean_and_covariance(*setting, num_rounds=NUM_ROUNDS)
        return law.server_mean_square[-1]
    law = analysis.fedavg_mean_and_covariance(*setting, num_rounds=NUM_ROUNDS)
    bias = law.mean[-1] - targets.mean(axis=0)
    return np.sum(bias**2) + law.variance[-1].sum()


for name, values in distances.items():
    exact = np.array(
        [[exact_square(name, rate, worst) for worst in worsts] for rate in rates]
    )
    squares = values**2
    errors = squares.std(axis=-1, ddof=1) / np.sqrt(num_seeds)
    deviations = (squares.mean(axis=-1) - exact) / errors
    print(
        f'{name}: the largest of {exact.size} deviations is {abs(deviations).max():.1f}'
    )
    assert abs(deviations).max() < 4.5
