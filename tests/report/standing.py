"""Experiments whose states stand still, but for what is nudged: differences are known exactly."""

import jax
import jax.numpy as jnp
import numpy as np

import fedjax_links as fl
from fedjax_links import participation, problems
from fedjax_links.base import Algorithm, RoundMetrics


def standing(*, nudge=(), units=3, leaf='server', level=2.0):
    """An algorithm that moves one entry by some floats in some rounds, at one level alone."""

    def make(level):
        def init(params, problem):
            return {
                'server': params,
                'memory': jnp.full((2, 2), level, jnp.float32),
                'half': jnp.full(2, level, jnp.bfloat16),
            }

        def round_step(state, context, problem):
            here = jnp.isin(context.round, jnp.array([-1, *nudge])) & (level == nudged)
            entry = (1, 0)[: state[leaf].ndim]
            bits = jax.lax.bitcast_convert_type(state[leaf], jnp.int32)
            moved = bits.at[entry].add(jnp.where(here, units, 0))
            zero = jnp.int32(0)
            metrics = RoundMetrics(
                num_active=zero, num_computing=zero, loss_sum=jnp.float32(0), extra={}
            )
            return {
                **state,
                leaf: jax.lax.bitcast_convert_type(moved, jnp.float32),
            }, metrics

        return Algorithm(init, round_step, lambda state: {'server': state['server']})

    nudged = level
    return make


def second_entry(params, key, problem):
    return {'first': params[0], 'second': params[1]}


def experiment(*, odd=None, **changes):
    """Two algorithms at two levels with two seeds; ``odd`` says what is nudged in the second."""
    base = {
        'title': 'Standing',
        'problem': problems.quadratic(
            np.zeros((4, 3)), initial_point=np.array([1.0, 1.0, 1.0], np.float32)
        ),
        'patterns': {'some': participation.bernoulli(np.full(4, 0.5))},
        'algorithms': {'calm': standing(), 'odd': standing(**(odd or {}))},
        'num_rounds': 8,
        'eval_every': 2,
        'seeds': (0, 3),
        'grid': {'level': [1.0, 2.0]},
        'eval_fn': second_entry,
        'metric': 'second',
        'direction': 'min',
        'baseline': 'calm',
    }
    return fl.Experiment(**{**base, **changes})
