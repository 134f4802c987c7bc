"""Times a thousand clients on 32 x 32 x 3 images, sized for a GPU: FedAvg with cohorts of 50.

50 images per client, 5 steps of batch 10, two 3 x 3 convolutions of 32 and 64 channels, pooling, a
hidden layer of 128; 1,500 rounds. The engine alone, proven equal to a plain loop with XLA's own
convolution and product. On a CPU a few rounds are timed and the time of all is projected.
"""

import functools
from typing import Any

import jax
import numpy as np
from flax import linen as nn

from benchmarks import common, images, proofs
from fedjax_links import participation
from fedjax_links.problems.convolution import conv_as_matmul, dense_product, max_pool

TARGET_SECONDS = 60.0
COHORT_SIZE = 50
ALGORITHM = images.AlgorithmOptions('fedavg')
WORKLOAD = images.Workload(
    num_clients=1000,
    examples_per_client=50,
    image_shape=(32, 32, 3),
    proof_rate=0.05,
    batch_size=10,
    num_rounds=1500,
    proof_rounds=1,
)
CPU_ROUNDS = 3


class Network(nn.Module):
    """Applies two convolutions without padding, one pooling, one hidden layer.

    Attributes:
      channels: outputs of the convolutions.
      hidden: width of the hidden layer.
      convolution: a drop-in for `jax.lax.conv_general_dilated`.
      product: a drop-in for `jax.lax.dot_general`.
    """

    channels: tuple[int, int] = (32, 64)
    hidden: int = 128
    convolution: Any = conv_as_matmul
    product: Any = dense_product

    @nn.compact
    def __call__(self, features: jax.Array) -> jax.Array:
        """Computes logits [B, 10] of images [B, H, W, C]."""
        activations = features
        for width in self.channels:
            layer = nn.Conv(
                width, (3, 3), padding='VALID', conv_general_dilated=self.convolution
            )
            activations = nn.relu(layer(activations))
        activations = max_pool(activations)
        activations = activations.reshape(activations.shape[0], -1)
        activations = nn.relu(
            nn.Dense(self.hidden, dot_general=self.product)(activations)
        )
        return nn.Dense(10, dot_general=self.product)(activations)


def compare(
    module: Network,
    workload: images.Workload,
    cohort_size: int,
    *,
    num_timed: int,
    repeats: int,
) -> dict[str, Any]:
    """Proves the engine equal to a plain loop, then times ``num_timed`` rounds."""
    key = jax.random.key(0)
    data = images.problem(workload, module)
    pattern = participation.uniform_cohort(workload.num_clients, cohort_size)

    def by_hand(params, data, plan, workload, module=module):
        return images.by_hand(params, data, module, plan, workload, ALGORITHM)

    xla = module.clone(
        convolution=jax.lax.conv_general_dilated, product=jax.lax.dot_general
    )
    plain = functools.partial(by_hand, module=xla)
    proof = proofs.prove(key, module, workload, ALGORITHM, pattern, plain, by_hand)
    timed = workload._replace(num_rounds=num_timed)
    timings, _ = common.alternate(
        {
            'engine': lambda key, data: images.engine(
                key, data, timed, ALGORITHM, pattern
            )
        },
        (key, data),
        repeats=repeats,
    )
    seconds = timings['engine'].median * workload.num_rounds / num_timed
    parameters = jax.eval_shape(data.init_params, key)
    return {
        'settings': {**workload._asdict(), 'cohort_size': cohort_size},
        'parameters': sum(int(np.prod(a.shape)) for a in jax.tree.leaves(parameters)),
        **proof,
        'num_rounds_timed': num_timed,
        'programs': common.rates(timings, num_timed, digits=3),
        'seconds': round(seconds, 1),
        'seconds_are_projected': num_timed < workload.num_rounds,
        'target_seconds_on_one_h100': TARGET_SECONDS,
    }


def measure(quick: bool) -> dict[str, Any]:
    """Runs this benchmark and returns its record."""
    num_timed = WORKLOAD.num_rounds
    if quick:
        num_timed = 1
    elif jax.default_backend() == 'cpu':
        num_timed = CPU_ROUNDS
    return compare(
        Network(), WORKLOAD, COHORT_SIZE, num_timed=num_timed, repeats=1 if quick else 3
    )


if __name__ == '__main__':
    common.main('pfl', 'A thousand clients, cohorts of 50, 1,500 rounds.', measure)
