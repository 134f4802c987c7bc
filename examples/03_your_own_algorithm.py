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
# # An algorithm of your own
#
# FedLin (Mitra et al. 2021) is not in the package. [fedlin.py](fedlin.py) has it in thirty lines,
# and nothing else is edited: it is checked by the conformance suite, run from a notebook, swept
# over rates, and compared with FedAvg by the same command that runs everything else.

# %%
import inspect
import subprocess
import sys
import tempfile
from pathlib import Path

import fedlin
import jax
import numpy as np
from matplotlib import pyplot

import fedjax_links as fl
from fedjax_links import (
    analysis,
    evaluation,
    local_training,
    participation,
    plot,
    testing,
)

print(inspect.getsource(fedlin.fedlin))

# %% [markdown]
# `train_cohort` is the paper's "for each client": its body is written for one client, with the row
# that this client keeps. `train` takes the local steps; `correction` is added to every gradient.
# FedLin goes over the cohort twice, since clients need the mean of the gradients before they move.
#
# ## Checked in one call
#
# Unavailable clients never influence the server, the order of clients does not matter, a run in
# pieces is the run in one, `jit`, `vmap` and eager agree, an empty round is defined, types are
# stable, float64 agrees with float32. What does not hold for a method is switched off by name: with
# full participation FedLin is not FedAvg, and its clients take the gradient of all their examples,
# not of their batches alone.

# %%
testing.check_algorithm(
    fedlin.fedlin, full_participation_is_fedavg=False, trains_on_batches=False
)

# %% [markdown]
# ## The same rule as a NumPy loop
#
# The suite cannot know whether this is FedLin. A loop in float64 over the links that the run met
# does.

# %%
targets = np.random.default_rng(0).normal(size=(6, 3))
problem = fl.problems.quadratic(targets)
probs = np.array([0.9, 0.7, 0.5, 0.3, 0.2, 0.1])
pattern = participation.bernoulli(probs)
key = jax.random.key(0)
algorithm = fedlin.fedlin(local_training.local_sgd(0.05, local_steps=4))
run = fl.simulate(key, algorithm, pattern, problem, num_rounds=100)

server = np.zeros(3)
gradients = np.zeros((6, 3))
for mask in np.asarray(fl.simulation.realised_links(key, pattern, num_rounds=100).mask):
    gradients[mask] = server - targets[mask]
    mean_gradient = gradients.mean(axis=0)
    updates = []
    for i in np.flatnonzero(mask):
        model = server.copy()
        for _ in range(4):
            gradient = model - targets[i]
            model -= 0.05 * (gradient - gradients[i] + mean_gradient)
        updates.append(model - server)
    if updates:
        server = server + np.mean(updates, axis=0)
difference = np.abs(run.state.algorithm.server - server).max()
print(f'largest difference to the loop: {difference:.1e}')

# %% [markdown]
# ## Swept
#
# A rate is a number inside one compiled program. FedLin ends at the optimum, to
# rounding, at every rate here; FedAvg would end where its implicit weights have it, which is known.

# %%
rates = [0.02, 0.05, 0.1]
swept = fl.sweep(
    lambda rate: fedlin.fedlin(local_training.local_sgd(rate, local_steps=4)),
    lambda: pattern,
    problem,
    seeds=range(5),
    grid={'algorithm': {'rate': rates}},
    num_rounds=300,
    eval_every=10,
)
distances = np.asarray(swept.evals['server']['distance'])
bias = np.linalg.norm(
    analysis.fedavg_fixed_point(probs, targets) - targets.mean(axis=0)
)
axes = plot.learning_curves(
    {f'rate {rate}': distances[g] for g, rate in enumerate(rates)},
    'distance to the optimum',
    rounds=10 * np.arange(1, 31),
    log=True,
)
axes.axhline(bias, color='black', linestyle=':', label='FedAvg, exact limit')
axes.legend(fontsize=8)

# %% [markdown]
# ## Run by the command
#
# [fedlin_config.py](fedlin_config.py) names it `fedlin:fedlin`, a function of a file beside the
# config. Resuming, reports, tables and pictures come with that.

# %%
folder = Path(fedlin.__file__).parent
workdir = tempfile.mkdtemp()
command = [sys.executable, '-m', 'fedjax_links', 'simulate']
command += [f'--config={folder / "fedlin_config.py"}', f'--workdir={workdir}']
subprocess.run(command, capture_output=True, text=True, check=True)
results = fl.runs.read(workdir)

# %% [markdown]
# ## Compared
#
# Both algorithms met the same federations, links and batches, seed by seed, so the interval is that
# of the paired difference. It is over draws of the federation too: the command redraws data,
# partition and link probabilities with each seed.

# %%
ends = {}
for name in ('fedavg', 'fedlin'):
    last = (results['algorithm'] == name) & (results['round'] > 300)
    scores = results['server/eval_accuracy'][last]
    ends[name] = scores.reshape(8, -1).mean(axis=1)
gain = evaluation.paired_interval(ends['fedlin'], ends['fedavg'])
print(
    f'FedLin minus FedAvg: {100 * gain.mean:.1f} ± {100 * gain.half_width:.1f} points'
)

# %%
figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 3.8), layout='constrained')
plot.learning_curves(results, ax=left)
axes = plot.paired_differences(ends, 'fedavg', 'accuracy', ax=right)

# %%
lines = inspect.getsource(fedlin.fedlin).splitlines()
assert len([line for line in lines if line.strip()]) <= 40
assert difference < 1e-5
assert distances[:, :, -1].max() < 1e-5 < bias
assert gain.mean - gain.half_width > 0
