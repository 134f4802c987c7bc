"""Functions of a user that configs name."""

import dataclasses

import jax
import jax.numpy as jnp

from fedjax_links import participation, problems


def size_of_model():
    """An evaluation without a direction: neither larger nor smaller is better."""

    def size(params, key, problem):
        squares = [jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(params)]
        return {'size': jnp.sqrt(jnp.sum(jnp.stack(squares)))}

    return size


def mistaken():
    """Adds what cannot be added."""
    return 1 + 'x'


def cycles(num_clients, probs=0.25):
    """A pattern whose probabilities have a default."""
    return participation.cyclic(jnp.full(num_clients, probs), cycle_length=8)


def steered(num_clients, *, up, step='slow', graph=None):
    """A pattern with options that registered patterns use for schedules, steps and graphs."""
    probs = {'rarely': 0.1, 'often': 0.9}[up]
    assert (step, graph) == ('slow', None)
    return participation.bernoulli(jnp.full(num_clients, probs))


def forwarded(**options):
    """A pattern that passes all its options on."""
    return cycles(3, **options)


def _distance(params, batch):
    return jnp.mean(jnp.sum(jnp.abs(batch - params), axis=-1))


def medians():
    """Twelve clients with a vector each, whose loss is no quadratic."""
    built = problems.counterexample(num_clients=12, dimension=3)
    return dataclasses.replace(built, loss_fn=_distance)


loads = []


def loaded(**options):
    """Digits that record each time they are built."""
    loads.append(options)
    return problems.digits(**options)


def text_as_metric():
    """An evaluation that returns no number."""

    def measure(params, key, problem):
        return {'kind': 'linear'}

    return measure


def metric_without_key():
    """An evaluation that takes other arguments than it is given."""

    def measure(params):
        return {'size': 1.0}

    return measure
