"""Computes what rounds cost, simulated seconds and bytes, from the recorded links.

A run is not changed. The masks of its links, what its algorithm sends and a table of devices give
the cost of each round. The model of a round:

* A client that takes part receives ``down`` models, makes its local steps and sends ``up`` models.
  These three take ``down * B / downlink_i + steps_i * step_i + up * B / uplink_i`` seconds, with B
  the bytes of a model. FedPBC's clients receive after they train, which gives the same sum.
* A round lasts as long as the slowest client whose message arrives, and ``overhead`` seconds more.
  The server does not wait for lost messages, even if their clients train. So a round without
  messages lasts ``overhead``, which should include the time a server takes to notice.
* A client's speed is the same in all rounds. Rounds do not overlap, and uplinks do not share a
  medium. Each client receives a message of its own. Messages that do not arrive cost nothing.
* Masks say who took part: received, trained and delivered. Where links have separate directions
  (`duplex`, `unavailable`), messages of a client that missed the broadcast cost nothing. Clients
  that cannot train cost as much as others, if an algorithm lets everyone train.
* If a pattern reports how long its rounds took (`quorum`), a round lasts that long and
  ``overhead``.
* Over an edge between clients that is up, each end sends ``peers`` models to the other. The time of
  these messages is not counted.
* Messages are whole models in the dtype of the parameters. Scalars, such as FedAU's weights, and
  the server's own work are not counted.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fedjax_links.algorithms import ALGORITHMS
from fedjax_links.config import resolver
from fedjax_links.config.registries import DEVICE_SPEEDS as DEVICE_SPEEDS
from fedjax_links.core import checks, errors
from fedjax_links.core.records import Section
from fedjax_links.core.registry import Traffic as Traffic

_LARGEST = 1e300
_WITH_DIRECTIONS = frozenset({'duplex', 'unavailable'})
"""Patterns with separate masks for uplink, downlink and compute."""
_MASKS_OF_REPLAY = frozenset({'downlink', 'compute'})
"""Options of the pattern `replay` that give it separate masks."""

TRAFFIC: Mapping[str, Traffic] = {
    name: entry.traffic for name, entry in ALGORITHMS.items()
}
"""By name in ALGORITHMS: what is sent, and by whom."""


class DeviceSpeeds(NamedTuple):
    """Holds the speeds of the clients.

    Attributes:
      step: float[N], seconds of a local step.
      uplink: float[N], bytes per second.
      downlink: float[N], bytes per second.
    """

    step: np.ndarray
    uplink: np.ndarray
    downlink: np.ndarray


class RoundCosts(NamedTuple):
    """Holds cumulative costs after each number of rounds; entry 0 is the start.

    Attributes:
      seconds: float64[T + 1], simulated wall-clock time.
      uplink: float64[T + 1], bytes that all clients sent.
      downlink: float64[T + 1], bytes that all clients received.
      compute: float64[T + 1], seconds that all clients trained; clients whose message was lost
        count if the algorithm lets everyone train.
      peers: float64[T + 1], bytes that clients sent each other.
    """

    seconds: np.ndarray
    uplink: np.ndarray
    downlink: np.ndarray
    compute: np.ndarray
    peers: np.ndarray


def devices(num_clients: int, *, step: Any, uplink: Any, downlink: Any) -> DeviceSpeeds:
    """Returns the speeds of the clients: given numbers, or drawn as a section describes.

    Args:
      num_clients: N.
      step: seconds of a local step, at least 0; float[], float[N] or a section of `DEVICE_SPEEDS`.
      uplink: bytes per second, positive; likewise.
      downlink: bytes per second, positive; likewise.

    Returns:
      The table.

    Raises:
      ValueError: for numbers out of range, or not one for each client.
    """
    checks.static_int('num_clients', num_clients)
    speeds = {'step': step, 'uplink': uplink, 'downlink': downlink}
    columns = {name: checks.on_host(speed) for name, speed in speeds.items()}
    for name, speed in columns.items():
        if isinstance(speed, str | Mapping):
            columns[name] = resolver.build_named(
                name, speed, DEVICE_SPEEDS, num_clients
            )
    checks.within('step', columns['step'], 0, _LARGEST)
    checks.positive('uplink', columns['uplink'])
    checks.positive('downlink', columns['downlink'])
    return DeviceSpeeds(
        step=_by_client('step', columns['step'], num_clients),
        uplink=_by_client('uplink', columns['uplink'], num_clients),
        downlink=_by_client('downlink', columns['downlink'], num_clients),
    )


def round_costs(
    mask: np.ndarray,
    traffic: Traffic,
    table: DeviceSpeeds,
    *,
    model_bytes: float,
    local_steps: Any = 1,
    overhead: float = 0.0,
    options: Section | None = None,
    durations: np.ndarray | None = None,
    edges: np.ndarray | None = None,
) -> RoundCosts:
    """Computes the cost of each round of a run.

    Args:
      mask: bool[T, N], who took part, from round 0 on.
      traffic: what the algorithm sends.
      table: speeds of the N clients.
      model_bytes: B, positive.
      local_steps: local steps of a round, int[] or int[N].
      overhead: seconds that each round lasts in addition, at least 0.
      options: options of the algorithm, as in a config: ``compute``, ``budget``, ``period``, ...
      durations: float[T], seconds that the rounds took, if the pattern reports them.
      edges: bool[T, N, K], which edges to neighbours were up.

    Returns:
      Cumulative costs.

    Raises:
      ValueError: for shapes that do not fit and numbers out of range.
    """
    checks.shape('mask', mask)
    mask = np.asarray(mask)
    _check_kinds(traffic, table, options)
    options = options or {}
    _check_shapes(mask, table)
    model_bytes = checks.on_host(model_bytes)
    checks.positive_number('model_bytes', model_bytes)
    overhead = checks.on_host(overhead)
    checks.number_within('overhead', overhead, 0, _LARGEST)
    checks.within('local_steps', local_steps, 0, checks.LARGEST_INT)
    num_rounds, num_clients = mask.shape

    training = _by_client('local_steps', local_steps, num_clients) * table.step
    receiving = traffic.down * model_bytes / table.downlink
    sending = traffic.up * model_bytes / table.uplink
    awaited = receiving + sending + (training if traffic.awaits_compute else 0)
    senders = mask if traffic.senders is None else traffic.senders(mask, options)

    if durations is None:
        seconds = np.where(senders, awaited, 0.0).max(axis=1)
    else:
        checks.within('durations', durations, 0, np.inf, axis='round')
        seconds = np.asarray(durations, float)
        if seconds.shape != (num_rounds,):
            requirement = f'be float[T], of shape [{num_rounds}]'
            got = f'shape {list(seconds.shape)}'
            raise errors.invalid('durations', requirement, got)
    if _everyone_trains(traffic, options):
        compute = np.full(num_rounds, training.sum())
    else:
        compute = senders @ training
    sent_bytes = model_bytes * senders.sum(axis=1, dtype=np.int64)
    peer_bytes = np.zeros(num_rounds)
    if edges is not None:
        peer_bytes = _edges_up(edges, mask).sum(axis=(1, 2)) * model_bytes
    return RoundCosts(
        seconds=_cumulative(seconds + overhead),
        uplink=_cumulative(traffic.up * sent_bytes),
        downlink=_cumulative(traffic.down * sent_bytes),
        compute=_cumulative(compute),
        peers=_cumulative(traffic.peers * peer_bytes),
    )


price = round_costs  # its name in version 0.1.0


def directions_text(config: Section) -> str:
    """Writes what a run's costs leave out, if links of its config have separate directions."""
    patterns = config.get('patterns') or {}
    if not any(map(_has_directions, [config.get('links'), *patterns.values()])):
        return ''
    return (
        ' Links have separate directions: messages are those of clients that receive, train and '
        'deliver, and clients that cannot train count as training where everyone trains.'
    )


def _has_directions(value: object) -> bool:
    """Returns whether a section of links, or a part of one, names separate directions."""
    if isinstance(value, str):
        return value in _WITH_DIRECTIONS
    if isinstance(value, list | tuple):
        return any(map(_has_directions, value))
    if not isinstance(value, Mapping):
        return False
    is_replay = value.get('name') == 'replay'
    has_masks = is_replay and not _MASKS_OF_REPLAY.isdisjoint(value)
    return has_masks or any(map(_has_directions, value.values()))


def _check_kinds(traffic: object, table: object, options: object) -> None:
    """Raises unless these are what an algorithm sends, a table of devices, and options."""
    if not isinstance(traffic, Traffic):
        requirement = "be an entry of `TRAFFIC`, such as TRAFFIC['fedavg']"
        raise errors.invalid('traffic', requirement, errors.text_of(traffic))
    if not isinstance(table, DeviceSpeeds):
        requirement = 'be `DeviceSpeeds`, as `devices` makes them'
        raise errors.invalid('table', requirement, errors.text_of(table))
    if options is not None and not hasattr(options, 'items'):
        raise errors.invalid('options', 'be options by name', errors.text_of(options))


def _edges_up(edges: ArrayLike, mask: np.ndarray) -> np.ndarray:
    """Returns which edges are up, bool[T, N, K]; raises for anything else."""
    checks.shape('edges', edges)
    array = np.asarray(edges)
    if array.ndim != 3 or array.shape[:2] != mask.shape or array.dtype != bool:
        got = f'{array.dtype}{list(array.shape)}'
        raise errors.invalid('edges', 'be bool[T, N, K]', got)
    return array


def _check_shapes(mask: np.ndarray, table: DeviceSpeeds) -> None:
    """Raises unless the mask is bool[T, N] and the table has N clients."""
    if mask.ndim != 2 or mask.dtype != bool:
        raise errors.invalid('mask', 'be bool[T, N]', f'{mask.dtype}{list(mask.shape)}')
    num_clients = mask.shape[1]
    if len(table.step) != num_clients:
        raise errors.invalid('table', f'have {num_clients} clients', len(table.step))


def _everyone_trains(traffic: Traffic, options: Section) -> bool:
    """Returns whether clients train whose message does not arrive."""
    if traffic.everyone is not None:
        return traffic.everyone
    return bool(options.get('compute', traffic.default) == 'all')


def _cumulative(costs: np.ndarray) -> np.ndarray:
    """Returns float64[T + 1], the sums of the first 0, 1, ... T costs."""
    return np.append(0.0, np.cumsum(costs, dtype=np.float64))


def _by_client(argument: str, value: ArrayLike, num_clients: int) -> np.ndarray:
    """Returns float64[N] of a number, or of one number for each client.

    Raises:
      ValueError: for another number of entries.
    """
    if np.ndim(value) and np.shape(value) != (num_clients,):
        requirement = f'be a number or have {num_clients} entries'
        raise errors.invalid(argument, requirement, f'shape {np.shape(value)}')
    return np.broadcast_to(np.asarray(value, float), (num_clients,))
