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
# # Real images: what label-dependent links cost FedAvg
#
# Fashion-MNIST is 60,000 images of ten kinds of clothes. Fifty clients hold few kinds each.
# The uplink of a client depends on its kinds, so FedAvg averages few uploads of some kinds. The
# notebook shows how much each kind then counts, and what FedAU and FedPBC change.

# %%
import jax
import matplotlib.pyplot as plt
import numpy as np

import fedjax_links as fl
from fedjax_links import (
    analysis,
    datasets,
    local_training,
    participation,
    partition,
    plot,
    problems,
)

# %% [markdown]
# ## Data
#
# Where the images are missing, the next cell says in a line how to get them, and the rest runs on
# synthetic images.

# %%
try:
    data = datasets.published('fashion_mnist')
except ValueError as error:
    print(error)
    data = datasets.synthetic_images(num_train=6_000, num_test=1_000)
kinds = [
    'T-shirt',
    'trousers',
    'pullover',
    'dress',
    'coat',
    'sandal',
    'shirt',
    'sneaker',
    'bag',
    'boot',
]
print(f'{len(data.train_labels):,} training images, {len(data.test_labels):,} to test')

# %%
problem = problems.images(
    dataset=data,
    num_clients=50,
    model='softmax',
    partition='dirichlet',
    alpha=0.1,
    seed=0,
)
labels = np.asarray(problem.data.labels)
owners = problems.owners(problem)
figure, axes = plt.subplots(3, 10, figsize=(8, 2.6), layout='constrained')
for client, row in enumerate(axes):
    images = np.asarray(problem.data.features)[owners == client][:10]
    for image, ax in zip(images, row, strict=True):
        ax.imshow(image.squeeze(), cmap='gray_r')
        ax.set(xticks=[], yticks=[])
    row[0].set_ylabel(f'client {client}')

# %% [markdown]
# ## Links, and what they make of FedAvg's objective
#
# The probability of an uplink depends on the labels of its client. In a round with active clients
# A, FedAvg gives each the weight 1 / |A|. On average over rounds that is an implicit weight per
# client, known exactly, and so a weight per kind. Equal weights would give each kind a tenth.

# %%
mix = partition.class_mix(owners, labels)
probs = participation.label_dependent_probs(mix, sigma=10.0, minimum=0.02, seed=0)
weights = analysis.fedavg_weights(probs)
kind_weights = weights @ mix
print(f'uplinks deliver with probability {probs.min():.2f} to {probs.max():.2f}')
for kind, weight in zip(kinds, kind_weights, strict=True):
    print(f'{kind:<9} counts {weight:6.1%}')

# %% [markdown]
# ## Training
#
# Softmax regression, three local steps of 16 images, two seeds. The same seed means the same links
# and batches for all algorithms. An evaluation classifies all test images.

# %%
num_rounds = 400
eval_every = 50
client = local_training.local_sgd(0.05, local_steps=3, batch_size=16)


def accuracy(params, key, problem):
    """Computes the accuracy on the test images: of all, and of each kind."""
    del key
    (layer,) = params.values()
    pixels = problem.eval_data.features
    rows = pixels.reshape(len(pixels), -1)
    scale = 255 if pixels.dtype == np.uint8 else 1
    scores = rows / scale @ layer['kernel'] + layer['bias']
    is_correct = scores.argmax(axis=1) == problem.eval_data.labels
    is_kind = jax.nn.one_hot(problem.eval_data.labels, 10)
    by_kind = is_correct @ is_kind / is_kind.sum(axis=0)
    return {'accuracy': is_correct.mean(), 'by kind': by_kind}


def run(name):
    return fl.sweep(
        lambda: fl.ALGORITHMS[name](client),
        lambda: participation.bernoulli(probs),
        problem,
        seeds=range(2),
        num_rounds=num_rounds,
        eval_every=eval_every,
        eval_fn=accuracy,
    )


results = {name: run(name) for name in ('fedavg', 'fedau', 'fedpbc')}

# %%
curves = {
    name: {model: metrics['accuracy'][0] for model, metrics in result.evals.items()}
    for name, result in results.items()
}
rounds = np.arange(eval_every, num_rounds + 1, eval_every)
axes = plot.learning_curves(curves, 'accuracy', rounds=rounds)

# %% [markdown]
# ## By kind
#
# The mean over the last four evaluations of both seeds. FedPBC is read at the mean of its client
# models.

# %%
models = {'fedavg': 'server', 'fedau': 'server', 'fedpbc': 'client_mean'}
ends = {
    name: np.asarray(results[name].evals[model]['by kind'])[0, :, -4:].mean(axis=(0, 1))
    for name, model in models.items()
}
order = np.argsort(kind_weights)
figure, (left, right) = plt.subplots(
    1, 2, figsize=(8, 3.6), sharey=True, layout='constrained'
)
positions = np.arange(10)
left.barh(positions, 100 * kind_weights[order], color='0.6')
left.axvline(10, color='0.2', linewidth=1)
left.set(xlabel="weight in FedAvg's objective, %", yticks=positions)
left.set_yticklabels([kinds[i] for i in order])
for name, style in plot.assign_styles(ends).items():
    right.plot(100 * ends[name][order], positions, 'o', color=style.colour, label=name)
right.set_xlabel('accuracy, %')
right.grid(alpha=0.25)
right.legend(frameon=False, fontsize=8)
for name, values in ends.items():
    print(f'{name}: {values.mean():.1%} of all, worst kind {values.min():.1%}')

# %% [markdown]
# FedAU and FedPBC, which give all clients equal weight, are ahead in the mean over kinds. A single
# kind may lose. T-shirts, pullovers, coats and shirts look similar to a linear model, and a small
# change moves images from one of them to another. The [config](../configs/fashion_mnist.py) runs a
# similar experiment for longer and writes a page:
# `python -m fedjax_links simulate --config=fashion_mnist --workdir=runs/fashion_mnist`.

# %%
gain = ends['fedpbc'] - ends['fedavg']
print('FedPBC minus FedAvg by kind, points:', (100 * gain).round(1))
assert kind_weights.max() > 0.15
if len(data.train_labels) == 60_000:
    assert ends['fedpbc'].mean() > ends['fedavg'].mean()
