"""Builds the networks of papers from the number of classes.

The networks take images [B, height, width, channels]. Parameter counts are for ten classes. A
config names a network as ``fedjax_links.papers.architectures:xiang_cifar10``.
"""

from collections.abc import Callable, Sequence

from flax import linen as nn

from fedjax_links.base import Array
from fedjax_links.core import errors
from fedjax_links.problems import models
from fedjax_links.problems.convolution import dense_product


class BatchNorm(nn.LayerNorm):
    """Normalises each feature by the mean and variance of the batch, then scales and shifts it.

    ``y = scale (x - mean_B(x)) / sqrt(var_B(x) + epsilon) + bias``, with the biased variance,
    in training and in evaluation. There are no running averages, so parameters are the only
    variables. Problems evaluate networks with such a layer in batches of many clients' examples.

    Attributes:
      epsilon: added to the variance.
      use_fast_variance: as in `flax.linen.LayerNorm`; False computes the variance from deviations.
      reduction_axes: as in `flax.linen.LayerNorm`; 0 is the batch.

    References:
      Ioffe and Szegedy 2015, Batch normalization, Algorithm 1.
    """

    # Makes `model_outputs.eval_outputs` evaluate in batches of many clients' examples.
    normalises_by_batch = True

    epsilon: float = 1e-5
    use_fast_variance: bool = False
    reduction_axes: int = 0

    def __call__(self, features: Array) -> Array:  # type: ignore[override]
        """Normalises features [B, d].

        Raises:
          ValueError: for a batch of one, whose features would all vanish. Clients of unequal size
            compute full gradients example by example, so they need a ``batch_size``.
        """
        if len(features) < 2 and not self.is_initializing():
            requirement = (
                'hold several examples to normalise by (set `batch_size` to 2 or more)'
            )
            raise errors.invalid('features', requirement, len(features))
        return super().__call__(features)


class BatchNormMLP(nn.Module):
    """Alternates fully connected layers with `BatchNorm` and ReLU.

    Weights are initialised by `models.fan_in_uniform`. Batches need two examples or more. An
    evaluation takes the examples of all clients in a fixed random order. It normalises over 1024
    examples at a time, and over up to 2047 in the last batch.

    Attributes:
      num_classes: number of outputs.
      hidden: width of each hidden layer.
      product: computes the matrix products, with the signature of `jax.lax.dot_general`.
    """

    num_classes: int
    hidden: Sequence[int] = (1568, 392)
    product: Callable[..., Array] = dense_product

    @nn.compact
    def __call__(self, features: Array) -> Array:
        """Computes logits [B, num_classes] of features [B, ...]."""
        models.check_widths('hidden', self.hidden)
        activations = models.flatten(features)
        for width in self.hidden:
            dense = models.torch_dense(width, activations, self.product)
            activations = nn.relu(BatchNorm()(dense))
        return models.torch_dense(self.num_classes, activations, self.product)


def xiang_svhn(num_classes: int) -> models.CNN:
    """Builds the SVHN network of Xiang et al. 2024.

    It has 273,706 parameters on images of 32 x 32 x 3.
    """
    return models.CNN(num_classes, hidden=(128,))


def xiang_cifar10(num_classes: int) -> models.CNN:
    """Builds the CIFAR-10 network of Xiang et al. 2024.

    It has 551,786 parameters on images of 32 x 32 x 3.
    """
    return models.CNN(num_classes, hidden=(256, 64))


def xiang_cinic10(num_classes: int) -> models.CNN:
    """Builds the CINIC-10 network of Xiang et al. 2024.

    It has 1,193,130 parameters on images of 32 x 32 x 3.
    """
    return models.CNN(num_classes, hidden=(512, 256), dropout_rate=0.2)


def wang_fashion_mnist(num_classes: int) -> models.CNN:
    """Builds the FashionMNIST network of Wang and Ji 2022.

    It has 228,586 parameters on images of 28 x 28 x 1.
    """
    return models.CNN(num_classes, kernel_size=5, hidden=(128,))


def wang_cifar10(num_classes: int) -> models.CNN:
    """Builds the CIFAR-10 network of Wang and Ji 2022.

    It has 2,218,314 parameters on images of 32 x 32 x 3.
    """
    return models.CNN(num_classes, channels=(32, 64), kernel_size=5, hidden=(512, 128))


def sun_mnist(num_classes: int, *, hidden: Sequence[int] = (1568, 392)) -> BatchNormMLP:
    """Builds the MNIST network of Sun et al. 2025.

    It has 1,853,778 parameters on images of 28 x 28 x 1.

    Sun et al. train and evaluate with the statistics of the batch, and so does `BatchNorm`.
    """
    return BatchNormMLP(num_classes, hidden)


def sun_cifar10(num_classes: int) -> models.CNN:
    """Builds a CIFAR-10 network like that of Sun et al. 2025.

    The paper says only "three convolution layers". The choices here are 3 x 3 windows, 32, 64 and
    64 channels, and ReLU and pooling after each. One hidden layer of 128 follows. Weights are drawn
    as in the paper's MNIST network. The network has 188,810 parameters on images of 32 x 32 x 3.
    """
    return models.CNN(num_classes, channels=(32, 64, 64), hidden=(128,), kaiming=False)
