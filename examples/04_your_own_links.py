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
# # Links of your own: a pattern, and a log
#
# Who can deliver in a round is drawn by a pattern, or read from a log of who was there. This
# example writes a pattern in which clients fail together. Then it reads a log of phones on chargers
# from a CSV file and replays it. It also makes any number of synthetic clients that behave as the
# phones do.

# %%
import csv
import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib import pyplot

from fedjax_links import analysis, base, participation, plot, prng, simulation, testing
from fedjax_links.participation import trace_formats

# %% [markdown]
# ## A pattern: clients under one mast
#
# Every client has a mast. A mast fails with probability `fail` per round and is repaired with
# probability `repair`; all its clients are unreachable meanwhile. Otherwise links are independent.
# The carry is what the pattern remembers: which masts are up. Algorithms that know the
# probabilities read `prob`.


# %%
def masts(mast_of, *, prob=0.8, fail=0.05, repair=0.2):
    """Makes client i deliver where its mast, a two-state chain, is up, and its own draw allows."""
    mast_of = jnp.asarray(mast_of)
    num_clients = len(mast_of)
    num_masts = int(mast_of.max()) + 1
    up_share = repair / (fail + repair)

    def init(key):
        return prng.uniform(key, (num_masts,)) < up_share

    def sample(up, key, round):
        draws = prng.uniform(key, (num_masts + num_clients,))
        up = jnp.where(up, draws[:num_masts] >= fail, draws[:num_masts] < repair)
        mask = up[mast_of] & (draws[num_masts:] < prob)
        return up, base.LinkSample(
            mask=mask, prob=jnp.full(num_clients, prob * up_share)
        )

    return base.Participation(init=init, sample=sample, num_clients=num_clients)


# %% [markdown]
# One call checks it: types, keys, `vmap`, and the frequencies against `prob`, in standard errors.

# %%
mast_of = np.repeat(np.arange(4), 5)
pattern = masts(mast_of)
testing.check_participation(pattern)

# %% [markdown]
# Clients of one mast are up together with probability p² π, those of two masts with p² π². Here π
# is the fraction of rounds in which a mast is up. Means are over 200 runs, so that standard errors
# are simple.

# %%
keys = jax.random.split(jax.random.key(0), 200)
draw = jax.jit(
    jax.vmap(lambda key: simulation.realised_links(key, pattern, num_rounds=200).mask)
)
runs = np.asarray(draw(keys), float)
pairs = {
    'one mast': (runs[:, :, 0] * runs[:, :, 1], 0.8**2 * 0.8),
    'two masts': (runs[:, :, 0] * runs[:, :, 5], 0.8**2 * 0.8**2),
}
errors = {}
for name, (both_up, exact) in pairs.items():
    share = both_up.mean(axis=1)
    standard_error = share.std(ddof=1) / np.sqrt(len(share))
    errors[name] = (share.mean() - exact) / standard_error
    print(f'{name}: {share.mean():.4f} ± {standard_error:.4f}, exact {exact:.4f}')

# %%
axes = plot.link_map(runs[0].astype(bool), order=range(20))

# %% [markdown]
# ## A log
#
# Here are twenty phones over a week, made up. Each charges overnight from its own hour on, and some
# are plugged in by day for a while. The file has a row per interval; its times are hours from
# midnight.

# %%
rng = np.random.default_rng(0)
path = Path(tempfile.mkdtemp()) / 'phones.csv'
with open(path, 'w', newline='') as file:
    writer = csv.writer(file)
    writer.writerow(['client', 'start', 'end'])
    for phone in range(20):
        bedtime = rng.uniform(21, 25)
        length = rng.uniform(5, 9)
        for day in range(7):
            lunch = 24 * day + rng.uniform(10, 18)
            if rng.random() < 0.4:
                writer.writerow(
                    [f'phone-{phone:02}', f'{lunch:.2f}', f'{lunch + 0.7:.2f}']
                )
            start = 24 * day + bedtime + rng.normal(0, 0.5)
            if rng.random() < 0.85 and start < 168:
                end = start + length + rng.normal(0, 0.7)
                writer.writerow([f'phone-{phone:02}', f'{start:.2f}', f'{end:.2f}'])
print(*path.read_text().splitlines()[:5], sep='\n')

# %% [markdown]
# ## Replayed
#
# A round every ten minutes. `availability` is the log as a matrix, `trace` the pattern that plays
# it and begins again after a week.

# %%
log = trace_formats.from_csv(path, unit='h')
rounds = 7 * 144
logged = participation.availability(log, tick=600, rounds=rounds, wrap='week')
replayed = participation.trace(log, tick=600, wrap='week')
played = simulation.realised_links(jax.random.key(0), replayed, num_rounds=rounds).mask
print('rounds, clients:', logged.shape, ' available:', f'{logged.mean():.1%}')

# %% [markdown]
# ## Synthetic clients
#
# A hundred clients come and go as the phones do. Each is a chain with the rates of one phone and
# the daily course that all share. They are independent of each other, as many as a study needs, and
# new with every seed.

# %%
synthetic = participation.synthetic_trace(log, num_clients=100, tick=600, wrap='week')
their_links = simulation.realised_links(
    jax.random.key(1), synthetic, num_rounds=10 * rounds
)
their_mask = np.asarray(their_links.mask)

figure, axes = pyplot.subplots(3, 1, figsize=(7.2, 7.5), layout='constrained')
plot.link_map(logged, num_rounds=rounds, ax=axes[0]).set_title('phones, as logged')
plot.link_map(their_mask[:rounds], num_rounds=rounds, ax=axes[1]).set_title(
    'a hundred synthetic clients'
)
days = {
    'phones': logged.reshape(7, 144, -1).mean(axis=2),
    'synthetic clients': their_mask[:rounds].reshape(7, 144, -1).mean(axis=2),
}
hours = np.arange(144) / 6
plot.learning_curves(
    days,
    'share available',
    rounds=hours,
    band='deviation',
    x_name='hour of the day',
    ax=axes[2],
)

# %% [markdown]
# The band is the standard deviation over the days of a week. What such links do to FedAvg can be
# read off them: the distance of its implicit weights from equal ones. Over one week, equal chains
# have unequal weights by chance. Over ten weeks the weights are nearer to equal.

# %%
weeks = {
    'phones': logged,
    'synthetic, one week': their_mask[:rounds],
    'synthetic, ten weeks': their_mask,
}
for name, mask in weeks.items():
    weights = analysis.effective_weights(masks=mask).weights
    distance = np.abs(weights - 1 / mask.shape[1]).sum()
    print(f'{name}: L1 distance {distance:.2f}')

# %% [markdown]
# Chance is not all: over ten weeks too the distance of synthetic clients is the larger one. Chains
# have no habits. The [page on logs](../docs/availability.md) says what they keep and what they do
# not.

# %%
# Of a day of the synthetic clients.
exact = np.asarray(their_links.prob[:144], float).mean(axis=1)
difference = (exact - days['phones'].mean(axis=0)).reshape(24, 6).mean(axis=1)
print('largest difference by hour:', np.abs(difference).max().round(3))
assert np.abs([*errors.values()]).max() < 4
assert np.array_equal(played, logged)
assert np.abs(difference).max() < 0.1
assert abs(difference.mean()) < 0.05
