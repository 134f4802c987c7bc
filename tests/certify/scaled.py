"""Defines a model of scaled layers, and a compiler's fault in them."""

from flax import linen as nn

from fedjax_links import problems

SCALE = 3.0


def layer(features, weights, bias):
    """Computes ``SCALE (x W + b)``."""
    return SCALE * (features @ weights + bias[None])


def faulty_layer(features, weights, bias):
    """Computes what XLA made of it on a GPU: the factor of the bias is gone."""
    return SCALE * (features @ weights) + bias[None]


class Scaled(nn.Module):
    """Applies one scaled layer."""

    num_classes: int

    @nn.compact
    def __call__(self, features):
        """Returns the logits."""
        flat = features.reshape(len(features), -1)
        shape = flat.shape[1], self.num_classes
        weights = self.param('weights', nn.initializers.lecun_normal(), shape)
        return layer(
            flat, weights, self.param('bias', nn.initializers.zeros, shape[1:])
        )


def scaled_digits(num_clients):
    """Makes digits with that model."""
    return problems.digits(num_clients=num_clients, model=Scaled, alpha=0.5)
