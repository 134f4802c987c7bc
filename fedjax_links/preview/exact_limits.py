"""Describes where a config's algorithms end on quadratics, with and without memory of links.

Moments are the mean and the covariance of an algorithm's models and memories.
"""

import math
import textwrap
from typing import Any

import numpy as np

from fedjax_links import analysis
from fedjax_links.analysis import link_chains
from fedjax_links.core import errors
from fedjax_links.preview import configured_links, exact_quadratics
from fedjax_links.preview.configured_chains import NotExactError
from fedjax_links.preview.configured_links import ConfiguredLinks
from fedjax_links.preview.exact_quadratics import (
    ExactLimit,
    LinearAlgorithm,
    QuadraticRun,
)

MAX_WORK = 40_000.0
"""Largest number of entries in the moments of all algorithms: about ten seconds on one core."""

QUICK_WORK = 8_000.0
"""The same limit for about a second."""

_WIDTH = 80
_FIRST_ORDER = 'fedau', 'fedavg', 'fedavg_all', 'fedavg_known'
"""Algorithms whose mean model is known to first order in the step size."""
_MAX_LAGS = 30_000
"""Most lags, over all clients, in the sum of FedAvg's first-order law: about a second."""
_NEGLIGIBLE = 1e-17
"""Terms below this vanish in a float64 sum with 1."""
_ROUNDING = 1e-9
_DEVIATION_ROUNDING = 1e-6
"""Multiples of the targets' size below which a bias, or a deviation, is rounding."""


class _TooLongError(NotExactError):
    """States that a computation would exceed the allowed work."""


def describe(links: ConfiguredLinks, max_work: float = MAX_WORK) -> list[str]:
    """Describes where each algorithm ends under a pattern of a config.

    Args:
      links: the pattern.
      max_work: how many entries the moments of all algorithms together may have.

    Returns:
      Lines of at most 80 columns; none for problems that are no quadratics, nor for memoryless
      links under which no algorithm has an exact limit. Otherwise a line says why an algorithm has
      no exact limit.
    """
    try:
        run = exact_quadratics.quadratic_run(links)
    except NotExactError as reason:
        if links.law.memoryless:
            return []
        return textwrap.wrap(
            f'no exact limits: {reason}', _WIDTH, subsequent_indent='  '
        )
    if run is None:
        return []
    writer = _Writer(links, run, max_work)
    lines: list[str] = []
    labels_of_reason: dict[str, list[str]] = {}
    for label in links.experiment.algorithms:
        try:
            lines += writer.lines_of(label)
        except NotExactError as reason:
            labels_of_reason.setdefault(str(reason), []).append(label)
    if lines:
        lines.insert(0, writer.heading())
    elif links.law.memoryless:
        return []
    for reason_text, labels in labels_of_reason.items():
        lines.append(f'  no exact limit of {", ".join(labels)}: {reason_text}')
    wrapped = []
    for line in lines:
        wrapped += textwrap.wrap(line, _WIDTH, subsequent_indent=' ' * 4)
    return wrapped


class _Writer:
    """Writes lines about algorithms until the allowed work is used up."""

    def __init__(
        self, links: ConfiguredLinks, run: QuadraticRun, max_work: float
    ) -> None:
        """Takes a pattern, and how much may be computed.

        Args:
          links: a pattern of a config.
          run: the same pattern in the form that the theory takes.
          max_work: as in `describe`.
        """
        self._links = links
        self._run = run
        self._work_left = max_work
        self._is_quick = max_work < MAX_WORK
        self._memoryless_run = _without_memory(links, run)
        self._size = float(np.abs(run.targets).max())

    def heading(self) -> str:
        """Returns the heading, which says what the numbers of the lines are."""
        comparison = ' [without memory]' if self._memoryless_run is not None else ''
        symbol = 'E x - x*' if len(self._run.optimum) == 1 else '||E x - x*||'
        numbers = f'{symbol}, standard deviation, time constant'
        experiment = self._links.experiment
        data = ''
        if configured_links.is_redrawn(experiment, self._links.label):
            data = f', data of seed {experiment.seeds[0]}'
        return f'Exact limits{comparison}: {numbers}{data}'

    def lines_of(self, label: str) -> list[str]:
        """Describes the limits of an algorithm's models.

        Raises:
          NotExactError: with the reason why the limits are not known.
        """
        algorithm = exact_quadratics.linear_algorithm(self._links, label)
        if algorithm.name == 'fedau':
            return [self._first_order_line(label, algorithm)]
        try:
            self._spend(algorithm)
            limits = exact_quadratics.limits(self._run, algorithm)
        except _TooLongError as too_long:
            if algorithm.name not in _FIRST_ORDER:
                raise
            try:
                return [self._first_order_line(label, algorithm)]
            except NotExactError:
                # The first error says where to get the exact limit, and so helps more.
                raise too_long from None
        memoryless = {}
        if self._memoryless_run is not None:
            memoryless = exact_quadratics.limits(self._memoryless_run, algorithm)
        lines = []
        for model, limit in limits.items():
            name = label if len(limits) == 1 else f'{label} {model.replace("_", " ")}'
            text = self._limit_text(limit, memoryless.get(model))
            lines.append(f'  {name}: {text}')
        return lines

    def _spend(self, algorithm: LinearAlgorithm) -> None:
        """Subtracts the work of an algorithm from the work that is left.

        Raises:
          _TooLongError: if too little is left.
        """
        work = self._run.work(algorithm)
        if self._memoryless_run is not None:
            work += self._memoryless_run.work(algorithm)
        if work > self._work_left:
            # The error says what computes the limit instead.
            if self._is_quick and work <= MAX_WORK:
                text = 'it takes seconds; the command `theory` computes it'
                raise _TooLongError(text)
            raise _TooLongError('it takes long; `analysis.linear_limit` computes it')
        self._work_left -= work

    def _limit_text(self, limit: ExactLimit, memoryless: ExactLimit | None) -> str:
        """Describes the limit of a model: ``bias -12.83 [-15.38], spread ...``."""
        if limit.rate >= 1:
            return f'does not settle, its mean grows {limit.rate:.4f}-fold a round'
        bias = f'bias {self._bias(limit.bias)}'
        if memoryless is not None and memoryless.rate < 1:
            bias += f' [{self._bias(memoryless.bias)}]'
        if limit.second_moment_rate >= 1:
            growth = f'{limit.second_moment_rate:.4f}-fold a round'
            return f'{bias}, its variance grows without bound, {growth}'
        spread = f'spread {self._deviation(limit.deviation)}'
        if memoryless is not None and memoryless.second_moment_rate < 1:
            spread += f' [{self._deviation(memoryless.deviation)}]'
        return f'{bias}, {spread}, settles in {_time_constant(limit.rate)}'

    def _first_order_line(self, label: str, algorithm: LinearAlgorithm) -> str:
        """Describes the bias to first order in the step size, for any number of clients."""
        run = self._run
        if np.ptp(run.curvature) > 0:
            raise NotExactError('its law of first order needs equal curvatures')
        if algorithm.name == 'fedavg' and self._num_lags() > _MAX_LAGS:
            raise NotExactError('its law of first order sums over too many lags')
        options: dict[str, Any] = {}
        if algorithm.name == 'fedau':
            options = {'cutoff': algorithm.options.get('cutoff', 50)}
        try:
            law = analysis.first_order_mean(
                algorithm.name,
                run.chain,
                run.targets,
                algorithm.learning_rate * float(run.curvature[0]),
                algorithm.local_steps,
                **options,
            )
        except errors.InvalidError as error:
            raise NotExactError(f'{error.path} {error.clause}') from error
        bias = self._bias(run.models(law.mean) - run.optimum)
        memoryless = self._bias(run.models(law.limit) - run.optimum)
        comparison = f' [{memoryless}]' if self._memoryless_run is not None else ''
        # Without memory the terms of higher order vanish as well.
        is_exact = self._links.law.memoryless
        remark = 'exact at any step' if is_exact else 'to first order in the step'
        return f'  {label}: bias {bias}{comparison}, {remark}'

    def _num_lags(self) -> float:
        """Returns how many lags of all clients FedAvg's law sums over."""
        law = self._links.law
        if law.up_rate is None or law.down_rate is None or law.probs is None:
            return 0.0
        empty_prob = np.prod(1 - law.probs)
        if empty_prob < _NEGLIGIBLE:
            return 0.0
        # The factor by which a link's correlation with its past falls in a round.
        slowest = np.abs(1 - law.up_rate - law.down_rate).max()
        if slowest == 0:
            return 0.0
        if slowest == 1:  # A link that alternates never forgets its state.
            return math.inf
        num_rounds = math.log(_NEGLIGIBLE) / math.log(slowest)
        return float(law.probs.size * num_rounds)

    def _bias(self, bias: np.ndarray) -> str:
        """Writes a difference with its sign, or the norm of a vector."""
        value = float(bias[0]) if len(bias) == 1 else float(np.linalg.norm(bias))
        return _number(value, _ROUNDING * self._size, 4)

    def _deviation(self, deviation: float) -> str:
        """Writes a standard deviation."""
        return _number(deviation, _DEVIATION_ROUNDING * self._size, 3)


def _number(value: float, rounding: float, digits: int) -> str:
    """Writes a number; a number below the rounding error is printed as zero."""
    return '0' if abs(value) < rounding else f'{value:.{digits}g}'


def _without_memory(links: ConfiguredLinks, run: QuadraticRun) -> QuadraticRun | None:
    """Returns the run with links that are independent over rounds, at the same rates.

    None if the links have no memory already, or if clients depend on each other.
    """
    if links.law.memoryless or links.law.probs is None:
        return None
    return run._replace(chain=link_chains.independent(links.law.probs))


def _time_constant(rate: float) -> str:
    """Writes the number of rounds in which a mean's distance from its limit falls e-fold."""
    rounds = -1 / math.log(rate) if rate > 1e-12 else 0.0
    return f'{rounds:.3g} rounds'
