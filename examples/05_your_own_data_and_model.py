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
# # Data and a model of your own
#
# A problem is arrays, an owner for each example, a way to draw parameters and a loss. So any
# library fits whose models can be called as pure functions. Here is one network in four forms: flax
# linen, flax nnx, a plain function, and a pair (init, apply) as Haiku's `transform` returns it.

# %%
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn
from flax import nnx
from sklearn import datasets

import fedjax_links as fl
from fedjax_links import local_training, participation, partition, plot, problems

# %% [markdown]
# ## Data, and who owns it
#
# 569 biopsies with thirty measurements each, malignant or benign; every fifth is kept for the test.
# A partitioner turns labels into owners. An array of your own does as well, such as the hospital.

# %%
features, labels = datasets.load_breast_cancer(return_X_y=True)
features = ((features - features.mean(axis=0)) / features.std(axis=0)).astype(
    np.float32
)
is_test = np.arange(len(labels)) % 5 == 0
train = (features[~is_test], labels[~is_test])
test = (features[is_test], labels[is_test])
owners = partition.dirichlet(train[1], num_clients=10, alpha=0.3, seed=0)
print(partition.report(owners, train[1]))


# %% [markdown]
# ## flax linen
#
# The short way: `from_flax` takes the module. Loss and metrics are those of classification.


# %%
class Network(nn.Module):
    """Maps thirty measurements by sixteen hidden units to two classes."""

    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Dense(16)(x))
        return nn.Dense(2)(x)


linen = problems.from_flax(*train, owners, module=Network(), eval_data=test)
axes = plot.partition(linen)

# %% [markdown]
# ## Any function
#
# The general way is `from_arrays`: `init_params` draws the parameters from a key, `loss_fn` is the
# mean loss of a batch, `metrics` what is measured. `classifier` has these three for anything that
# computes scores.


# %%
def classifier(init_params, scores):
    """Makes a problem of `scores(params, features)`, float[B, C]."""

    def loss(params, batch):
        losses = optax.softmax_cross_entropy_with_integer_labels(
            scores(params, batch.features), batch.labels
        )
        return losses.mean()

    def metrics(params, batch):
        predictions = scores(params, batch.features).argmax(axis=-1)
        is_right = predictions == batch.labels
        return {'loss': loss(params, batch), 'accuracy': is_right.mean()}

    return problems.from_arrays(
        *train,
        owners,
        init_params=init_params,
        loss_fn=loss,
        metrics=metrics,
        eval_data=test,
        larger_is_better=['accuracy'],
    )


# %% [markdown]
# ### A plain function
#
# The parameters are a list of pairs. They begin where those of the linen module begin, so that the
# two runs can be compared number by number. Weights from a file would do as well.


# %%
def as_pairs(key):
    """Returns the linen module's first parameters as [(kernel, bias), (kernel, bias)]."""
    layers = linen.init_params(key)
    return [
        (layers[f'Dense_{i}']['kernel'], layers[f'Dense_{i}']['bias']) for i in range(2)
    ]


def scores(params, x):
    (kernel, bias), (last_kernel, last_bias) = params
    return jax.nn.relu(x @ kernel + bias) @ last_kernel + last_bias


plain = classifier(as_pairs, scores)

# %% [markdown]
# ### flax nnx
#
# `nnx.split` parts a module into what is fixed, the graph, and a pytree of its parameters;
# `nnx.merge` puts them together inside the loss.


# %%
class Nnx(nnx.Module):
    """Defines the same network, with state of its own until it is split."""

    def __init__(self, rngs):
        self.hidden = nnx.Linear(30, 16, rngs=rngs)
        self.last = nnx.Linear(16, 2, rngs=rngs)

    def __call__(self, x):
        return self.last(nnx.relu(self.hidden(x)))


graph, _ = nnx.split(nnx.eval_shape(lambda: Nnx(nnx.Rngs(0))))
with_nnx = classifier(
    lambda key: nnx.split(Nnx(nnx.Rngs(key)))[1],
    lambda params, x: nnx.merge(graph, params)(x),
)


# %% [markdown]
# ### A pair (init, apply)
#
# Haiku's `hk.transform(f)` returns `init(rng, x)` and `apply(params, rng, x)`. This pair is written
# by hand, so that nothing need be installed; the line that takes it would be the same. Equinox has
# `eqx.partition(model, eqx.is_array)` and `eqx.combine` in the roles of nnx's split and merge.


# %%
class Transformed(NamedTuple):
    init: object
    apply: object


def init(rng, x):
    """Draws kernels by He's law, in a dictionary of modules as Haiku has it."""
    first, second = jax.random.split(rng)
    draw = jax.nn.initializers.he_normal()
    return {
        'hidden': {'w': draw(first, (x.shape[-1], 16)), 'b': jnp.zeros(16)},
        'last': {'w': draw(second, (16, 2)), 'b': jnp.zeros(2)},
    }


def apply(params, rng, x):
    hidden = jax.nn.relu(x @ params['hidden']['w'] + params['hidden']['b'])
    return hidden @ params['last']['w'] + params['last']['b']


pair = Transformed(init, apply)
haiku_like = classifier(
    lambda key: pair.init(key, train[0][:1]),
    lambda params, x: pair.apply(params, None, x),
)

# %% [markdown]
# ## Trained
#
# FedPBC over links that favour some clients, four seeds. Linen and the plain function give the same
# numbers, so their curves coincide. The other two draw their own first parameters.

# %%
client = local_training.local_sgd(0.05, local_steps=5, batch_size=16)
probs = np.linspace(0.1, 0.9, 10)
forms = {'linen': linen, 'plain': plain, 'nnx': with_nnx, 'pair': haiku_like}
results = {
    name: fl.sweep(
        lambda: fl.ALGORITHMS['fedpbc'](client),
        lambda: participation.bernoulli(probs),
        problem,
        seeds=range(4),
        num_rounds=100,
        eval_every=5,
    )
    for name, problem in forms.items()
}
axes = plot.learning_curves(results, 'loss')

# %%
ends = {
    name: np.asarray(result.evals['client_mean']['accuracy'])[0, :, -1]
    for name, result in results.items()
}
for name, accuracies in ends.items():
    print(
        f'{name}: {accuracies.mean():.1%} of the test examples, {accuracies.min():.1%} at least'
    )

# %% [markdown]
# If examples are too many to store, `problems.generated` makes those of a client when it trains.
# `PROBLEMS` lists the problems of the package, and [your data](../docs/howto/own_data.md) the data
# sets by name.

# %%
losses = {
    name: np.asarray(r.evals['client_mean']['loss']) for name, r in results.items()
}
np.testing.assert_allclose(losses['plain'], losses['linen'], rtol=1e-4)
assert all(accuracies.min() > 0.9 for accuracies in ends.values())
assert all(loss[0, :, -1].max() < 0.25 for loss in losses.values())
