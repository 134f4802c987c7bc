"""The papers' networks, as functions of the number of classes.

Parameter counts hold for ten classes and the images of their own data set, which are taken as
[B, height, width, channels]. A config names one as
``fedjax_links.papers.architectures:xiang_cifar10``.
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
    in training and in evaluation. There are no running averages, and so no variables besides
    parameters.

    Problems evaluate networks with such a layer in batches of many clients' examples.

    Attributes:
      epsilon: added to the variance.
      use_fast_variance: as of `flax.linen.LayerNorm`: whether to subtract squares.
      reduction_axes: likewise, the axis of the batch.

    References:
      Ioffe and Szegedy 2015, Batch normalization, Algorithm 1.
    """

    normalises_by_batch = True  # what `model_outputs.eval_outputs` looks for

    epsilon: float = 1e-5
    use_fast_variance: bool = False
    reduction_axes: int = 0

    def __call__(self, features: Array) -> Array:  # type: ignore[override]
        """Normalised features [B, d] of features [B, d].

        Raises:
          ValueError: for a batch of one, whose features would all vanish. Full batches of clients
            of unequal size are taken example by example: they need a ``batch_size``.
        """
        if len(features) < 2 and not self.is_initializing():
            requirement = (
                'hold several examples to normalise by (set `batch_size` to 2 or more)'
            )
            raise errors.invalid('features', requirement, len(features))
        return super().__call__(features)


class BatchNormMLP(nn.Module):
    """Fully connected layers with `BatchNorm` and ReLU in between.

    They are drawn as in `models.fan_in_uniform`, and need batches of two examples or more. An
    evaluation takes 1024 examples at once and normalises by these; they come from all clients, as
    a fixed permutation has them.

    Attributes:
      num_classes: number of outputs.
      hidden: width of each hidden layer.
      product: a drop-in for `jax.lax.dot_general`, which is the alternative.
    """

    num_classes: int
    hidden: Sequence[int] = (1568, 392)
    product: Callable[..., Array] = dense_product

    @nn.compact
    def __call__(self, features: Array) -> Array:
        """Logits [B, num_classes] of features [B, ...]."""
        models.check_widths('hidden', self.hidden)
        activations = models.flatten(features)
        for width in self.hidden:
            dense = models.torch_dense(width, activations, self.product)
            activations = nn.relu(BatchNorm()(dense))
        return models.torch_dense(self.num_classes, activations, self.product)


def xiang_svhn(num_classes: int) -> models.CNN:
    """SVHN's network of Xiang et al. 2024: 273,706 parameters on images of 32 x 32 x 3."""
    return models.CNN(num_classes, hidden=(128,))


def xiang_cifar10(num_classes: int) -> models.CNN:
    """CIFAR-10's network of Xiang et al. 2024: 551,786 parameters on images of 32 x 32 x 3."""
    return models.CNN(num_classes, hidden=(256, 64))


def xiang_cinic10(num_classes: int) -> models.CNN:
    """CINIC-10's network of Xiang et al. 2024: 1,193,130 parameters on images of 32 x 32 x 3."""
    return models.CNN(num_classes, hidden=(512, 256), dropout_rate=0.2)


def wang_fashion_mnist(num_classes: int) -> models.CNN:
    """FashionMNIST's network of Wang and Ji 2022: 228,586 parameters on images of 28 x 28 x 1."""
    return models.CNN(num_classes, kernel_size=5, hidden=(128,))


def wang_cifar10(num_classes: int) -> models.CNN:
    """CIFAR-10's network of Wang and Ji 2022: 2,218,314 parameters on images of 32 x 32 x 3."""
    return models.CNN(num_classes, channels=(32, 64), kernel_size=5, hidden=(512, 128))


def sun_mnist(num_classes: int, *, hidden: Sequence[int] = (1568, 392)) -> BatchNormMLP:
    """MNIST's network of Sun et al. 2025: 1,853,778 parameters on images of 28 x 28.

    Sun et al. train and evaluate with the statistics of the batch, and so does `BatchNorm`.
    """
    return BatchNormMLP(num_classes, hidden)


def sun_cifar10(num_classes: int) -> models.CNN:
    """A network for CIFAR-10 as in Sun et al. 2025, who say only "three convolution layers".

    The choices made here: 3 x 3 windows, 32, 64 and 64 channels, ReLU and pooling after each, one
    hidden layer of 128, and the initialisation of their other network; 188,810 parameters on images
    of 32 x 32 x 3.
    """
    return models.CNN(num_classes, channels=(32, 64, 64), hidden=(128,), kaiming=False)
