"""Small flax models for classification."""

from collections.abc import Sequence

from flax import linen as nn

from fedjax_links.base import Array


class Softmax(nn.Module):
    """Multinomial logistic regression.

    Attributes:
      num_classes: number of outputs.
    """

    num_classes: int

    @nn.compact
    def __call__(self, features: Array) -> Array:
        """Logits [B, num_classes] of features [B, ...]."""
        return nn.Dense(self.num_classes)(_flatten(features))


class MLP(nn.Module):
    """Fully connected layers with ReLU in between.

    Attributes:
      num_classes: number of outputs.
      hidden: width of each hidden layer.
    """

    num_classes: int
    hidden: Sequence[int] = (64,)

    @nn.compact
    def __call__(self, features: Array) -> Array:
        """Logits [B, num_classes] of features [B, ...]."""
        activations = _flatten(features)
        for width in self.hidden:
            activations = nn.relu(nn.Dense(width)(activations))
        return nn.Dense(self.num_classes)(activations)


def _flatten(features: Array) -> Array:
    return features.reshape(features.shape[0], -1)
