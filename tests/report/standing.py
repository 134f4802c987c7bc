"""Experiments whose states are constant but for nudges, so that differences are known exactly."""

import jax
import jax.numpy as jnp
import numpy as np

import fedjax_links as fl
from fedjax_links import participation, problems
from fedjax_links.base import Algorithm, RoundMetrics


def standing(*, nudge=(), units=3, leaf='server', level=2.0):
    """Returns a maker of an algorithm whose state is constant but for one entry.

    Args:
      nudge: the rounds in which the entry moves.
      units: by how many float32 values it moves.
      leaf: of the state, ``server`` or ``memory``.
      level: the grid value at which it moves; it rests at the others.
    """
    nudged_level = level

    def make(level):
        def init(params, problem):
            return {
                'server': params,
                'memory': jnp.full((2, 2), level, jnp.float32),
                'half': jnp.full(2, level, jnp.bfloat16),
            }

        def round_step(state, context, problem):
            in_round = jnp.isin(context.round, jnp.array([-1, *nudge]))
            is_nudged = in_round & (level == nudged_level)
            entry = (1, 0)[: state[leaf].ndim]
            bits = jax.lax.bitcast_convert_type(state[leaf], jnp.int32)
            new_bits = bits.at[entry].add(jnp.where(is_nudged, units, 0))
            new_leaf = jax.lax.bitcast_convert_type(new_bits, jnp.float32)
            zero = jnp.int32(0)
            metrics = RoundMetrics(
                num_active=zero, num_computing=zero, loss_sum=jnp.float32(0), extra={}
            )
            return {**state, leaf: new_leaf}, metrics

        return Algorithm(init, round_step, lambda state: {'server': state['server']})

    return make


def second_entry(params, key, problem):
    return {'first': params[0], 'second': params[1]}


def experiment(*, odd=None, **changes):
    """Two algorithms at two levels with two seeds; ``odd`` has the options of the second."""
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
