"""Moments of jump linear systems by the textbook's recursion, a loop over all modes.

Only the recursion is independent of the package. The maps of a round are its own
`linear_rounds.RULES`, which other tests compare with closed forms and the engine.
"""

import numpy as np

from fedjax_links.analysis import linear_rounds


def round_matrices(name, masks, probs, learning_rate, steps, curvature=1.0, **options):
    """A and B of a round in each mode: float64[M, n, n] and float64[M, n, N], n = 1 + N."""
    size = masks.shape[1]
    curvatures = np.broadcast_to(np.asarray(curvature, float), (size,))
    # A round is linear. Applied to the unit vectors of (x, rows, targets), it yields its
    # matrices A and B.
    server, rows, targets = np.split(np.eye(1 + 2 * size), [1, 1 + size])
    maps = []
    for mask, prob in zip(masks, probs, strict=True):
        links = linear_rounds.Round(
            active=mask,
            mixing=np.eye(size),
            edges=np.eye(size, dtype=bool),
            probs=prob,
            keep=((1 - learning_rate * curvatures) ** steps)[:, None],
            targets=targets,
            rate=learning_rate,
            steps=steps,
            curvature=curvatures[:, None],
            options=options,
        )
        maps.append(np.vstack(linear_rounds.RULES[name](links, server[0], rows)))
    maps = np.array(maps)
    return maps[:, :, : 1 + size], maps[:, :, 1 + size :]


def curve(matrices, transition, start, targets, num_rounds):
    """Mean [T + 1] and variance [T + 1] of the server's one coordinate, mode by mode.

    A round in mode m maps the state z to ``A_m z + b_m``. Three quantities are followed by the mode
    of the coming round: its probability pi_m, q_m = E[z 1{m}] and Q_m = E[z z' 1{m}]. The round
    makes ``A q_m + pi_m b`` and ``A Q_m A' + A q_m b' + b (A q_m)' + pi_m b b'`` of the last two,
    then the chain moves all three by ``P'``.
    """
    matrix_by_mode, vector_by_mode = matrices
    num_modes, size, _ = matrix_by_mode.shape
    law = np.array(start)
    first = np.zeros((num_modes, size))
    second = np.zeros((num_modes, size, size))
    means = [0.0]
    variances = [0.0]
    for _ in range(num_rounds):
        after_first = np.zeros_like(first)
        after_second = np.zeros_like(second)
        for mode in range(num_modes):
            a = matrix_by_mode[mode]
            b = vector_by_mode[mode] @ targets
            after_first[mode] = a @ first[mode] + law[mode] * b
            cross = np.outer(a @ first[mode], b)
            after_second[mode] = a @ second[mode] @ a.T + cross + cross.T
            after_second[mode] += law[mode] * np.outer(b, b)
        means.append(after_first[:, 0].sum())
        variances.append(after_second[:, 0, 0].sum() - means[-1] ** 2)
        law = transition.T @ law
        first = transition.T @ after_first
        second = np.tensordot(transition.T, after_second, axes=1)
    return np.array(means), np.array(variances)
