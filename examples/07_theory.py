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
# # Exact theory beside simulation
#
# `fedjax_links.analysis` computes in NumPy float64 what a simulation only estimates. That is the
# objective that FedAvg really minimises, where and how fast models go, how fast gossip mixes, and
# who is selected how often. Here each is drawn beside simulated values, and differences are in
# standard errors.

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import fedjax_links as fl
from fedjax_links import (
    analysis,
    local_training,
    mixing,
    participation,
    problems,
    simulation,
)
from fedjax_links.problems import models


def deviations(values, exact):
    """Returns means over seeds, the first axis, minus exact values, in standard errors."""
    error = np.std(values, axis=0, ddof=1) / np.sqrt(len(values))
    return (np.mean(values, axis=0) - exact) / error


# %% [markdown]
# ## The objective that FedAvg minimises
#
# FedAvg averages over the active clients. So client i counts with weight
# w_i = E[1{i in A} / |A|], given that anybody is. On F_i(x) = (x - u_i)^2 / 2 the expected model
# tends to the sum of w_i u_i, whatever the rate. FedPBC's client mean tends to the optimum; its
# server model lies between, at a point that is known too.

# %%
probs = np.array([0.05, 0.1, 0.3, 0.5, 0.7, 0.9])
targets = np.array([[10.0], [8.0], [6.0], [4.0], [2.0], [0.0]])
weights = analysis.fedavg_weights(probs)
rate = 0.02
steps = 5
num_rounds = 100
pbc_limit = analysis.fedpbc_fixed_point(probs, targets, rate, steps)
limits = {
    'fedavg': float(weights @ targets[:, 0]),
    'fedpbc': float(pbc_limit.server[0]),
}
print('weights', weights.round(3), 'instead of', round(1 / 6, 3))
print('limits', limits, 'optimum', targets.mean())

# %%
problem = problems.quadratic(targets)
client = local_training.local_sgd(rate, local_steps=steps)


def run(name):
    return fl.sweep(
        lambda: fl.ALGORITHMS[name](client),
        lambda: participation.bernoulli(probs),
        problem,
        seeds=range(500),
        num_rounds=num_rounds,
        eval_every=5,
        eval_fn=lambda params, key, problem: params[0],
        batching='vmap',
    )


points = {name: run(name) for name in ('fedavg', 'fedpbc')}
curves = {
    name: {model: np.asarray(x[0], float) for model, x in result.evals.items()}
    for name, result in points.items()
}
rounds = np.arange(5, num_rounds + 1, 5)
axes = fl.plot.learning_curves(
    curves, 'parameter', model='all', rounds=rounds, levels=limits
)
law = analysis.fedavg_mean_and_covariance(
    probs, targets, rate, steps, num_rounds=num_rounds
)
axes.plot(
    rounds, law.mean[rounds, 0], 'o', color=fl.plot.EXACT, markersize=3, label='exact'
)
axes.axhline(targets.mean(), color=fl.plot.EXACT, linewidth=0.8)
axes.legend(frameon=False, fontsize=8)

# %% [markdown]
# Dotted lines are limits, the black line is the optimum, dots are FedAvg's exact mean at a round.
# The mean of FedPBC's client models follows its exact path in every run: averaging keeps it.

# %%
pbc = analysis.fedpbc_mean_and_covariance(
    probs, targets, rate, steps, num_rounds=num_rounds
)
fedavg_deviations = deviations(curves['fedavg']['server'], law.mean[rounds, 0])
fedpbc_deviations = deviations(curves['fedpbc']['server'], pbc.server_mean[rounds, 0])
print('FedAvg, every fifth round:', fedavg_deviations.round(1))
print('FedPBC, every fifth round:', fedpbc_deviations.round(1))
assert abs(fedavg_deviations).max() < 4
assert abs(fedpbc_deviations).max() < 4
every_run = np.broadcast_to(
    pbc.client_mean[rounds, 0], curves['fedpbc']['client_mean'].shape
)
np.testing.assert_allclose(curves['fedpbc']['client_mean'], every_run, rtol=1e-4)

# %% [markdown]
# ## Beyond quadratics
#
# A linear model's weighted loss has one minimiser, and `weighted_minimiser` finds it. Small steps
# end there; by how much steps of finite size miss it, to first order, `fedavg_finite_steps` says.
# Below, the intercepts of a softmax regression whose links follow the labels.

# %%
num_clients = 6
num_each = 40
num_classes = 3
rng = np.random.default_rng(0)
chances = rng.dirichlet(np.full(num_classes, 0.5), num_clients)
labels = np.concatenate(
    [rng.choice(num_classes, num_each, p=chance) for chance in chances]
)
owners = np.repeat(np.arange(num_clients), num_each)
features = rng.normal(size=(num_classes, 2))[labels] + rng.normal(size=(len(labels), 2))
shares_of_0 = np.mean((labels == 0).reshape(num_clients, num_each), axis=1)
link_probs = 0.1 + 0.8 * shares_of_0
data = problems.from_flax(features, labels, owners, module=models.Softmax(num_classes))

examples = (features, labels, owners)
equal_weights = np.full(num_clients, 1 / num_clients)
implicit_weights = analysis.fedavg_weights(link_probs)
plain = analysis.weighted_minimiser(*examples, equal_weights).model
implicit = analysis.weighted_minimiser(*examples, implicit_weights).model
finite = analysis.fedavg_finite_steps(
    *examples, link_probs, learning_rate=0.1, local_steps=3
)
trained = fl.sweep(
    lambda: fl.ALGORITHMS['fedavg'](local_training.local_sgd(0.1, local_steps=3)),
    lambda: participation.bernoulli(link_probs),
    data,
    seeds=range(32),
    num_rounds=800,
    eval_every=10,
    eval_fn=lambda params, key, problem: problem.objective.coefficients(params)[1],
    batching='vmap',
)
ends = np.asarray(trained.evals['server'], float)[0, :, 40:].mean(axis=1)
print('equal weights   ', plain.intercept.round(3))
print('implicit weights', implicit.intercept.round(3))
print('finite steps    ', finite.intercept.round(3))
print('simulated       ', ends.mean(axis=0).round(3))
print(
    'from equal weights   ',
    deviations(ends, plain.intercept).round(1),
    'standard errors',
)
print('from implicit weights', deviations(ends, implicit.intercept).round(1))
print('from finite steps    ', deviations(ends, finite.intercept).round(1))
assert abs(deviations(ends, finite.intercept)).max() < 4
assert abs(deviations(ends, plain.intercept)).max() > 20

# %% [markdown]
# ## How fast gossip mixes
#
# A round of FedPBC multiplies the client models by a random matrix W, which averages the active
# ones. Its mean M = E[W] is known, and so is the rate rho = lambda_2(M). On average a round leaves
# at most the fraction rho of the disagreement. Along the second eigenvector it leaves just that.

# %%
pattern = participation.bernoulli(probs)
expected = analysis.expected_mixing_matrix(probs)
rho = analysis.mixing_rate(probs)
slowest = np.linalg.eigh(expected)[1][:, -2]


def disagreement(key):
    def advance(x, mask):
        x = mixing.mix(mask, x)
        return x, jnp.sum((x - jnp.mean(x)) ** 2)

    masks = simulation.realised_links(key, pattern, num_rounds=40).mask
    return masks, jax.lax.scan(advance, jnp.asarray(slowest, jnp.float32), masks)[1]


masks, left = jax.jit(jax.vmap(disagreement))(jax.random.split(jax.random.key(0), 2000))
left = np.asarray(left, float)
one_round = deviations(left[:, 0], rho)
print(
    f'rho {rho:.4f}, after one round {left[:, 0].mean():.4f}, {one_round:+.1f} standard errors'
)
print(f'published bound {analysis.mixing_rate_bound(probs):.6f}')
entries = analysis.mixing_matrix(np.asarray(masks[:, 0]))
off = np.triu_indices(len(probs), 1)
entry_deviations = deviations(entries[:, *off], expected[off])
print('entries of E[W]:', entry_deviations.round(1))
assert abs(one_round) < 4
assert abs(entry_deviations).max() < 4
times = np.arange(1, 41)
assert (deviations(left, rho**times) < 4).all()

# %%
figure, row = plt.subplots(1, 3, figsize=(10.5, 3), layout='constrained')
fl.plot.mixing_matrix(expected, colorbar=False, ax=row[0]).set_title(
    'exact E[W]', fontsize=9
)
realised = entries.mean(axis=0)
fl.plot.mixing_matrix(realised, ax=row[1]).set_title('mean of 2000 W', fontsize=9)
fl.plot.learning_curves(
    {'simulated': left}, 'disagreement', rounds=times, legend=False, ax=row[2]
)
row[2].plot(times, rho**times, 'o', color=fl.plot.EXACT, markersize=3, label='rho^t')
row[2].plot(times, analysis.mixing_rate_bound(probs) ** times, ':', color=fl.plot.EXACT)
row[2].set_ylim(0, 1.05)

# %% [markdown]
# Dots are rho to the power t, the dotted line is the published bound. After the first round the
# models are no longer along the slowest direction, and disagreement falls a little faster than rho.

# %% [markdown]
# ## Who is selected under a minimum separation
#
# A client that took part waits R rounds. The share of the selections that falls on it has a closed
# form, and tends to uniform as R grows.

# %%
masses = (1.0 + np.arange(12)) ** -1.5
exact = analysis.minimum_separation_curve(masses)
figure, row = plt.subplots(1, 2, figsize=(9, 3.4), layout='constrained')
for separation, style in fl.plot.assign_styles(['0', '3', '7', '11']).items():
    waiting = participation.minimum_separation(masses, separation=int(separation))

    def selections(key, waiting=waiting):
        return simulation.realised_links(key, waiting, num_rounds=500).mask[100:]

    chosen = jax.jit(jax.vmap(selections))(jax.random.split(jax.random.key(1), 64))
    shares = np.asarray(chosen, float).mean(axis=1)
    label = f'R = {separation}'
    row[0].plot(
        1 + np.arange(12), exact[int(separation)], '-', color=style.colour, label=label
    )
    row[0].plot(
        1 + np.arange(12), shares.mean(axis=0), 'o', color=style.colour, markersize=4
    )
    if separation == '11':  # nothing is random any more
        np.testing.assert_allclose(shares, 1 / 12, atol=1 / 400)
        continue
    largest = abs(deviations(shares, exact[int(separation)])).max()
    print(f'{label}: largest of 12 deviations {largest:.1f} standard errors')
    assert largest < 4
row[0].set(xlabel='client', ylabel='share of the selections')
row[0].legend(frameon=False, fontsize=8)
row[1].plot(np.arange(12), abs(exact - 1 / 12).sum(axis=1), 'o-', color=fl.plot.EXACT)
row[1].set(xlabel='separation R', ylabel='L1 distance to uniform, exact')
for axes in row:
    axes.grid(alpha=0.25)
