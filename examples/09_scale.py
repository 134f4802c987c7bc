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
# # A million clients, and several devices
#
# A round costs what its active clients cost. So a million clients are simulated as fast as ten
# thousand, if nothing is stored per client but two counters. Then the same runs on several devices:
# one argument, the same bits.

# %%
import time

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import fedjax_links as fl
from fedjax_links import local_training, participation, problems

# %% [markdown]
# The processor's cores pretend to be four devices, so that this runs anywhere. With GPUs leave this
# cell out. It has to come before JAX is first used.

# %%
jax.config.update('jax_num_cpu_devices', 4)
print(jax.device_count(), 'devices')

# %% [markdown]
# ## Examples that are made when a client trains
#
# `problems.generated` takes a function from a key and a client's number to its examples. Client i
# has the same ones in every round, and they are forgotten when it has trained. Here every client
# labels its points by the same direction, shifted a little by its number.

# %%
DIMENSION = 20
NUM_EXAMPLES = 16
COHORT_SIZE = 100
direction = jnp.linspace(-1.0, 1.0, DIMENSION)


def examples(key, client):
    features = jax.random.normal(key, (NUM_EXAMPLES, DIMENSION))
    shift = 0.5 * jnp.sin(client.astype(jnp.float32))
    labels = (features @ direction + shift > 0).astype(jnp.float32)
    return problems.Batch(features, labels)


def loss(params, batch):
    scores = batch.features @ params['slope'] + params['intercept']
    return jnp.mean(jax.nn.softplus(scores) - batch.labels * scores)


def federation(num_clients):
    return problems.generated(
        examples,
        num_clients=num_clients,
        init_params=lambda key: {
            'slope': jnp.zeros(DIMENSION),
            'intercept': jnp.zeros(()),
        },
        loss_fn=loss,
    )


algorithm = fl.ALGORITHMS['fedavg'](local_training.local_sgd(0.5, local_steps=2))

# %% [markdown]
# ## The cost of a round does not depend on N
#
# A cohort of 100, drawn uniformly, of ten thousand clients, and of a hundred times as many. They
# take turns, and the fastest turn counts: it is the one least disturbed by other programs. What
# matters is the ratio; the milliseconds are those of a busy machine.

# %%
NUM_ROUNDS = 100
sizes = [10_000, 1_000_000]


def program(num_clients):
    problem = federation(num_clients)
    links = participation.uniform_cohort(num_clients, COHORT_SIZE)

    @jax.jit
    def run(key):
        return fl.simulate(
            key, algorithm, links, problem, num_rounds=NUM_ROUNDS, eval_every=10
        )

    return run


programs = {num_clients: program(num_clients) for num_clients in sizes}
results = {
    n: jax.block_until_ready(run(jax.random.key(0))) for n, run in programs.items()
}
milliseconds = {n: [] for n in sizes}
for _ in range(3):
    for num_clients, run in programs.items():
        start = time.perf_counter()
        jax.block_until_ready(run(jax.random.key(0)))
        milliseconds[num_clients].append(
            1e3 * (time.perf_counter() - start) / NUM_ROUNDS
        )
best = {n: min(turns) for n, turns in milliseconds.items()}
for num_clients in sizes:
    print(f'{num_clients:>9,} clients: {best[num_clients]:.3f} ms per round')
assert best[1_000_000] < 4 * best[10_000]  # a hundred times as many clients

# %%
figure, row = plt.subplots(1, 2, figsize=(9, 3.2), layout='constrained')
row[0].bar(
    [f'{n:,}' for n in sizes], list(best.values()), 0.5, color=fl.plot.COLOURS[0]
)
row[0].set(xlabel='clients', ylabel='milliseconds per round')
curves = {f'{n:,} clients': result for n, result in results.items()}
axes = fl.plot.learning_curves(curves, 'loss', ax=row[1])

# %% [markdown]
# How many different clients took part? The counters in the state know. With uniform cohorts of B
# clients the expected number after T rounds is N (1 - (1 - B / N)^T). Its spread is almost that
# of the number of boxes that B T balls hit, each of them one of N boxes at random.

# %%
N = 1_000_000
B = COHORT_SIZE
T = NUM_ROUNDS
counts = np.asarray(results[N].state.counters.participation_count)
expected = N * (1 - (1 - B / N) ** T)
load = T * B / N
spread = np.sqrt(N * np.exp(-load) * (1 - (1 + load) * np.exp(-load)))
reached = np.count_nonzero(counts)
print(f'{reached:,} clients reached, {expected:,.0f} ± {spread:.0f} expected')
assert counts.sum() == B * T
assert abs(reached - expected) < 4 * spread

# %% [markdown]
# ## Several devices: lanes
#
# Seeds are independent, so each device takes its share of them. `sweep` uses all devices if nothing
# is said, and `devices=` says how many. Each compiles a program of its own: two are enough here.

# %%
links = participation.uniform_cohort(N, B)
problem = federation(N)


def swept(devices):
    return fl.sweep(
        lambda: algorithm,
        lambda: links,
        problem,
        seeds=range(4),
        num_rounds=50,
        eval_every=10,
        devices=devices,
    )


def same_bits(one, other):
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(np.array_equal(np.asarray(a), np.asarray(b)) for a, b in pairs)


one = swept(devices=1)
two = swept(devices=2)
print('4 seeds on one device and on two, the same bits:', same_bits(one, two))
assert same_bits(one, two)

# %% [markdown]
# ## Several devices: one run
#
# For a large model the devices share the clients of each round instead. That is what `mesh=` is
# for. Meshes of any size give the same bits; a run without a mesh agrees up to rounding.


# %%
def shared(count):
    mesh = fl.devices.mesh(count)

    @jax.jit
    def run(key):
        return fl.simulate(
            key, algorithm, links, problem, num_rounds=20, eval_every=10, mesh=mesh
        )

    return run(jax.random.key(0))


on_one = shared(1)
on_four = shared(4)
print('a mesh of one and a mesh of four, the same bits:', same_bits(on_one, on_four))
assert same_bits(on_one, on_four)
without = one.evals['server']['loss'][0, 0, :2]  # seed 0 of the sweep
print('with the mesh', on_four.evals['server']['loss'], 'without', without)
np.testing.assert_allclose(on_four.evals['server']['loss'], without, rtol=1e-5)
