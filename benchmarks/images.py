"""Shares what image benchmarks need: federations of images, a run's schedule, a plain JAX loop.

The schedule of a run says whose upload arrives and which examples each local step takes. Its links
come from the engine's `realised_links`, and its minibatches are computed again from the run's key.
Loops outside the engine, in JAX here and in PyTorch in `benchmarks.torch_loop`, follow it.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn

from fedjax_links import (
    algorithms,
    datasets,
    local_training,
    problems,
    simulation,
)
from fedjax_links.base import Participation, Problem
from fedjax_links.core import prng


class Workload(NamedTuple):
    """Holds the size of a workload.

    Attributes:
      num_clients: N.
      examples_per_client: how many examples each client has.
      image_shape: (height, width, channels).
      proof_rate: rate of the proof, so small that rounding switches few ReLUs.
      local_steps: SGD steps of a client in a round.
      batch_size: examples per step.
      learning_rate: of the local steps.
      num_rounds: T, in a timed run.
      proof_rounds: rounds of the proof, after which the compared models must agree.
      dataset: a published data set, whose first images the clients share; None for noise.
    """

    num_clients: int
    examples_per_client: int
    image_shape: tuple[int, int, int]
    proof_rate: float
    local_steps: int = 5
    batch_size: int = 16
    learning_rate: float = 0.05
    num_rounds: int = 5
    proof_rounds: int = 3
    dataset: str | None = None


class AlgorithmOptions(NamedTuple):
    """Names the algorithm of a workload, for the engine and for loops written by hand.

    Attributes:
      name: ``'fedavg'``, ``'fedpbc'`` or ``'amplified_fedavg'``.
      period: P of amplified FedAvg.
      amplification: eta of amplified FedAvg.
    """

    name: str
    period: int = 1
    amplification: float = 1.0


class Schedule(NamedTuple):
    """Holds what a run draws at random besides the initial model.

    Attributes:
      masks: bool[T, N], whose uplink delivers.
      rows: int[T, N, steps, B], rows of the problem's data that each local step takes.
    """

    masks: np.ndarray
    rows: np.ndarray


def problem(workload: Workload, module: nn.Module) -> Problem:
    """Builds a problem of published or noise images, equally many per client."""
    num_examples = workload.num_clients * workload.examples_per_client
    if workload.dataset is None:
        rng = np.random.default_rng(0)
        features = rng.standard_normal(
            (num_examples, *workload.image_shape), np.float32
        )
        labels = rng.integers(0, 10, num_examples).astype(np.int32)
    else:
        published = datasets.published(workload.dataset)
        pixels = published.train_features[:num_examples].astype(np.float32)
        features = (pixels - pixels.mean()) / pixels.std()
        labels = published.train_labels[:num_examples].astype(np.int32)
    return problems.from_flax(
        features,
        labels,
        np.repeat(np.arange(workload.num_clients), workload.examples_per_client),
        module=module,
    )


def engine(
    key: jax.Array,
    data: Problem,
    workload: Workload,
    algorithm: AlgorithmOptions,
    links: Participation,
) -> Any:
    """Runs the workload through `simulate`; returns the final model and float[T], the loss sums."""
    client_program = local_training.local_sgd(
        workload.learning_rate,
        local_steps=workload.local_steps,
        batch_size=workload.batch_size,
    )
    options = {}
    if algorithm.name == 'amplified_fedavg':
        options = {'period': algorithm.period, 'amplification': algorithm.amplification}
    factory = getattr(algorithms, algorithm.name)
    result = simulation.simulate(
        key,
        factory(client_program, **options),
        links,
        data,
        num_rounds=workload.num_rounds,
    )
    return result.state.algorithm.server, result.rounds.loss_sum


def initial_params(key: jax.Array, data: Problem) -> Any:
    """Returns the model that a run with this key starts from."""
    # Stream 0 of `core.prng` draws what is made before the first round, first the model.
    return data.init_params(jax.random.fold_in(jax.random.fold_in(key, 0), 0))


def schedule(key: jax.Array, links: Participation, workload: Workload) -> Schedule:
    """Draws the links of a run, and computes its minibatches again from its key."""
    fold = jax.random.fold_in

    def step_rows(t, client, step):
        # Stream 2 of `core.prng` draws the minibatches.
        step_key = fold(fold(fold(fold(key, 2), t), client), step)
        draws = prng.integers(
            step_key, (workload.batch_size,), workload.examples_per_client
        )
        return client * workload.examples_per_client + draws

    over_steps = jax.vmap(step_rows, (None, None, 0))
    over_clients = jax.vmap(over_steps, (None, 0, None))
    rows = jax.jit(jax.vmap(over_clients, (0, None, None)))(
        jnp.arange(workload.num_rounds),
        jnp.arange(workload.num_clients),
        jnp.arange(workload.local_steps),
    )
    sample = simulation.realised_links(key, links, num_rounds=workload.num_rounds)
    return Schedule(np.array(sample.mask), np.array(rows))


def by_hand(
    params: Any,
    data: Problem,
    module: nn.Module,
    plan: Schedule,
    workload: Workload,
    algorithm: AlgorithmOptions,
) -> Any:
    """Runs the workload as Python loops over rounds and clients, without the engine.

    Local steps are compiled one by one and sums are NumPy's, in double precision.

    Returns:
      The final model, and float[T], the sum over active clients of the loss at their first step.
    """

    def loss(params, features, labels):
        logits = module.apply({'params': params}, features)
        return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(logits, labels))

    @jax.jit
    def step(params, features, labels):
        value, slope = jax.value_and_grad(loss)(params, features, labels)
        return jax.tree.map(
            lambda p, g: p - workload.learning_rate * g, params, slope
        ), value

    features, labels = (np.asarray(values) for values in data.data)

    def train(start, batches):
        losses = []
        for rows in batches:
            start, value = step(start, features[rows], labels[rows])
            losses.append(float(value))
        return start, losses[0]

    def mean(models):
        return jax.tree.map(
            lambda *a: jnp.asarray(
                np.mean(np.asarray(a, np.float64), axis=0), a[0].dtype
            ),
            *models,
        )

    trains_all = algorithm.name == 'fedpbc'
    server = params
    block_start = params
    clients = [params] * workload.num_clients
    losses = []
    for t, (mask, rows) in enumerate(zip(plan.masks, plan.rows, strict=True)):
        active = np.flatnonzero(mask)
        training = range(workload.num_clients) if trains_all else active
        results = {
            i: train(clients[i] if trains_all else server, rows[i]) for i in training
        }
        losses.append(sum(results[i][1] for i in active))
        if len(active):
            server = mean([results[i][0] for i in active])
        if trains_all:
            clients = [server if mask[i] else results[i][0] for i in training]
        if algorithm.name == 'amplified_fedavg' and (t + 1) % algorithm.period == 0:
            server = jax.tree.map(
                lambda r, x: r + algorithm.amplification * (x - r), block_start, server
            )
            block_start = server
    return server, np.asarray(losses)


def clients_trained(plan: Schedule, algorithm: AlgorithmOptions) -> float:
    """Returns the mean over the rounds of the number of clients that train."""
    if algorithm.name == 'fedpbc':
        return float(plan.masks.shape[1])
    return float(plan.masks.sum(1).mean())
