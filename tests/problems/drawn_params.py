"""Parameters of models, drawn without a program that initialises them."""

import jax
import numpy as np


def draw_params(init, *inputs):
    """Draws all leaves, biases among them, from a normal distribution about zero.

    Args:
      init: ``(key, *inputs) -> params``, which is evaluated abstractly.
      *inputs: of a module, or none of a problem.
    """
    rng = np.random.default_rng(0)
    return jax.tree.map(
        lambda leaf: rng.normal(0, 0.4, leaf.shape).astype(leaf.dtype),
        jax.eval_shape(init, jax.random.key(0), *inputs),
    )
