"""The realised links of an experiment, as a run's folder keeps them."""

import math

import jax
import numpy as np

from fedjax_links import base
from fedjax_links.core import drawing
from fedjax_links.experiment.running.hooks import LINKS, Origin
from fedjax_links.experiment.running.programs import Programs
from fedjax_links.experiment.running.traced import most_periods

_MOST_LINKS = 2**27


def realised(shared: Programs, origin: Origin) -> dict[str, np.ndarray]:
    """The realised links of the first seed, or of every seed where asked for, one bit each.

    Args:
      shared: the programs of the experiment.
      origin: what the lanes of its main stage begin with.

    Returns:
      What `links.npz` holds.
    """
    experiment, arrays = shared.experiment, dict[str, np.ndarray]()
    if origin.round:
        arrays['first_round'] = np.array(origin.round)
        arrays['num_rounds'] = np.array(experiment.num_rounds)
    is_asked = LINKS in experiment.log
    seeds = experiment.seeds if is_asked else experiment.seeds[:1]
    for label in experiment.plan.patterns:
        num_clients = experiment.pattern_at(label, experiment.plan.points[0]).num_clients
        shapes = drawing.sample_shapes(experiment.pattern_at(label, experiment.plan.points[0]))
        width = num_clients + (math.prod(shapes.edges.shape) if base.has_peers(shapes) else 0)
        if width * experiment.num_rounds > _MOST_LINKS and not is_asked:
            continue
        for place, seed in enumerate(seeds):
            name = f'{label}/{seed}' if place else label
            found = _of_seed(shared, label, seed, origin)
            probs = found.pop('prob')
            if is_asked:
                arrays[f'prob/{name}'] = probs
            arrays[f'mean_prob/{name}'] = probs.mean(axis=0)
            if 'neighbours' in found:
                arrays[f'neighbours/{name}'] = found.pop('neighbours')[0]
            for kind, values in found.items():
                flags = values.dtype == bool
                arrays[f'{kind}/{name}'] = np.packbits(values, axis=-1) if flags else values
    return arrays


def _of_seed(shared: Programs, label: str, seed: int, origin: Origin) -> dict[str, np.ndarray]:
    """Who takes part, bool[T, N], the reported probabilities float[T, N], and what else there is.

    Durations float[T] of rounds that tell them, neighbours int32[T, N, K] and edges bool[T, N * K]
    of links between clients; all from the first round of the run on.
    """
    experiment = shared.experiment
    point, period = experiment.plan.points[0], experiment.eval_every
    program = shared.links(experiment.pattern_at(label, point, seed))
    keys, carry = experiment.plan.draws.key_of('links', seed, point), origin.carry(label, seed)
    home = shared.places[0].home
    keys = jax.device_put(keys, home)  # as those of lanes: one program for both
    if shared.side_by_side:
        keys, carry = keys[None], jax.tree.map(lambda a: a[None], carry)
    if carry is None:
        carry = program.start(keys)
    most, lead = most_periods(program.sample, period), 2 + shared.side_by_side
    pieces: list[dict[str, np.ndarray]] = []
    for first in range(origin.round, experiment.num_rounds, most * period):
        rounds = min(most * period, experiment.num_rounds - first)
        given = jax.device_put((np.int32(first), np.int32(rounds // period)), home)
        carry, drawn = program.draw(carry, keys, *given, most=most)
        host = jax.device_get(drawn)
        links = jax.tree.map(lambda a, n=rounds: a.reshape(-1, *a.shape[lead:])[:n], host)
        piece = {'mask': base.participants(links), 'prob': links.prob}
        if base.has_peers(links):
            piece |= {'neighbours': links.neighbours, 'edges': links.edges.reshape(rounds, -1)}
        if getattr(links, 'duration', None) is not None:
            piece['duration'] = links.duration
        pieces.append({kind: np.asarray(values) for kind, values in piece.items()})
    return {kind: np.concatenate([piece[kind] for piece in pieces]) for kind in pieces[0]}
