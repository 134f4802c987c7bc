"""Local steps of linear regression as NumPy loops, on the batches that the key tree draws."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links import problems

COUNTS = (3, 6, 1, 4)
ROUND = 5
SEED = 2


def data(counts=COUNTS, dimension=2):
    rng = np.random.default_rng(0)
    owners = np.repeat(np.arange(len(counts)), counts)
    features = rng.normal(size=(len(owners), dimension)).astype(np.float32)
    return features, rng.normal(size=len(owners)).astype(np.float32), owners


def init_params(key):
    return {'w': jnp.zeros(2), 'b': jnp.zeros(())}


def loss_fn(params, batch):
    residual = batch.features @ params['w'] + params['b'] - batch.labels
    return 0.5 * jnp.mean(jnp.square(residual))


def regression(counts=COUNTS):
    """Linear regression with a bias: half the mean squared residual."""
    arrays = data(counts)
    return problems.from_arrays(*arrays, init_params=init_params, loss_fn=loss_fn)


START = {'w': jnp.array([0.7, -0.4]), 'b': jnp.array(0.2)}
FLAT_START = np.array([0.7, -0.4, 0.2])


def as_params(flat):
    """Parameters of `regression`, in the precision that is in force."""
    return {'w': jnp.asarray(flat[:2]), 'b': jnp.asarray(flat[2])}


@functools.partial(jax.jit, static_argnums=1)
def random_bits(key, size):
    return jax.random.bits(key, (size,), 'uint32')


def sampled_rows(step_key, size, count):
    """Rows of a minibatch: 32 random bits each, scaled in 64-bit integers."""
    bits = np.asarray(random_bits(step_key, size), np.uint64)
    return (bits * np.uint64(count) >> np.uint64(32)).astype(int)


def flat(params):
    return np.append(params['w'], params['b'])


def client_key(client, round=ROUND):
    fold = jax.random.fold_in
    return fold(fold(fold(jax.random.key(SEED), 2), round), client)


def run(program, client, problem=None, start=START, **adjustments):
    """What a client does in round `ROUND`; clients of a program share its compilation."""
    fn = functools.partial(program.run, **adjustments) if adjustments else program.run
    key = client_key(client)
    problem = problem or regression()
    return jax.jit(fn)(start, np.int32(client), np.int32(ROUND), key, problem)


class Reference:
    """Float64 loss and gradient of one client's batch, written out."""

    def __init__(self, client, resample='step', round=ROUND):
        """Takes the client's rows out of the arrays; a batch per ``'step'`` or ``'round'``."""
        features, labels, owners = data()
        self.design = np.c_[features, np.ones(len(labels))][owners == client].astype(
            float
        )
        self.labels = labels[owners == client].astype(float)
        self.key = client_key(client, round)
        self.resample = resample

    def batch(self, step, size):
        """Rows of a batch, from the key tree written out."""
        if size is None:
            return np.arange(len(self.labels))
        step = 0 if self.resample == 'round' else step
        key = jax.random.fold_in(self.key, step)
        return sampled_rows(key, size, len(self.labels))

    def loss_and_grad(self, x, rows):
        """Half the mean squared residual and its gradient."""
        residual = self.design[rows] @ x - self.labels[rows]
        return 0.5 * np.mean(residual**2), self.design[rows].T @ residual / len(rows)

    def descend(self, steps, batch_size, move, extra=lambda x: 0.0, start=FLAT_START):
        """``x <- x + move(gradient)``; returns the end and the loss at the start."""
        x = start.copy()
        losses = []
        for step in range(steps):
            loss, grad = self.loss_and_grad(x, self.batch(step, batch_size))
            x = x + move(grad + extra(x))
            losses.append(loss)
        return x, losses[0]


def xiang_listing(mask, rate, steps, batch_size, *, keeps_models, resample='round'):
    """Algorithms 1 and 2 of Xiang et al. 2023 on `regression`, from `FLAT_START`.

    Args:
      mask: bool[T, N], whose uplink delivers.
      rate: eta.
      steps: s.
      batch_size: rows of xi_i^t, which is drawn outside the loop over k.
      keeps_models: whether clients keep their models and receive the server's at the end of a
        round (FedPBC), or start from it (FedAvg, whose inactive clients have no effect).
      resample: ``'step'`` draws inside the loop.

    Returns:
      The server model after each round, float64[T, 3].
    """
    server = FLAT_START.copy()
    models = np.tile(FLAT_START, (mask.shape[1], 1))
    path = []
    for t, active in enumerate(mask):
        ends = np.empty_like(models)
        for i in range(len(models)):
            start = models[i] if keeps_models else server
            sampled = Reference(i, resample, round=t)
            ends[i], _ = sampled.descend(
                steps, batch_size, lambda g: -rate * g, start=start
            )
        models = ends
        if active.any():
            server = ends[active].mean(axis=0)
        models[active] = server
        path.append(server)
    return np.array(path)
