"""Separates traced functions from the arrays that they close over.

Two functions of equal structure run the same operations on other arrays, so one compiled program
serves both.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.extend import core as jax_core

from fedjax_links.base import PyTree
from fedjax_links.core import digests


class Traced(NamedTuple):
    """Holds a traced function.

    Attributes:
      structure: what the function does, equal for functions that differ only in closed-over arrays.
      constants: the arrays that the function closes over.
      shapes: shapes and dtypes of the outputs.
      bind: ``constants -> function``, the traced function with other arrays.
    """

    structure: Hashable
    constants: Sequence[Any]
    shapes: PyTree
    bind: Callable[[Sequence[Any]], Callable[..., PyTree]]


def trace(function: Callable[..., PyTree], *inputs: PyTree) -> Traced:
    """Traces a function and splits off the arrays that it closes over.

    Numbers that are no arrays stay in the structure, as they may decide what is compiled.

    Args:
      function: of pytrees, without side effects.
      *inputs: the function's inputs, or their shapes.

    Returns:
      The traced function. ``bind(constants)`` is a function to be called within other traced
      functions.
    """
    closed, shapes = jax.make_jaxpr(function, return_shape=True)(*inputs)
    output_structure = jax.tree.structure(shapes)

    def bind(constants: Sequence[jax.Array | np.ndarray]) -> Callable[..., PyTree]:
        compute = jax_core.jaxpr_as_fun(jax_core.ClosedJaxpr(closed.jaxpr, constants))

        def bound(*inputs: PyTree) -> PyTree:
            return jax.tree.unflatten(
                output_structure, compute(*jax.tree.leaves(inputs))
            )

        return bound

    program = digests.hash_structure(closed.jaxpr)
    structure = jax.tree.structure(inputs), output_structure, program
    constants = [
        a if isinstance(a, jax.Array) else np.asarray(a) for a in closed.consts
    ]
    return Traced(structure, constants, shapes, bind)
