"""Holds tables of what a config can name besides algorithms, patterns and problems.

Each table maps a name to a function. A section of a config has the name, and its other fields are
the function's arguments. The functions of some tables also get a first argument, which the table's
docstring names. A name with a colon, ``module:factory``, stands for a user's function with the same
arguments.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from fedjax_links import evaluation, local_training, partition, simulation
from fedjax_links.base import Problem
from fedjax_links.clients import rates as learning_rates
from fedjax_links.config import optimizers, recorded_links
from fedjax_links.core import checks, contracts, errors, tree
from fedjax_links.core.labels import class_labels
from fedjax_links.core.registry import Registry
from fedjax_links.links import graphs
from fedjax_links.participation import durations, schedules
from fedjax_links.participation.probabilities import label_dependent_probs
from fedjax_links.participation.quorum import Times
from fedjax_links.participation.traces import trace_formats
from fedjax_links.problems import owners

Factories = Mapping[str, Callable[..., Any]]

LEARNING_RATES = learning_rates.LEARNING_RATES
"""``client.decay``; the first argument is the rate."""

SCHEDULES = schedules.SCHEDULES
"""``schedule`` of a pattern; the first argument is the probabilities."""

CLIENT_PROGRAMS: Factories = Registry(
    local_sgd=local_training.local_sgd, proximal_sgd=local_training.proximal_sgd
)
"""``client.name``; ``learning_rate`` is the schedule of the rate. Returns a client program."""

_SPEEDS_STREAM = 0x5052
"""Keeps speeds of devices apart from other draws that use the same seed."""

_MAX_SIGMA = 100
"""Largest sigma: factors ``exp(sigma z)`` are finite in float64 up to z = 7."""

OPTIMIZERS = optimizers.OPTIMIZERS
"""``server_optimizer`` of an algorithm; ``optimizer`` of a client, with the client's rate as the
first argument."""


def _train_and_eval() -> simulation.EvalFn:
    """Measures the problem's metrics on all clients' data and on its evaluation data."""
    return evaluation.train_and_eval


def _problem_metrics() -> simulation.EvalFn:
    """Measures the problem's metrics on its evaluation data."""
    return simulation.problem_metrics


def _gradient_norm() -> simulation.EvalFn:
    """Measures the usual metrics and the squared norm of the gradient of the clients' mean loss."""
    return evaluation.with_gradient_norm


EVAL_FNS: Factories = Registry(
    {
        'gradient_norm': _gradient_norm,
        'problem_metrics': _problem_metrics,
        'train_and_eval': _train_and_eval,
    }
)
"""``eval_fn``: returns ``(params, key, problem) -> metrics``."""


def _check_clients(problem: object) -> None:
    """Raises unless the argument is a problem, or stands in for it with edges as clients."""
    if not hasattr(problem, 'num_clients'):
        contracts.check_problem(problem)


def _label_dependent(
    problem: Problem, *, sigma: float = 10.0, minimum: float = 0.02, seed: int = 0
) -> np.ndarray:
    """Lets clients of favoured classes deliver more often; see `label_dependent_probs`.

    Args:
      problem: the problem, which has an integer label for each example.
      sigma: standard deviation of the logarithm of a class's weight.
      minimum: the least probability of any client.
      seed: of the classes' weights, integer in ``[0, 2**32)``.
    """
    _check_clients(problem)
    labels = class_labels(problem)
    if labels is None:
        requirement = 'suit a problem with a class for each example'
        raise errors.invalid('name', requirement, "'label_dependent'")
    class_mix = partition.class_mix(owners(problem), labels)
    return label_dependent_probs(class_mix, sigma=sigma, minimum=minimum, seed=seed)


def _equal(problem: Problem, *, value: float) -> np.ndarray:
    """Gives all clients the same value.

    Args:
      problem: the problem.
      value: the value.
    """
    _check_clients(problem)
    checks.number('value', value)
    checks.finite('value', value)
    return np.full(problem.num_clients, value)


def _halves(problem: Problem, *, first: float, second: float) -> np.ndarray:
    """Gives the first half of the clients one value, and the other clients another.

    Args:
      problem: the problem, with N clients.
      first: value of the first N // 2 clients.
      second: value of the other clients.
    """
    _check_clients(problem)
    for name, value in (('first', first), ('second', second)):
        checks.number(name, value)
        checks.finite(name, value)
    num_clients = problem.num_clients
    return np.where(np.arange(num_clients) < num_clients // 2, first, second)


def _listed(problem: Problem, *, values: Sequence[float]) -> np.ndarray:
    """Takes the values of a list, one for each client.

    Args:
      problem: the problem, with N clients.
      values: N numbers.
    """
    _check_clients(problem)
    checks.per_client('values', values)
    if len(values) != problem.num_clients:
        requirement = f'have {problem.num_clients} entries'
        raise errors.invalid('values', requirement, len(values))
    checks.finite('values', values)
    return np.asarray(values, float)


def _power(
    problem: Problem, *, exponent: float, count: int | None = None
) -> np.ndarray:
    """Lets weights fall as a power: ``1, 2^-exponent, 3^-exponent, ...``.

    Args:
      problem: the problem, with N clients.
      exponent: how fast weights fall; with a negative exponent they rise.
      count: number of weights, from 1 to N, such as the number of groups; N by default.
    """
    _check_clients(problem)
    if count is None:
        count = problem.num_clients
    checks.static_int('count', count, maximum=problem.num_clients)
    checks.number('exponent', exponent)
    with np.errstate(all='ignore'):
        weights: np.ndarray = np.arange(1.0, count + 1) ** -exponent
    if not np.isfinite(weights).all():
        raise errors.invalid('exponent', 'leave weights finite', exponent)
    return weights


def _contiguous(problem: Problem, *, num_groups: int) -> np.ndarray:
    """Groups consecutive clients, in groups of nearly equal size.

    Args:
      problem: the problem.
      num_groups: from 1 to N.
    """
    _check_clients(problem)
    return partition.contiguous_groups(problem.num_clients, num_groups=num_groups)


PROBS: Factories = Registry(
    {
        'equal': _equal,
        'halves': _halves,
        'label_dependent': _label_dependent,
        'listed': _listed,
    }
)
"""``probs`` of a pattern, which checks their range; the first argument is the problem. Returns a
number per client."""

WEIGHTS: Factories = Registry({**PROBS, 'power': _power})
"""``weights`` of a pattern; the first argument is the problem. Returns a weight per client or
group."""

GROUPS: Factories = Registry({'contiguous': _contiguous})
"""``groups`` of a pattern; the first argument is the problem. Returns int[N]."""


def _packets_of_model(problem: Problem, *, packet_bytes: int = 1500) -> int:
    """Counts the packets of a model of the problem.

    Args:
      problem: the problem.
      packet_bytes: bytes in a packet.
    """
    contracts.check_problem(problem)
    checks.static_int('packet_bytes', packet_bytes)
    return math.ceil(bytes_of_model(problem) / packet_bytes)


def bytes_of_model(problem: Problem) -> int:
    """Returns how many bytes the parameters of a problem's model take."""
    contracts.check_problem(problem)
    return tree.num_bytes(jax.eval_shape(problem.init_params, jax.random.key(0)))


def _device_times(
    problem: Problem,
    *,
    step: Any,
    uplink: Any,
    downlink: Any,
    local_steps: int,
    sigma: Any = 0.0,
    model_bytes: float | None = None,
) -> Times:
    """Makes `Times`: of local steps, which vary, and of sending a model to a client and back.

    Args:
      problem: the problem.
      step: seconds of a local step: a number, or one for each client (`DEVICE_SPEEDS`).
      uplink: bytes per second that a client sends, likewise.
      downlink: bytes per second that a client receives, likewise.
      local_steps: local steps in a round.
      sigma: standard deviation of the logarithm of the training time, from round to round, in
        [0, 100]: a number, or one for each client.
      model_bytes: bytes of what is sent; a model of the problem by default.
    """
    contracts.check_problem(problem)
    step = checks.on_host(step)
    uplink = checks.on_host(uplink)
    downlink = checks.on_host(downlink)
    for name, value in (('step', step), ('uplink', uplink), ('downlink', downlink)):
        checks.positive(name, value)
        if np.shape(value) not in ((), (problem.num_clients,)):
            requirement = (
                f'be a number or have one for each of the {problem.num_clients} clients'
            )
            raise errors.invalid(name, requirement, errors.text_of(value))
    checks.static_int('local_steps', local_steps)
    size = checks.on_host(
        bytes_of_model(problem) if model_bytes is None else model_bytes
    )
    checks.positive_number('model_bytes', size)
    checks.within('sigma', sigma, 0, _MAX_SIGMA)
    checks.one_or_each('sigma', sigma, problem.num_clients)
    ones = np.ones(problem.num_clients)
    training = local_steps * np.asarray(step, float) * ones
    upload = size / np.asarray(uplink, float)
    download = size / np.asarray(downlink, float)
    return Times(training, sigma=sigma, fixed=(upload + download) * ones)


def lognormal(
    num_clients: int, *, median: float, sigma: float, seed: int = 0
) -> np.ndarray:
    """Draws speeds of unequal devices: the median times ``exp(sigma z_i)``, z_i standard normal.

    Args:
      num_clients: N.
      median: in seconds per step, or bytes per second; positive.
      sigma: standard deviation of the logarithm, in [0, 100].
      seed: integer in ``[0, 2**32)``.
    """
    checks.static_int('num_clients', num_clients)
    median = checks.on_host(median)
    checks.positive_number('median', median)
    checks.number_within('sigma', sigma, 0, _MAX_SIGMA)
    checks.seed('seed', seed)
    rng = np.random.default_rng([int(seed), _SPEEDS_STREAM])
    return median * np.exp(sigma * rng.standard_normal(num_clients))


def from_table(num_clients: int, *, path: str, column: str) -> np.ndarray:
    """Reads a column of a CSV file with a header and a line for each client, in order.

    Args:
      num_clients: N.
      path: the file, beside the config file or in the working directory.
      column: the column's name in the header.
    """
    import pandas

    file = recorded_links.locate('path', path)
    try:
        table = pandas.read_csv(file)
        if not isinstance(column, str) or column not in table:
            raise errors.unknown_name('column', column, table)
        values = table[column].to_numpy(float)
    except errors.InvalidError:
        raise
    except (OSError, ValueError) as error:
        reason = getattr(error, 'strerror', None) or str(error).strip().rstrip('.')
        got = f'{file}: {reason}'
        raise errors.invalid('path', 'name a readable table', got) from None
    if len(values) != num_clients:
        requirement = f'name a table of {num_clients} clients'
        raise errors.invalid('path', requirement, f'{file} with {len(values)}')
    return values


DEVICE_SPEEDS: Factories = Registry({'lognormal': lognormal, 'table': from_table})
"""``step``, ``uplink``, ``downlink`` of a cost or of times; the first argument is N. Returns
float[N]."""

PACKETS: Factories = Registry({'of_model': _packets_of_model})
"""``num_packets`` of `packets`; the first argument is the problem. Returns an integer."""

TIMES: Factories = Registry({'devices': _device_times})
"""``times`` of `quorum`; the first argument is the problem. Returns `Times`."""

GRAPHS = graphs.GRAPHS
"""``graph`` of `peers`; graphs with an argument ``num_clients`` get N."""

SOJOURNS = durations.SOJOURNS
"""``up`` and ``down`` of `semi_markov`."""

PROBLEM_TABLES: Mapping[str, Factories] = {
    'groups': GROUPS,
    'num_packets': PACKETS,
    'probs': PROBS,
    'times': TIMES,
    'weights': WEIGHTS,
}
"""The table of each option of a pattern. The first argument of functions is the problem."""

CLIENT_COUNT_TABLES: Mapping[str, Factories] = {
    'graph': GRAPHS,
    'down': SOJOURNS,
    'up': SOJOURNS,
    'downlink': DEVICE_SPEEDS,
    'step': DEVICE_SPEEDS,
    'uplink': DEVICE_SPEEDS,
}
"""The table of each option of a pattern, or of its times. Functions with an argument
``num_clients`` get N."""

LINKS: Factories = Registry({'recorded': recorded_links.recorded})
"""``links`` or one of ``patterns``, besides `PARTICIPATION`; ``num_clients`` is N."""

TRACE_FORMATS: Factories = Registry(
    {
        'csv': trace_formats.from_csv,
        'events': trace_formats.from_events,
        'flash': trace_formats.from_flash,
    }
)
"""``format`` of ``trace`` and ``synthetic_trace``; the first argument is their ``path``. Returns
`Intervals`."""
