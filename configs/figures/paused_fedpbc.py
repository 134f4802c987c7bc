"""Computes what FedPBC expects on quadratics when only active clients compute."""

import numpy as np

from fedjax_links import analysis


def paused_means(
    probs: np.ndarray, targets: np.ndarray, factor: float, num_rounds: int
) -> np.ndarray:
    """Computes the expected server models of FedPBC when only active clients compute.

    All models begin at zero.

    With ``K_ij = E[1{i, j in A} / |A|]`` the expected client models X (rows) and server x follow
    ``X' = K Z + diag(1 - p) X`` and ``x' = P_0 x + sum_i E[1{i in A} / |A|] Z_i``, with
    ``Z = a X + (1 - a) U`` and P_0 the probability of an empty round.

    Args:
      probs: float64[N], independent link probabilities, at least one positive.
      targets: float64[N, d], U.
      factor: a, the fraction of a distance that a round's local steps leave.
      num_rounds: T.

    Returns:
      float64[T + 1, d], ``E[x^t]`` of rounds 0 to T.
    """
    cohort = analysis.expected_mixing_matrix(probs) - np.diag(1 - probs)
    empty = np.prod(1 - probs)
    weights = analysis.fedavg_weights(probs) * (1 - empty)
    clients = np.zeros_like(targets)
    server = np.zeros(targets.shape[1])
    servers = [server]
    for _ in range(num_rounds):
        trained = factor * clients + (1 - factor) * targets
        server = empty * server + weights @ trained
        clients = cohort @ trained + (1 - probs)[:, None] * clients
        servers.append(server)
    return np.stack(servers)
