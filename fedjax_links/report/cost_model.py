"""What rounds cost: simulated seconds and bytes, priced after the fact from who took part.

A run is not touched: the masks of its links, what its algorithm sends and a table of devices give
the price of every round. The model of a round:

* A client that takes part receives ``down`` models, makes its local steps and sends ``up`` models;
  these three take ``down * B / downlink_i + steps_i * step_i + up * B / uplink_i`` seconds, B the
  bytes of a model. FedPBC's clients receive last, which is the same sum.
* A round lasts as long as the slowest client whose message arrives, and ``overhead`` seconds more.
  Whoever is silent is not waited for, also where it trains meanwhile, so a round without messages
  lasts ``overhead``: the time a server takes to notice goes in there.
* A client's speed is the same in every round. Rounds do not overlap, uplinks do not share a medium,
  each client receives a message of its own, and messages that do not arrive cost nothing.
* Where a pattern tells how long its rounds took (`quorum`), that is what they take.
* Over an edge between clients that is up, each end sends ``peers`` models to the other; their time
  is not counted.
* Messages are whole models in the dtype of the parameters. Scalars, such as FedAU's weights, and
  the server's own work are not counted.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from fedjax_links.algorithms import ALGORITHMS
from fedjax_links.config import resolver
from fedjax_links.config.registries import DEVICE_SPEEDS as DEVICE_SPEEDS
from fedjax_links.core import checks, errors
from fedjax_links.core.registry import Traffic as Traffic

_LARGEST = 1e300

TRAFFIC: Mapping[str, Traffic] = {
    name: entry.traffic for name, entry in ALGORITHMS.items()
}
"""By name in ALGORITHMS: what is sent, and who is asked."""


class DeviceSpeeds(NamedTuple):
    """The clients' speeds.

    Attributes:
      step: float[N], seconds of a local step.
      uplink: float[N], bytes per second.
      downlink: float[N], bytes per second.
    """

    step: np.ndarray
    uplink: np.ndarray
    downlink: np.ndarray


class Price(NamedTuple):
    """What has been spent when so many rounds are completed; entry 0 is the start.

    Attributes:
      seconds: float64[T + 1], of the clock on the wall.
      uplink: float64[T + 1], bytes that all clients sent.
      downlink: float64[T + 1], bytes that all clients received.
      compute: float64[T + 1], seconds that all clients trained, heard or not.
      peers: float64[T + 1], bytes that clients sent each other.
    """

    seconds: np.ndarray
    uplink: np.ndarray
    downlink: np.ndarray
    compute: np.ndarray
    peers: np.ndarray


def devices(num_clients: int, *, step: Any, uplink: Any, downlink: Any) -> DeviceSpeeds:
    """A table of devices: numbers, for everyone or one for each client, or sections that name them.

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
    columns = {'step': step, 'uplink': uplink, 'downlink': downlink}
    for name, given in columns.items():
        if isinstance(given, str | Mapping):
            columns[name] = resolver.build_named(
                name, given, DEVICE_SPEEDS, num_clients
            )
    checks.within('step', columns['step'], 0, _LARGEST)
    checks.positive('uplink', columns['uplink'])
    checks.positive('downlink', columns['downlink'])
    return DeviceSpeeds(
        *(_each(name, column, num_clients) for name, column in columns.items())
    )


def price(
    mask: np.ndarray,
    traffic: Traffic,
    table: DeviceSpeeds,
    *,
    model_bytes: float,
    local_steps: Any = 1,
    overhead: float = 0.0,
    options: Mapping[str, Any] | None = None,
    durations: np.ndarray | None = None,
    edges: np.ndarray | None = None,
) -> Price:
    """Prices every round of a run.

    Args:
      mask: bool[T, N], who could hear, train and deliver, from round 0 on.
      traffic: what the algorithm sends.
      table: of the N clients.
      model_bytes: B, positive.
      local_steps: of a round, int[] or int[N].
      overhead: seconds of every round besides, at least 0.
      options: of the algorithm, as in a config: ``compute``, ``budget``, ``period``, ...
      durations: float[T], seconds that the rounds took, where the pattern told.
      edges: bool[T, N, K], which edges to neighbours were up.

    Returns:
      Cumulative prices.

    Raises:
      ValueError: for shapes that do not fit and numbers out of range.
    """
    mask, options = np.asarray(mask), options or {}
    if mask.ndim != 2 or mask.dtype != bool:
        raise errors.invalid('mask', 'be bool[T, N]', f'{mask.dtype}{list(mask.shape)}')
    num_clients = mask.shape[1]
    if len(table.step) != num_clients:
        raise errors.invalid('table', f'have {num_clients} clients', len(table.step))
    checks.positive('model_bytes', model_bytes)
    checks.within('overhead', overhead, 0, _LARGEST)
    checks.within('local_steps', local_steps, 0, checks.LARGEST_INT)
    training = _each('local_steps', local_steps, num_clients) * table.step
    received = traffic.down * model_bytes / table.downlink
    sent = traffic.up * model_bytes / table.uplink
    awaited = received + sent + (training if traffic.awaits_compute else 0)
    asked = mask if traffic.senders is None else traffic.senders(mask, options)
    everyone = traffic.everyone
    if everyone is None:
        everyone = options.get('compute', traffic.default) == 'all'
    count = model_bytes * asked.sum(axis=1, dtype=np.int64)
    compute = np.full(len(mask), training.sum()) if everyone else asked @ training
    slowest = np.where(asked, awaited, 0.0).max(axis=1)
    lasted = slowest if durations is None else np.asarray(durations, float)
    said = (
        np.zeros(len(mask)) if edges is None else edges.sum(axis=(1, 2)) * model_bytes
    )
    sent_up, sent_down = traffic.up * count, traffic.down * count
    every = lasted + overhead, sent_up, sent_down, compute, traffic.peers * said
    return Price(
        *(np.append(0.0, np.cumsum(column, dtype=np.float64)) for column in every)
    )


def _each(argument: str, value: Any, num_clients: int) -> np.ndarray:
    if np.ndim(value) and np.shape(value) != (num_clients,):
        requirement = f'be a number or have {num_clients} entries'
        raise errors.invalid(argument, requirement, f'shape {np.shape(value)}')
    return np.broadcast_to(np.asarray(value, float), (num_clients,))
