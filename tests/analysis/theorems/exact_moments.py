"""Exact first and second moments of FedPBC on scalar quadratics, by enumerating active sets.

Written from the listing, independent of the package. B problems at a time, N clients each.
"""

import itertools

import numpy as np

from tests.analysis.enumeration import mixing


def mixing_laws(probs):
    """Yields the mixing matrix of each active set, [N, N], with its probabilities, [B].

    Args:
      probs: of independent links, float[B, N].
    """
    for bits in itertools.product([False, True], repeat=probs.shape[1]):
        mask = np.array(bits)
        yield mixing(mask), np.prod(np.where(mask, probs, 1 - probs), axis=1)


class Problems:
    """B random scalar quadratics ``h_i / 2 (x - u_i)^2`` with links, and their constants.

    Curvatures h, targets u and link probabilities are [B, N], all others [B]. The constants satisfy
    ``mean_i (F_i' - F')^2 <= slope^2 F'^2 + offset^2`` at every point.
    """

    def __init__(self, rng, count, num_clients, *, curvature, equal=False, least=0.1):
        """Draws B = ``count`` problems.

        Args:
          rng: a NumPy generator.
          count: B.
          num_clients: N.
          curvature: the smallest and the largest h_i.
          equal: whether the clients of a problem have one curvature.
          least: the smallest link probability.
        """
        low, high = curvature
        self.curves = rng.uniform(low, high, size=(count, num_clients))
        if equal:
            self.curves[:] = self.curves[:, :1]
        self.targets = rng.normal(size=(count, num_clients)) * rng.exponential(
            size=(count, 1)
        )
        self.probs = rng.uniform(least, 1.0, size=(count, num_clients))
        self.noise = rng.choice([0.0, 0.5, 2.0], size=count)
        self.start = rng.normal(size=count) * 2
        self.mean_curve = self.curves.mean(axis=1)
        self.pull = np.mean(self.curves * self.targets, axis=1)
        self.minimiser = self.pull / self.mean_curve
        self.smoothness = self.curves.max(axis=1)
        # F_i' - F' = (h_i - h) (x - x*) + h_i (x* - u_i). Its square is at most twice the sum of
        # both squares; with equal curvatures the first part vanishes.
        factor = 1.0 if equal else 2.0
        spread = np.mean((self.curves - self.mean_curve[:, None]) ** 2, axis=1)
        self.slope = np.sqrt(factor * spread) / self.mean_curve
        differences = self.curves * (self.minimiser[:, None] - self.targets)
        self.offset = np.sqrt(factor * np.mean(differences**2, axis=1))

    def value(self, mean, square):
        """F in expectation at a model with these moments."""
        constant = np.mean(self.curves * self.targets**2, axis=1)
        return 0.5 * (self.mean_curve * square - 2 * self.pull * mean + constant)

    def gap(self):
        """F(x^0) - F*."""
        return 0.5 * self.mean_curve * (self.start - self.minimiser) ** 2

    def gradient_square(self, mean, square):
        """E ||grad F||^2 at a model with these moments."""
        h = self.mean_curve
        c = self.pull
        return h**2 * square - 2 * h * c * mean + c**2

    def local_steps(self, mean, second, rate, steps):
        """First and second moments after s local steps, [B, N] and [B, N, N].

        All steps of a round have one sample of the gradient noise, independent between clients. So
        the noise xi_i moves the target of client i by ``xi_i / h_i``.
        """
        factor = (1 - rate[:, None] * self.curves) ** steps
        shift = (1 - factor) * self.targets
        noise = ((1 - factor) * self.noise[:, None] / self.curves) ** 2
        moved = factor * mean + shift
        cross = (factor * mean)[:, :, None] * shift[:, None, :]
        second = factor[:, :, None] * factor[:, None, :] * second
        second = second + cross + np.swapaxes(cross, 1, 2)
        second = second + shift[:, :, None] * shift[:, None, :]
        second = second + noise[:, :, None] * np.eye(mean.shape[1])
        return moved, second

    def run(self, rate, steps, num_rounds):
        """Mean over rounds of the squared gradient at xbar and of the consensus error."""
        size = self.curves.shape[1]
        laws = list(mixing_laws(self.probs))
        mean = np.tile(self.start[:, None], (1, size))
        second = mean[:, :, None] * mean[:, None, :]
        gradients = 0.0
        consensus = 0.0
        for _ in range(num_rounds):
            bar_square = second.mean(axis=(1, 2))
            gradients = gradients + self.gradient_square(mean.mean(axis=1), bar_square)
            consensus = (
                consensus + np.trace(second, axis1=1, axis2=2) / size - bar_square
            )
            moved, after = self.local_steps(mean, second, rate, steps)
            mean = sum(p[:, None] * (moved @ w) for w, p in laws)
            second = sum(p[:, None, None] * (w @ after @ w) for w, p in laws)
        return gradients / num_rounds, consensus / num_rounds

    def mixing_rates(self):
        """Rho of each problem's links, [B]: the second eigenvalue of ``E W^2``, which is E W."""
        expected = sum(p[:, None, None] * w for w, p in mixing_laws(self.probs))
        return np.clip(np.linalg.eigvalsh(expected)[:, -2], 0, 1)
