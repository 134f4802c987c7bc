"""Functions of a user: first those that do not fit, at the end one of each kind that does."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn

from fedjax_links import base, local_training, problems


def _algorithm(init=None, round_step=None, models=None, loss_sum=0.0):
    def default_init(params, problem):
        return {'server': params}

    def default_step(state, context, problem):
        loss = jnp.asarray(loss_sum)
        return state, base.RoundMetrics(jnp.int32(0), jnp.int32(0), loss, {})

    return base.Algorithm(
        init or default_init, round_step or default_step, models or dict
    )


def init_of_params(local_train):
    return _algorithm(init=lambda params: params)


def step_without_problem(local_train):
    return _algorithm(round_step=lambda state, context: state)


def models_of_two(local_train):
    return _algorithm(models=lambda state, problem: state)


def vector_of_losses(local_train):
    return _algorithm(loss_sum=[1.0, 2.0])


def _pattern(num_clients, init=lambda key: (), sample=None, mask_type=bool):
    def default_sample(carry, key, round):
        mask = jnp.ones(num_clients, mask_type)
        return carry, base.LinkSample(mask, jnp.ones(num_clients))

    return base.Participation(init, sample or default_sample, num_clients)


def sample_without_carry(num_clients):
    return _pattern(num_clients, sample=lambda key, round: ((), None))


def init_without_key(num_clients):
    return _pattern(num_clients, init=lambda: ())


def mask_of_integers(num_clients):
    return _pattern(num_clients, mask_type=int)


def schedule_of_round(probs):
    return lambda round: probs


def decay_of_two(learning_rate):
    return lambda key, round: learning_rate


def rate_of_round(round):
    return 0.1 / (round + 1)


def _loss(params, batch):
    return (batch.features @ params).mean()


def _problem(loss_fn=_loss, metrics=None, random_loss_fn=None):
    return problems.from_arrays(
        np.ones((8, 2)),
        np.zeros(8, int),
        np.arange(8),
        init_params=lambda key: jnp.zeros(2),
        loss_fn=loss_fn,
        metrics=metrics,
        random_loss_fn=random_loss_fn,
    )


def loss_of_params():
    return _problem(lambda params: params.sum())


def loss_by_example():
    return _problem(lambda params, batch: batch.features @ params)


def random_loss_without_key():
    return _problem(random_loss_fn=_loss)


def metrics_of_params():
    return _problem(metrics=lambda params: {'size': params.sum()})


def metrics_by_example():
    return _problem(metrics=lambda params, batch: {'score': batch.features @ params})


def metric_without_name():
    return _problem(metrics=_loss)


def without_options():
    return _problem()


def negative_owners(labels, num_clients):
    return np.arange(len(labels)) % num_clients - 1


def algorithm_of_program(local_train, *, scale=1.0):
    assert isinstance(local_train, local_training.ClientProgram)
    assert scale == 2.0
    return _algorithm()


def pattern_of_clients(num_clients, *, probs):
    assert probs.shape == (num_clients,)
    return _pattern(num_clients)


def probs_of_problem(problem, *, low):
    assert isinstance(problem, base.Problem)
    return np.linspace(low, 1.0, problem.num_clients)


def schedule_of_probs(probs, *, rounds):
    return lambda key, round: jnp.asarray(probs) * jnp.minimum(1, (round + 1) / rounds)


def decay_of_rate(learning_rate, *, every):
    return lambda round: learning_rate * 0.5 ** (round // every)


def optimizer_of_rate(learning_rate, *, momentum):
    return optax.sgd(learning_rate, momentum=momentum)


def server_optimizer(*, rate):
    return optax.sgd(rate)


def owners_of_labels(labels, num_clients, seed, *, shift):
    assert isinstance(seed, int)
    return (np.arange(len(labels)) + shift) % num_clients


def _flatten(images):
    return images.reshape(len(images), -1)


def model_of_outputs(num_outputs, *, bias):
    return nn.Sequential([_flatten, nn.Dense(num_outputs, use_bias=bias)])


def crop(key, images):
    return images


def size_of_model(*, power):
    return lambda params, key, problem: {
        'size': sum(jnp.sum(leaf**power) for leaf in jax.tree.leaves(params))
    }
