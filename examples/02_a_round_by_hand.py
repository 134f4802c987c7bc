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
# # A round, composed by hand
#
# A round is a pure function of the algorithm's state, the links and a key. This notebook calls one
# round without `fl.simulate`, repeats its steps by hand, and shows that `fl.simulate` runs the same
# rounds.

# %%
import jax
import jax.numpy as jnp
import numpy as np
from matplotlib import pyplot

import fedjax_links as fl
from fedjax_links import (
    analysis,
    base,
    local_training,
    mixing,
    participation,
    plot,
    simulation,
)

# %% [markdown]
# ## Four clients
#
# Client i minimises F_i(x) = (x - u_i)² / 2, so its own optimum is u_i. The optimum of the mean is
# 3. One local step at rate 1/2 moves a client's model half the way to u_i. With FedPBC every client
# keeps its own model and trains it in every round. Active clients then average their models.

# %%
targets = np.array([0.0, 2.0, 4.0, 6.0])
problem = fl.problems.quadratic(targets[:, None])
algorithm = fl.ALGORITHMS['fedpbc'](local_training.local_sgd(0.5, local_steps=1))
key = jax.random.key(0)

state = algorithm.init(jnp.array([1.0]), problem)
print('server:', state.server, ' clients:', state.clients.ravel())

# %% [markdown]
# ## Links of one round
#
# The uplinks of clients 0 and 3 deliver. `prob` is for algorithms that know the probabilities.
# FedPBC does not read it.

# %%
links = base.LinkSample(
    mask=jnp.array([True, False, False, True]), prob=jnp.full(4, 0.5)
)
context = simulation.round_context(key, 0, links)
new_state, metrics = algorithm.round_step(state, context, problem)
print('active:', metrics.num_active, ' computing:', metrics.num_computing)

# %% [markdown]
# ## The same in two steps
#
# First all clients train. Then the mixing matrix W of the round applies: 1 / |A| between active
# clients, the identity elsewhere. Clients 1 and 2 trained as well, but their uploads were lost.

# %%
trained = state.clients + 0.5 * (targets[:, None] - state.clients)
matrix = mixing.mixing_matrix(links.mask)
mixed = matrix @ trained
print('client  before  trained  after')
for i in range(4):
    before = state.clients[i, 0]
    after = new_state.clients[i, 0]
    print(f'{i:6} {before:7.2f} {trained[i, 0]:8.2f} {after:6.2f}')
print('server:', new_state.server)

# %%
figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.8), layout='constrained')
plot.mixing_matrix(links.mask, ax=left).set_title('W of this round')
plot.mixing_matrix(analysis.expected_mixing_matrix([0.5] * 4), ax=right).set_title(
    'E[W], links 1/2'
)

# %% [markdown]
# W is symmetric and its rows sum to one, so it keeps the mean of the client models. That is why the
# active clients do not bias FedPBC. FedAvg has no such memory: it moves to the mean of the active
# clients.

# %%
fedavg = fl.ALGORITHMS['fedavg'](local_training.local_sgd(0.5, local_steps=1))
fedavg_state = fedavg.init(jnp.array([1.0]), problem)
new_fedavg_state, _ = fedavg.round_step(fedavg_state, context, problem)
print('mean of the client models:', trained.mean(), '->', new_state.clients.mean())
print("FedAvg's server:", new_fedavg_state.server)

# %% [markdown]
# ## Many rounds
#
# A pattern draws the links, and `realised_links` returns those of a run with this key.
# `fl.simulate` compiles a loop over `round_step` into one program.

# %%
probs = np.array([0.9, 0.5, 0.3, 0.1])
pattern = participation.bernoulli(probs)
links_of_run = simulation.realised_links(key, pattern, num_rounds=60)
step = jax.jit(algorithm.round_step)
states = [algorithm.init(problem.init_params(key), problem)]
for t in range(60):
    links = jax.tree.map(lambda a, t=t: a[t], links_of_run)
    context = simulation.round_context(key, t, links)
    state, _ = step(states[-1], context, problem)
    states.append(state)
run = fl.simulate(key, algorithm, pattern, problem, num_rounds=60)

# %%
figure, (above, below) = pyplot.subplots(
    2, 1, figsize=(7.2, 6), layout='constrained', height_ratios=(1, 2)
)
plot.link_map(links_of_run, order=range(4), ax=above)
models = np.stack([state.clients[:, 0] for state in states])
curves = {f'client {i}, p = {p}': models[:, i] for i, p in enumerate(probs)}
curves['mean of the clients'] = models.mean(axis=1)
curves['server'] = np.stack([state.server[0] for state in states])
plot.learning_curves(curves, 'parameter', rounds=np.arange(61), legend=False, ax=below)
below.axhline(targets.mean(), color='black', linewidth=0.8, label='optimum')
below.legend(
    fontsize=8, ncols=4, loc='upper center', bbox_to_anchor=(0.5, -0.12), frameon=False
)

# %% [markdown]
# An inactive client moves to its own target: client 3 is rarely active, so it stays near 6, and
# falls when its link comes up. The server averages only the active clients. The mean of all client
# models reaches the optimum as if all links were up. Key numbers:

# %%
np.testing.assert_allclose(trained.ravel(), [0.5, 1.5, 2.5, 3.5])
np.testing.assert_allclose(new_state.clients, mixed, atol=1e-6)
np.testing.assert_allclose(new_state.clients.ravel(), [2.0, 1.5, 2.5, 2.0])
np.testing.assert_allclose(new_fedavg_state.server, [2.0])
np.testing.assert_allclose(matrix, analysis.mixing_matrix([1, 0, 0, 1]), atol=1e-7)
np.testing.assert_allclose(matrix @ matrix, matrix, atol=1e-7)
np.testing.assert_allclose(states[-1].clients, run.state.algorithm.clients, atol=1e-6)
assert np.array_equal(
    run.state.counters.participation_count, links_of_run.mask.sum(axis=0)
)
assert abs(models[-1].mean() - targets.mean()) < 1e-3
