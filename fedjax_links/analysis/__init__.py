"""Exact theory of federated learning over unreliable links, in NumPy float64.

Each function answers a question that a simulation would only estimate. Examples: which objective
FedAvg minimises on known links, how fast implicit gossip contracts, and how often a client is
selected under a minimum separation. The package imports nothing of the simulator, so tests can
compare the simulator with it.
"""

from fedjax_links.analysis.class_boundaries import (
    Boundaries,
    confusion_boundaries,
    gaussian_boundaries,
    skewed_loss,
)
from fedjax_links.analysis.cohort_chain import (
    CohortLaw,
    MinimumSeparationChain,
    cohort_law,
    minimum_separation_chain,
)
from fedjax_links.analysis.cohort_sizes import poisson_binomial_pmf
from fedjax_links.analysis.gaussian_populations import (
    LinearFit,
    best_linear_fit,
    equidistant_accuracy,
    equidistant_distance,
    equidistant_skewed_accuracy,
    gaussian_minimiser,
)
from fedjax_links.analysis.independent_links import (
    EffectiveWeights,
    effective_weights,
    expected_mixing_matrix,
    fedavg_fixed_point,
    fedavg_weights,
    mixing_matrix,
    mixing_rate,
    mixing_rate_bound,
)
from fedjax_links.analysis.linear_limits import (
    WeightedMinimiser,
    fedavg_finite_steps,
    weighted_gradient_flow,
    weighted_minimiser,
)
from fedjax_links.analysis.linear_models import LinearModel, linear_loss
from fedjax_links.analysis.linear_rules import LinearLimit, linear_rule
from fedjax_links.analysis.link_chains.chains import LinkChain
from fedjax_links.analysis.link_chains.curves import (
    ChainLimit,
    LinearCurve,
    linear_curve,
    linear_limit,
)
from fedjax_links.analysis.link_chains.first_order import (
    FirstOrderMean,
    first_order_mean,
)
from fedjax_links.analysis.markov import (
    gap_distribution,
    markov_autocorrelation,
    markov_interval_mean,
    markov_stationary,
    semi_markov_autocorrelation,
    semi_markov_stationary,
    shock_correlation,
    truncated_interval_mean,
)
from fedjax_links.analysis.minimum_separation import (
    debiasing_weights,
    inclusion_probabilities,
    minimum_separation_curve,
    minimum_separation_stationary,
)
from fedjax_links.analysis.peer_links import (
    expected_metropolis_matrix,
    metropolis_map,
    metropolis_matrix,
    semi_decentralised_map,
    semi_decentralised_rate,
)
from fedjax_links.analysis.quadratics import (
    FedavgMoments,
    FedpbcFixedPoint,
    FedpbcMoments,
    fedavg_mean_and_covariance,
    fedpbc_fixed_point,
    fedpbc_mean_and_covariance,
)
from fedjax_links.analysis.recorded_links import (
    ParticipationReport,
    autocorrelation,
    expected_autocorrelation,
    expected_gap_counts,
    gap_counts,
    participation_report,
)
from fedjax_links.analysis.relays import (
    cogc_probability,
    colrel_variance,
    colrel_weights,
)
from fedjax_links.analysis.remembering_links import weighted_finite_steps
from fedjax_links.analysis.theorems.check import TheoremCheck, check_theorem
from fedjax_links.analysis.theorems.theorem_run import TheoremRun

__all__ = [name for name, value in globals().items() if callable(value)]
