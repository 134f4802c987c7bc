"""Describes the runs on which theorems are checked."""

from typing import NamedTuple

from fedjax_links.analysis import _checks
from fedjax_links.analysis.cohort_chain import MinimumSeparationChain
from fedjax_links.analysis.theorems import _numbers
from fedjax_links.analysis.theorems.regularity import PatternConstants


class TheoremRun(NamedTuple):
    """Holds the facts about a run that theorems use. None stands for an unknown fact.

    Attributes:
      learning_rate: the local rate, constant over rounds.
      local_steps: local steps in a round.
      num_rounds: T.
      realised: the run's mean squared gradient norm, over the rounds that the theorem averages.
      rounds_are_independent: whether the links of a round are independent of other rounds.
      mixing_rate: rho, the mixing rate of FedPBC (`analysis.mixing_rate`).
      period: P of amplified FedAvg.
      amplification: eta of amplified FedAvg.
      pattern: constants of the weights of amplified FedAvg with this P.
      chain: the chain of a minimum separation.
      largest_gradient: D, the largest gradient norm of F along the run.
    """

    learning_rate: float
    local_steps: int
    num_rounds: int
    realised: float | None = None
    rounds_are_independent: bool | None = None
    mixing_rate: float | None = None
    period: int = 1
    amplification: float = 1.0
    pattern: PatternConstants | None = None
    chain: MinimumSeparationChain | None = None
    largest_gradient: float | None = None


def check_fields(run: TheoremRun) -> None:
    """Raises unless the fields of a run are in range."""
    _checks.checked_positive('run.learning_rate', run.learning_rate)
    _numbers.at_least_one('run.local_steps', run.local_steps)
    _numbers.at_least_one('run.num_rounds', run.num_rounds)
    _numbers.at_least_one('run.period', run.period)
    _checks.checked_positive('run.amplification', run.amplification)
    if run.realised is not None:
        _numbers.at_least_zero('run.realised', run.realised)
    if run.rounds_are_independent is not None:
        name = 'run.rounds_are_independent'
        _checks.checked_flag(name, run.rounds_are_independent)
    if run.mixing_rate is not None:
        _checks.checked_prob('run.mixing_rate', run.mixing_rate)
    if run.largest_gradient is not None:
        _numbers.at_least_zero('run.largest_gradient', run.largest_gradient)
    if run.pattern is not None:
        what = 'a `PatternConstants`'
        _checks.checked_kind('run.pattern', run.pattern, PatternConstants, what)
    if run.chain is not None:
        what = 'a `MinimumSeparationChain`'
        _checks.checked_kind('run.chain', run.chain, MinimumSeparationChain, what)
