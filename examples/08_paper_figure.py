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
# # A paper's figure, and a question that it did not ask
#
# Figure 3 of Xiang et al. (2024) shows the distance to the optimum of FedAvg and FedPBC on
# quadratics made to defeat FedAvg, with independent links. First that figure, small. Then: what if
# the links have memory, with the same marginals? And how does FedAU do, which the figure lacks?

# %%
import matplotlib.pyplot as plt
import numpy as np

import fedjax_links as fl
from fedjax_links import analysis, evaluation, local_training, participation, problems

# %% [markdown]
# ## The setting
#
# 100 clients, F_i(x) = ||x - u_i||^2 / 2 in 100 dimensions, u_i around i / 1000 in each. Clients 1
# to 50 are reached with probability p0, the others with p1. The paper takes 100 local steps of size
# 1e-4. On these quadratics a round depends on both only through a = (1 - 1e-4)^100, the fraction of
# a distance that local steps leave. One step of size 1 - a is the same round, so we take one.

# %%
problem = problems.counterexample()
targets = np.asarray(problem.data, float)
rate = 1 - (1 - 1e-4) ** 100
client = local_training.local_sgd(rate, local_steps=1)
first_half = np.arange(100) < 50
pairs = np.array([[0.1, 0.9], [0.5, 0.5]])
num_rounds = 1000
seeds = range(8)


def distances(name, links, grid):
    """Returns distances to the optimum by candidate model, float[points, seeds, evaluations]."""
    result = fl.sweep(
        lambda: fl.ALGORITHMS[name](client),
        links,
        problem,
        seeds=seeds,
        grid={'participation': grid},
        num_rounds=num_rounds,
        eval_every=20,
    )
    return {
        model: np.asarray(x['distance'], float) for model, x in result.evals.items()
    }


# %%
probs = np.where(first_half, pairs[:, :1], pairs[:, 1:])
independent = {
    name: distances(name, participation.bernoulli, {'schedule': probs})
    for name in ('fedavg', 'fedpbc')
}
figure, row = plt.subplots(1, 2, figsize=(9, 3.4), sharey=True, layout='constrained')
for g, (first, second) in enumerate(pairs):
    curves = {name: of_models['server'][g] for name, of_models in independent.items()}
    rounds = np.arange(20, num_rounds + 1, 20)
    fl.plot.learning_curves(
        curves,
        'distance to the optimum',
        rounds=rounds,
        band='deviation',
        log=True,
        ax=row[g],
    )
    row[g].set_title(f'p0 = {first}, p1 = {second}', fontsize=9)

# %% [markdown]
# As in the paper: where links differ FedAvg stays away from the optimum, and FedPBC comes much
# closer; where they do not, both are near. The paper puts what remains of FedPBC's error down to
# pseudo-randomness. It is known exactly: the noise of the links, and a small bias of the server.

# %%
for g, (first, second) in enumerate(pairs):
    setting = (probs[g], targets, rate, 1)
    law = analysis.fedavg_mean_and_covariance(*setting, num_rounds=0)
    bias = law.limit_mean - targets.mean(axis=0)
    exact = {
        'fedavg': np.sum(bias**2) + np.trace(law.limit_covariance),
        'fedpbc': analysis.fedpbc_mean_and_covariance(
            *setting, num_rounds=0
        ).limit_server_mean_square,
    }
    for name, square in exact.items():
        # The last tenth of the rounds, one value per seed.
        squares = np.mean(independent[name]['server'][g, :, -5:] ** 2, axis=1)
        error = squares.std(ddof=1) / np.sqrt(len(squares))
        deviation = (squares.mean() - square) / error
        print(
            f'p0 {first}, p1 {second}, {name}: exact {square**0.5:.4f}, '
            f'simulated {squares.mean() ** 0.5:.4f}, {deviation:+.1f} standard errors'
        )
        assert abs(deviation) < 4.5

# %% [markdown]
# ## What if links have memory?
#
# Markov links with the same marginals, p0 = 0.1 and p1 = 0.9, and autocorrelation exp(-k / tau) at
# lag k. The shortest tau gives independent rounds; with tau = 30 a rare client is away for 300
# rounds on average. We add FedAU, which weighs a client by its mean waiting time.

# %%
times = [0.1, 3.0, 10.0, 30.0]


def with_memory(tau):
    return participation.markov(probs[0], correlation_time=tau)


remembering = {
    name: distances(name, with_memory, {'tau': times})
    for name in ('fedavg', 'fedau', 'fedpbc')
}
remembering['fedpbc (client mean)'] = {'server': remembering['fedpbc']['client_mean']}

# %%
figure, axes = plt.subplots(figsize=(5.6, 3.6), layout='constrained')
ends = {}
for name, style in fl.plot.assign_styles(remembering).items():
    ends[name] = remembering[name]['server'][:, :, -5:].mean(axis=2)
    level = evaluation.seed_interval(ends[name], axis=1)
    line = style.line('server') if 'mean' not in name else '--'
    axes.errorbar(
        times,
        level.mean,
        level.half_width,
        color=style.colour,
        linestyle=line,
        capsize=3,
        label=name,
    )
    print(
        f'{name}:',
        ', '.join(f'{m:.4f} ± {h:.4f}' for m, h in zip(*level[:2], strict=True)),
    )
axes.set(xscale='log', yscale='log', xlabel='correlation time tau, rounds')
axes.set_ylabel('distance to the optimum, round 900 to 1000')
axes.grid(alpha=0.25)
axes.legend(frameon=False, fontsize=8)

# %% [markdown]
# Memory leaves FedAvg's bias what it was: that depends on the law of a single round. FedPBC's
# server loses most of its lead; with tau = 30 it is ten times as far from the optimum as with
# independent rounds. FedAU starts level with it and suffers less. What no link can touch is the
# mean of FedPBC's client models: its distance falls by the factor a in every round, whatever the
# masks.
# So a claim about FedPBC has to say which model was evaluated, and under how much memory.

# %%
last = {name: values[-1] for name, values in ends.items()}
lead = evaluation.paired_interval(ends['fedpbc'].T, ends['fedau'].T)
print('FedPBC minus FedAU:', lead.mean.round(3), '±', lead.half_width.round(3))
assert (lead.mean[1:] > lead.half_width[1:]).all()
assert 5 < last['fedpbc'].mean() / ends['fedpbc'][0].mean() < 20
assert abs(last['fedavg'].mean() / ends['fedavg'][0].mean() - 1) < 0.1
start = np.linalg.norm(targets.mean(axis=0))
half_way = remembering['fedpbc']['client_mean'][:, :, 24]  # after 500 rounds
np.testing.assert_allclose(half_way, (1 - rate) ** 500 * start, rtol=1e-2)
