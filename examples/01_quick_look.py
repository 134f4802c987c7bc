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
# # Bias and its repair, in one picture
#
# Twenty clients learn to distinguish five Gaussian classes. Uplink probabilities depend on labels.
# FedAvg then learns the objective of the clients that deliver often; FedPBC learns that of all.
# Where each ends is computed before anything runs, and drawn as a line.

# %%
import jax.numpy as jnp
import numpy as np

import fedjax_links as fl
from fedjax_links import (
    analysis,
    evaluation,
    local_training,
    participation,
    partition,
    plot,
    problems,
)

# %% [markdown]
# ## Data and links
#
# A client's label shares are drawn from a Dirichlet law. `label_dependent_probs` makes the
# probability of its uplink a function of these shares, so that links and data are correlated. The
# classes overlap: no model reaches more than 80 %.

# %%
problem = problems.gaussians(
    num_clients=20, num_classes=5, bayes_accuracy=0.8, alpha=0.2, seed=1
)
labels = np.asarray(problem.data.labels)
owners = problems.owners(problem)
shares = partition.class_mix(owners, labels)
probs = participation.label_dependent_probs(shares, sigma=3.0, minimum=0.05, seed=2)
print('probabilities:', probs.round(2))

# %%
axes = plot.partition(problem)

# %% [markdown]
# ## What to expect
#
# In a round with active clients A, FedAvg gives weight 1 / |A| to each of them. Its objective is
# the weighted sum of the clients' losses with weights E[1{i in A} / |A|]. FedAvg-all always divides
# by N, so client i counts in proportion to p_i. FedPBC keeps the mean of all client models in place
# when it averages, so all count the same. A linear model's weighted loss has one minimiser, found
# in float64.

# %%
weights = {
    'fedavg': analysis.fedavg_weights(probs),
    'fedavg_all': probs / probs.sum(),
    'fedpbc': np.full(20, 1 / 20),
}
limits = {}
for name, shares_of_clients in weights.items():
    best = analysis.weighted_minimiser(
        problem.data.features, labels, owners, shares_of_clients
    )
    model = problem.objective.params(
        *(jnp.asarray(part, jnp.float32) for part in best.model)
    )
    limits[name] = float(problem.metrics(model, problem.eval_data)['accuracy'])
    print(f'{name}: {limits[name]:.1%} expected')

# %% [markdown]
# ## What happens
#
# Four seeds each, 1600 rounds, one compiled program per algorithm. The same seed means the same
# links and batches for all three.

# %%
client = local_training.local_sgd(0.05, local_steps=3, batch_size=20)


def run(name):
    return fl.sweep(
        lambda: fl.ALGORITHMS[name](client),
        lambda: participation.bernoulli(probs),
        problem,
        seeds=range(4),
        num_rounds=1600,
        eval_every=40,
    )


results = {name: run(name) for name in weights}
axes = plot.learning_curves(results, 'accuracy', levels=limits, window=3)
axes.set_ylim(0.6, 0.8)

# %% [markdown]
# ## In numbers
#
# The mean over the last quarter of the evaluations, one value per seed.

# %%
models = {'fedavg': 'server', 'fedavg_all': 'server', 'fedpbc': 'client_mean'}
ends = {
    name: np.asarray(results[name].evals[model]['accuracy'])[0, :, -10:].mean(axis=1)
    for name, model in models.items()
}
gain = evaluation.paired_interval(ends['fedpbc'], ends['fedavg'])
for name, values in ends.items():
    print(f'{name}: {values.mean():.1%}, expected {limits[name]:.1%}')
print(
    f'FedPBC minus FedAvg: {100 * gain.mean:.1f} ± {100 * gain.half_width:.1f} points'
)

# %% [markdown]
# The two biased algorithms end where they should to a fraction of a point. FedPBC ends a little
# below its line. The lines are limits of small steps, and a client that is away for long drifts
# towards its own optimum. A smaller rate takes it closer and takes longer.

# %%
assert abs(ends['fedavg'].mean() - limits['fedavg']) < 0.004
assert abs(ends['fedavg_all'].mean() - limits['fedavg_all']) < 0.006
assert abs(ends['fedpbc'].mean() - limits['fedpbc']) < 0.01
assert gain.mean - gain.half_width > 0.02
