"""Evaluates models on shapes instead of numbers: the shapes of outputs, and what the layers do."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
from flax import linen as nn

from fedjax_links.base import Array, Params, PyTree
from fedjax_links.core import checks, errors


class ModelOutputs(NamedTuple):
    """Holds what an abstract evaluation shows of a model.

    Attributes:
      outputs: shape and dtype, of two examples.
      embeds_features: whether the features are ids, which an embedding looks up.
      by_batch: whether a layer normalises by the batch, so that the outputs for an example depend
        on the other examples. Such a layer has a class attribute ``normalises_by_batch = True``.
    """

    outputs: jax.ShapeDtypeStruct
    embeds_features: bool
    by_batch: bool


def eval_outputs(
    argument: str,
    predict: Callable[..., PyTree],
    params: Params,
    features: Mapping[str, np.ndarray],
) -> ModelOutputs:
    """Evaluates a model abstractly on two examples.

    Args:
      argument: what to name in an error that the model causes.
      predict: ``(params, features) -> outputs``.
      params: of the model, or their shapes.
      features: arrays [E, ...] by the argument that passed them, which errors name.

    Returns:
      The outputs, and how the model uses its features.

    Raises:
      ValueError: unless there is a row of outputs for each example, or for ids that an embedding
        does not have.
    """
    checks.function(argument, predict)
    rows = next(iter(features.values()))
    two = np.zeros((2, *rows.shape[1:]), jax.dtypes.canonicalize_dtype(rows.dtype))
    embeds_features = False
    by_batch = False

    def evaluate(params: Params, examples: Array) -> PyTree:
        def inspect_layer(
            call: Callable[..., Any], args: Any, kwargs: Any, context: Any
        ) -> Any:
            nonlocal embeds_features, by_batch
            layer = context.module
            if getattr(layer, 'normalises_by_batch', False):
                by_batch = True
            if isinstance(layer, nn.Embed) and args and args[0] is examples:
                embeds_features = True
                for name, ids in features.items():
                    _check_ids(name, ids, layer.num_embeddings)
            return call(*args, **kwargs)

        with nn.intercept_methods(inspect_layer):
            return predict(params, examples)

    outputs: jax.ShapeDtypeStruct = jax.eval_shape(evaluate, params, two)
    if getattr(outputs, 'shape', ())[:1] != (2,):
        requirement = 'give a row of outputs for each example'
        raise errors.invalid(argument, requirement, f'{outputs} for 2')
    return ModelOutputs(outputs, embeds_features, by_batch)


def _check_ids(name: str, ids: np.ndarray, num_embeddings: int) -> None:
    """Raises for an id that an embedding does not have."""
    if ids.max() >= num_embeddings:
        requirement = f'lie below {num_embeddings}, the ids that the module embeds'
        raise errors.invalid(name, requirement, ids.max())
    if ids.min() < 0:
        requirement = 'be at least 0, as the ids that the module embeds'
        raise errors.invalid(name, requirement, ids.min())
