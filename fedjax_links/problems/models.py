"""Defines flax models for classification: of vectors, images and sequences of tokens."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax.typing import DTypeLike

from fedjax_links.base import Array, Key
from fedjax_links.core import checks, errors
from fedjax_links.problems.convolution import conv_as_matmul, dense_product, max_pool


class Softmax(nn.Module):
    """Computes multinomial logistic regression.

    Attributes:
      num_classes: number of outputs.
      zero: whether all weights begin at zero, in place of flax's random weights.
      dtype: what it computes in, as in `MLP`.
    """

    num_classes: int
    zero: bool = False
    dtype: str | None = None

    @nn.compact
    def __call__(self, features: Array) -> Array:
        """Returns the logits [B, num_classes] of features [B, ...]."""
        checks.flags(zero=self.zero)
        options: dict[str, Any] = {'dtype': check_dtype(self.dtype)}
        if self.zero:
            options['kernel_init'] = nn.initializers.zeros
        dense = nn.Dense(self.num_classes, **options)
        return as_logits(dense(flatten(features)), self.dtype)


class MLP(nn.Module):
    """Applies fully connected layers with ReLU in between.

    Attributes:
      num_classes: number of outputs.
      hidden: width of each hidden layer.
      product: computes matrix products, with the arguments of `jax.lax.dot_general`, which may be
        given instead of the default.
      dtype: what it computes in, ``'float32'`` or ``'bfloat16'``; parameters, their gradients,
        logits, the loss and sums over clients are float32 with either. None: as the parameters.
    """

    num_classes: int
    hidden: Sequence[int] = (64,)
    product: Callable[..., Array] = dense_product
    dtype: str | None = None

    @nn.compact
    def __call__(self, features: Array) -> Array:
        """Returns the logits [B, num_classes] of features [B, ...]."""
        check_widths('hidden', self.hidden)
        options: dict[str, Any] = {
            'dot_general': self.product,
            'dtype': check_dtype(self.dtype),
        }
        activations = flatten(features)
        for width in self.hidden:
            activations = nn.relu(nn.Dense(width, **options)(activations))
        logits = nn.Dense(self.num_classes, **options)(activations)
        return as_logits(logits, self.dtype)


class CNN(nn.Module):
    """Applies convolutions, each with ReLU and 2 x 2 max-pooling, then dense layers with ReLU.

    Convolutions keep the size of the image. All weights but the last layer's are Kaiming normal
    (`kaiming_normal`) with zero biases; the last layer is drawn as in `fan_in_uniform`.

    Attributes:
      num_classes: number of outputs.
      channels: outputs of each convolution.
      kernel_size: side of the convolutions' windows.
      hidden: width of each hidden fully connected layer.
      dropout_rate: share of the inputs of each fully connected layer that is dropped in training.
      kaiming: False draws every layer as in `fan_in_uniform`.
      convolution: computes convolutions, with the arguments of `jax.lax.conv_general_dilated`,
        which may be given instead of the default.
      product: as in `MLP`.
      dtype: what it computes in, as in `MLP`.
    """

    num_classes: int
    channels: Sequence[int] = (32, 32)
    kernel_size: int = 3
    hidden: Sequence[int] = (128,)
    dropout_rate: float = 0.0
    kaiming: bool = True
    convolution: Callable[..., Array] = conv_as_matmul
    product: Callable[..., Array] = dense_product
    dtype: str | None = None

    @nn.compact
    def __call__(self, features: Array, *, train: bool = False) -> Array:
        """Returns the logits [B, num_classes] of images [B, height, width, channels].

        Args:
          features: the images.
          train: whether to drop units, for which the ``dropout`` key is needed.
        """
        checks.flags(kaiming=self.kaiming, train=train)
        check_widths('channels', self.channels)
        check_widths('hidden', self.hidden)
        checks.static_int('kernel_size', self.kernel_size, maximum=2**10)
        checks.number_within('dropout_rate', self.dropout_rate, 0, 1)
        options: dict[str, Any] = {
            'dtype': check_dtype(self.dtype),
            'conv_general_dilated': self.convolution,
        }
        activations = features
        window = (self.kernel_size, self.kernel_size)
        for width in self.channels:
            initializers = self._initializers(
                self.kernel_size**2 * activations.shape[-1]
            )
            activations = nn.Conv(width, window, **initializers, **options)(activations)
            activations = max_pool(nn.relu(activations))
        activations = flatten(activations)
        options = {'dtype': self.dtype, 'dot_general': self.product}
        for width in self.hidden:
            activations = nn.Dropout(self.dropout_rate, deterministic=not train)(
                activations
            )
            initializers = self._initializers(activations.shape[-1])
            layer = nn.Dense(width, **initializers, **options)
            activations = nn.relu(layer(activations))
        activations = nn.Dropout(self.dropout_rate, deterministic=not train)(
            activations
        )
        logits = torch_dense(self.num_classes, activations, self.product, self.dtype)
        return as_logits(logits, self.dtype)

    def _initializers(self, fan_in: int) -> dict[str, Any]:
        """Returns the initializers of the weights and of the biases."""
        if self.kaiming:
            return {'kernel_init': kaiming_normal, 'bias_init': nn.initializers.zeros}
        return {
            'kernel_init': fan_in_uniform(fan_in),
            'bias_init': fan_in_uniform(fan_in),
        }


class GRU(nn.Module):
    """Applies gated recurrent units to embedded tokens.

    Attributes:
      num_classes: number of outputs.
      num_tokens: number of token ids; None: ``num_classes``, as for predicting the next token.
      embedding: width of the embedding.
      hidden: width of each layer.
      layers: number of layers, each over the outputs of the one below.
      every_token: whether to return logits after every token, not only after the last.
      dtype: what it computes in, as in `MLP`; what is carried from token to token is float32.

    References:
      Cho et al. 2014, Learning phrase representations using RNN encoder-decoder.
    """

    num_classes: int
    num_tokens: int | None = None
    embedding: int = 8
    hidden: int = 256
    layers: int = 1
    every_token: bool = False
    dtype: str | None = None

    @nn.compact
    def __call__(self, tokens: Array) -> Array:
        """Returns the logits [B, num_classes], or [B, L, num_classes], of tokens int[B, L]."""
        checks.flags(every_token=self.every_token)
        check_widths('embedding', [self.embedding])
        check_widths('hidden', [self.hidden])
        checks.static_int('layers', self.layers, maximum=2**10)
        activations: Any = _embed(self, tokens, self.embedding)
        for _ in range(self.layers):
            cell: Any = nn.GRUCell(self.hidden, dtype=check_dtype(self.dtype))
            # In the dtype of the activations, which is float64 under x64.
            start = jnp.zeros((len(tokens), self.hidden), activations.dtype)
            activations = nn.RNN(cell)(activations, initial_carry=start)
        return _logits(self, activations)


class Transformer(nn.Module):
    """Applies pre-norm transformer blocks with causal attention to embedded tokens.

    Attention has no biases. A bias of the keys would change nothing.

    Attributes:
      num_classes: number of outputs.
      num_tokens: as in `GRU`.
      hidden: width of embedding and blocks; positions have an embedding of their own.
      layers: number of blocks: attention, then a layer of four times the width with GELU.
      heads: number of heads of attention, a divisor of ``hidden``.
      every_token: as in `GRU`.
      dtype: what it computes in, as in `MLP`.

    References:
      Vaswani et al. 2017, Attention is all you need; normalised as by Xiong et al. 2020, On layer
      normalization in the transformer architecture.
    """

    num_classes: int
    num_tokens: int | None = None
    hidden: int = 128
    layers: int = 2
    heads: int = 4
    every_token: bool = False
    dtype: str | None = None

    @nn.compact
    def __call__(self, tokens: Array) -> Array:
        """Returns the logits [B, num_classes], or [B, L, num_classes], of tokens int[B, L]."""
        checks.flags(every_token=self.every_token)
        check_widths('hidden', [self.hidden])
        checks.static_int('layers', self.layers, maximum=2**10)
        checks.static_int('heads', self.heads, maximum=2**10)
        if self.hidden % self.heads:
            requirement = f'be a multiple of heads ({self.heads})'
            raise errors.invalid('hidden', requirement, self.hidden)
        options: dict[str, Any] = {'dtype': check_dtype(self.dtype)}
        attention_options: dict[str, Any] = {
            **options,
            'attention_fn': _attend,
            'use_bias': False,
        }
        embedded = _embed(self, tokens, self.hidden)
        positions = self.param(
            'places', nn.initializers.normal(0.02), embedded.shape[1:]
        )
        activations = embedded + positions[None]
        causal = nn.make_causal_mask(tokens)
        for _ in range(self.layers):
            attention = nn.MultiHeadDotProductAttention(self.heads, **attention_options)
            activations += attention(nn.LayerNorm(**options)(activations), mask=causal)
            wide_layer = nn.Dense(4 * self.hidden, **options)
            wide = nn.gelu(wide_layer(nn.LayerNorm(**options)(activations)))
            activations += nn.Dense(self.hidden, **options)(wide)
        return _logits(self, nn.LayerNorm(**options)(activations))


def _attend(
    query: Array, key: Array, value: Array, *, mask: Array, **_: object
) -> Array:
    """Averages values, weighted by the softmax of queries times keys; [B, L, heads, width] each."""
    scores = jnp.einsum('bqhd,bkhd->bhqk', query, key) / math.sqrt(query.shape[-1])
    scores = jnp.where(mask, as_logits(scores, 'float32'), -1e30)
    # Not `nn.softmax`, which divides: how the compiler rounds a division depends on the number
    # of devices.
    weights = jnp.exp(nn.log_softmax(scores)).astype(value.dtype)
    return jnp.einsum('bhqk,bkhd->bqhd', weights, value)


def _embed(module: GRU | Transformer, tokens: Array, width: int) -> Array:
    """Embeds tokens int[B, L] as float[B, L, width]; called within a compact module."""
    num_tokens = module.num_classes
    if module.num_tokens is not None:
        num_tokens = module.num_tokens
        check_widths('num_tokens', [num_tokens])
    if tokens.ndim != 2 or not jnp.issubdtype(tokens.dtype, jnp.integer):
        got = f'{tokens.dtype}{list(tokens.shape)}'
        raise errors.invalid('features', 'be tokens, integers [examples, length]', got)
    return nn.Embed(num_tokens, width)(tokens)


def _logits(module: GRU | Transformer, activations: Array) -> Array:
    """Returns logits after every token or only the last; called within a compact module."""
    features = activations if module.every_token else activations[:, -1]
    outputs = nn.Dense(module.num_classes, dtype=check_dtype(module.dtype))(features)
    return as_logits(outputs, module.dtype)


def check_widths(argument: str, widths: Sequence[int]) -> None:
    """Raises for a width that is not an integer from 1 to 2^20, more than anyone needs."""
    for width in widths:
        checks.static_int(argument, width, maximum=2**20)


def kaiming_normal(
    key: Key, shape: Sequence[int], dtype: DTypeLike = jnp.float32
) -> Array:
    """Draws normal weights of variance ``2 / fan_in``: Kaiming's with the gain of ReLU.

    Args:
      key: consumed.
      shape: [..., fan_out]; the product of the leading sizes is the fan-in.
      dtype: of the result.

    Returns:
      The weights. They are drawn as one vector, which compiles faster than several axes.

    References:
      He et al. 2015, Delving deep into rectifiers, equation 10.
    """
    flat = jax.random.normal(key, (math.prod(shape),), dtype)
    return (flat * math.sqrt(2 / math.prod(shape[:-1]))).reshape(shape)


def fan_in_uniform(fan_in: int) -> nn.initializers.Initializer:
    """Draws uniformly from ``(-1, 1) / sqrt(fan_in)``: PyTorch's default weights and biases.

    Args:
      fan_in: number of inputs of each unit.

    Returns:
      ``(key, shape, dtype) -> weights``, drawn as one vector.
    """
    bound = 1 / math.sqrt(fan_in)

    def initializer(
        key: Key, shape: Sequence[int], dtype: DTypeLike = jnp.float32
    ) -> Array:
        return jax.random.uniform(
            key, (math.prod(shape),), dtype, -bound, bound
        ).reshape(shape)

    return initializer


def torch_dense(
    width: int, features: Array, product: Callable[..., Array], dtype: str | None = None
) -> Array:
    """Applies a fully connected layer with PyTorch's initialisation, in a compact module."""
    initializer: Any = fan_in_uniform(features.shape[-1])
    layer = nn.Dense(
        width,
        kernel_init=initializer,
        bias_init=initializer,
        dtype=dtype,
        dot_general=product,
    )
    return layer(features)


def check_dtype(dtype: str | None) -> str | None:
    """Checks the dtype that a model computes in.

    Raises:
      ValueError: for any other than ``'float32'``, ``'bfloat16'`` and None.
    """
    if dtype is not None:
        checks.choice('dtype', dtype, ('float32', 'bfloat16'))
    return dtype


def as_logits(outputs: Array, dtype: str | None) -> Array:
    """Converts outputs of a layer of some dtype to float32 at least, as the loss takes them."""
    if dtype is None:
        return outputs
    return outputs.astype(jnp.promote_types(outputs.dtype, 'float32'))


def flatten(features: Array) -> Array:
    """Reshapes features [B, ...] to [B, d]."""
    return features.reshape(features.shape[0], -1)
