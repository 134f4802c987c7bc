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
# FedLin (Mitra et al. 2021) is not in the package. [fedlin.py](fedlin.py) has it in fifty lines,
# and nothing else changes. This notebook checks it by the conformance suite, runs it, sweeps it
# over rates, and compares it with FedAvg by the usual command.

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
# `train_cohort` is the paper's "for each client". Its body is written for one client, with the row
# that this client keeps. `train` takes the local steps, and adds `correction` to every gradient.
# FedLin trains the cohort twice, since clients need the mean of the gradients before they move.
#
# ## Check it in one call
#
# The suite checks, for example, that unavailable clients never influence the server and that the
# order of clients does not matter. It also checks that a resumed run equals an uninterrupted one. A
# keyword switches off what does not hold for an algorithm. With full participation FedLin is not
# FedAvg. Its clients take the gradient of all their examples, not only of their batches.

# %%
testing.check_algorithm(
    fedlin.fedlin, full_participation_is_fedavg=False, trains_on_batches=False
)

# %% [markdown]
# ## Compare it with a NumPy loop
#
# The suite cannot know whether this is FedLin. So compare it with a loop in float64 over the links
# of the run.

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
# ## Sweep it
#
# A rate is a number inside one compiled program. FedLin ends at the optimum, to rounding, at every
# rate here. FedAvg would end at the limit that its implicit weights give, which is known exactly.

# %%
rates = [0.02, 0.05, 0.1]
sweep_result = fl.sweep(
    lambda rate: fedlin.fedlin(local_training.local_sgd(rate, local_steps=4)),
    lambda: pattern,
    problem,
    seeds=range(5),
    grid={'algorithm': {'rate': rates}},
    num_rounds=300,
    eval_every=10,
)
distances = np.asarray(sweep_result.evals['server']['distance'])
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
# ## Run it by the command
#
# [fedlin_config.py](fedlin_config.py) names it `fedlin:fedlin`, a function in a file beside the
# config. Such a run can be resumed, and has reports, tables and pictures.

# %%
folder = Path(fedlin.__file__).parent
workdir = tempfile.mkdtemp()
command = [sys.executable, '-m', 'fedjax_links', 'simulate']
command += [f'--config={folder / "fedlin_config.py"}', f'--workdir={workdir}']
subprocess.run(command, capture_output=True, text=True, check=True)
results = fl.runs.read(workdir)

# %% [markdown]
# ## Compare it with FedAvg
#
# At each seed both algorithms have the same federation, links and batches, so the interval is that
# of the paired difference. Each seed also redraws data, partition and link probabilities, so the
# interval covers these draws.

# %%
final_accuracies = {}
for name in ('fedavg', 'fedlin'):
    last = (results['algorithm'] == name) & (results['round'] > 300)
    scores = results['server/eval_accuracy'][last]
    final_accuracies[name] = scores.reshape(8, -1).mean(axis=1)
gain = evaluation.paired_interval(
    final_accuracies['fedlin'], final_accuracies['fedavg']
)
print(
    f'FedLin minus FedAvg: {100 * gain.mean:.1f} ± {100 * gain.half_width:.1f} points'
)

# %%
figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 3.8), layout='constrained')
plot.learning_curves(results, ax=left)
axes = plot.paired_differences(final_accuracies, 'fedavg', 'accuracy', ax=right)

# %%
lines = inspect.getsource(fedlin.fedlin).splitlines()
assert len([line for line in lines if line.strip()]) <= 40
assert difference < 1e-5
assert distances[:, :, -1].max() < 1e-5 < bias
assert gain.mean - gain.half_width > 0
