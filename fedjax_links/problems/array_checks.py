"""What arrays of examples must be like, beside each other and beside what a model says of them."""

import functools
import io
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from fedjax_links.base import Array, Params
from fedjax_links.core import errors
from fedjax_links.problems import losses


def check_numbers(argument: str, array: np.ndarray) -> None:
    """Raises unless an array holds finite numbers or flags, naming what makes numbers of text."""
    if not (jnp.issubdtype(array.dtype, jnp.number) or array.dtype == bool):
        requirement = 'hold numbers, as np.unique(..., return_inverse=True)[1] makes of names'
        raise errors.invalid(argument, requirement, array.dtype)
    finite = np.isfinite(array)
    if not finite.all():
        raise errors.invalid(argument, 'be finite', f'not so in row {np.argwhere(~finite)[0][0]}')


def stack_rows(argument: str, rows: Any) -> np.ndarray:
    """Rows of numbers of one shape, or images of one size, as an array.

    Images are Pillow's, or mappings of ``bytes`` that it decodes; they come out as uint8[height,
    width, 1] in shades of grey and uint8[height, width, 3] else. 64 bits become 32, as JAX has them
    by default.

    Args:
      argument: what to name in an error.
      rows: the rows: an array, a sequence, or a frame or series of `pandas`.

    Raises:
      ValueError: if they are no numbers, differ in shape, or do not fit into 32 bits.
    """
    rows = rows.to_numpy() if hasattr(rows, 'to_numpy') else rows
    try:
        stacked = isinstance(rows, np.ndarray) and rows.dtype != object
        array = np.asarray(rows) if stacked else np.stack([_as_array(row) for row in rows])
    except (TypeError, ValueError):
        shapes = sorted({str(np.shape(row)) for row in rows})[:2]
        raise errors.invalid(argument, 'have one shape', ' and '.join(shapes)) from None
    check_numbers(argument, array)
    smaller = {'int64': np.int32, 'uint64': np.int32, 'float64': np.float32}.get(array.dtype.name)
    if smaller is np.int32 and array.size and abs(array).max() >= 2**31:
        raise errors.invalid(argument, 'fit into 32 bits', array.max())
    return array if smaller is None else array.astype(smaller)


stack_features = functools.partial(stack_rows, 'features')
stack_labels = functools.partial(stack_rows, 'labels')


def _as_array(row: Any) -> np.ndarray:
    """A row as it is, or the pixels of an image."""
    if isinstance(row, Mapping) and row.get('bytes'):
        from PIL import Image  # slow to import, so only here

        row = Image.open(io.BytesIO(row['bytes']))
    if not hasattr(row, 'getbands'):
        return np.asarray(row)
    pixels = np.asarray(row if row.mode in ('L', 'RGB') else row.convert('RGB'))
    return pixels if pixels.ndim == 3 else pixels[..., None]


def check_rows(argument: str, array: np.ndarray, whose: str, count: int) -> None:
    """Raises unless there are as many rows of numbers as there should be."""
    if not array.ndim or len(array) != count:
        requirement = f'have one row per {whose} ({count})'
        raise errors.invalid(argument, requirement, len(array) if array.ndim else array)
    check_numbers(argument, array)


def eval_outputs(
    argument: str, predict: Callable[[Params, Array], Array], params: Params, rows: np.ndarray
) -> jax.ShapeDtypeStruct:
    """What a model says of two examples."""
    two = np.zeros((2, *rows.shape[1:]), jax.dtypes.canonicalize_dtype(rows.dtype))
    found: jax.ShapeDtypeStruct = jax.eval_shape(predict, params, two)
    if getattr(found, 'shape', ())[:1] != (2,):
        raise errors.invalid(argument, 'give a row of outputs for each example', f'{found} for 2')
    return found


def check_pairs(
    loss: Callable[[Array, Array], Array], outputs: jax.ShapeDtypeStruct, labels: np.ndarray
) -> None:
    """Raises for a loss of one's own that pairs every output of a column with every label.

    Of two examples whose outputs are their labels it is then not the mean, but would be if labels
    had the outputs' shape.
    """
    others = np.flatnonzero(labels.ravel() != labels.ravel()[0])
    two = jnp.asarray(labels[[0, *others[:1]]])
    said = two.reshape(-1, *outputs.shape[1:]).astype(outputs.dtype)

    def is_mean(given: Array) -> bool:
        apart = [loss(said[i : i + 1], given[i : i + 1]) for i in range(len(given))]
        off = abs(loss(said, given) - sum(apart) / len(apart))
        return not off > 1e-4 * sum(map(abs, apart))

    if not is_mean(two) and is_mean(two.reshape(said.shape)):
        requirement = (
            f'have shape {losses.show_shape(said.shape)}, that of the outputs, for this loss'
        )
        raise errors.invalid('labels', requirement, losses.show_shape(two.shape))


def with_ids_checked(
    evaluate: Callable[[Params, Array], Array], features: Mapping[str, np.ndarray]
) -> Callable[[Params, Array], Array]:
    """``evaluate`` that raises where an embedding reads ids off the features that it has not."""

    def evaluate_checked(params: Params, read: Array) -> Array:
        def check(call: Callable[..., Any], args: Any, kwargs: Any, context: Any) -> Any:
            if isinstance(context.module, nn.Embed) and args and args[0] is read:
                count = context.module.num_embeddings
                for argument, ids in features.items():
                    if ids.max() >= count:
                        requirement = f'lie below {count}, the ids that the module embeds'
                        raise errors.invalid(argument, requirement, ids.max())
            return call(*args, **kwargs)

        with nn.intercept_methods(check):
            return evaluate(params, read)

    return evaluate_checked
