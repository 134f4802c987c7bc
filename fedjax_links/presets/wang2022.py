"""Wang and Ji 2022, section 6 and appendix D: amplified updates under periodic availability."""

from collections.abc import Mapping

from fedjax_links import errors
from fedjax_links.presets.common import Section, synthetic_images

INITIAL_RATES = {'fashion_mnist': 0.1, 'cifar10': 0.05}
WARM_UP_ROUNDS = {'fashion_mnist': 2_000, 'cifar10': 4_000}
NUM_ROUNDS = {'fashion_mnist': 300_000, 'cifar10': 600_000}
NUM_SEEDS = {'fashion_mnist': 10, 'cifar10': 5}
PRINTED_DATASETS = {'fashion_mnist': 'FashionMNIST', 'cifar10': 'CIFAR-10'}
PERIOD = 500
METHOD_NAMES = (
    ('wait_minibatch', 'wait-minibatch'),
    ('wait_full', 'wait-full'),
    ('plain', 'Algorithm 1 without amplification'),
    ('amplified', 'Algorithm 1 with amplification'),
)
TABLE_D1 = {
    'fashion_mnist': {'waiting': 0.1, 'plain': 1e-5, 'amplified': 1e-5},
    'cifar10': {'waiting': 0.05, 'plain': 5e-5, 'amplified': 5e-6},
}
"""Local rates after the warm-up, as printed."""


def problem(dataset: str) -> Section:
    """250 clients whose data are 5 % alike, the data set's network and augmentation.

    Args:
      dataset: ``'fashion_mnist'`` or ``'cifar10'``.

    Returns:
      A section for `problems.images`; data must have been prepared.

    Raises:
      ValueError: for an unknown data set.
    """
    if dataset not in PRINTED_DATASETS:
        raise errors.unknown_name('dataset', dataset, PRINTED_DATASETS)
    return {
        'name': 'images',
        'dataset': dataset,
        'num_clients': 250,
        'model': f'wang_{dataset}',
        'partition': 'similarity',
        'similarity': 0.05,
        'seed': 0,
        'normalise': dataset,
        'augment': ('crop', 'mirror') if dataset == 'cifar10' else (),
        'store': 'uint8',
    }


def small_problem(num_clients: int = 50, num_train: int = 2_000) -> Section:
    """`common.synthetic_images` with the paper's partition.

    Args:
      num_clients: N, a multiple of 10.
      num_train: number of training images.

    Returns:
      A section for `problems.images` that needs no file.
    """
    partition = {'partition': 'similarity', 'similarity': 0.05}
    return synthetic_images(num_clients, num_train, difficulty=0.5, partition=partition)


def periodic(active_rounds: int = 100, cohort_size: int = 10) -> Section:
    """Five groups of clients, two majority labels each, that are available in turns.

    Args:
      active_rounds: rounds per turn; a cycle is five turns.
      cohort_size: S, selected among the available in every round.

    Returns:
      A section of links.
    """
    return {
        'name': 'periodic_groups',
        'groups': {'name': 'contiguous', 'num_groups': 5},
        'active_rounds': active_rounds,
        'cohort_size': cohort_size,
    }


def client(initial: float, warm_up_rounds: int) -> Section:
    """Five steps of batch 16, at the initial rate during the warm-up.

    Args:
      initial: local rate of the warm-up.
      warm_up_rounds: its length.

    Returns:
      A section ``client`` without the rate after the warm-up.
    """
    decay = {'name': 'warmup', 'initial': initial, 'rounds': warm_up_rounds}
    return {'decay': decay, 'local_steps': 5, 'batch_size': 16}


def amplified(amplification: float, warm_up_rounds: int, period: int = PERIOD) -> Section:
    """Algorithm 1, whose reference point is set at the end of the warm-up.

    Args:
      amplification: eta.
      warm_up_rounds: rounds of plain FedAvg before.
      period: P.

    Returns:
      A section of an algorithm.
    """
    return {
        'name': 'amplified_fedavg',
        'amplification': amplification,
        'period': period,
        'start_round': warm_up_rounds,
    }


def methods(
    warm_up_rounds: int, *, period: int = PERIOD, rates: Mapping[str, float] | None = None
) -> dict[str, Section]:
    """The four methods: waiting with minibatches or full data, and Algorithm 1 with eta 1 and 10.

    Args:
      warm_up_rounds: rounds of plain FedAvg before.
      period: P.
      rates: local rates after the warm-up, ``waiting``, ``plain`` and ``amplified``; to be tuned if
        there are none.

    Returns:
      Sections of algorithms.
    """
    waiting = {'name': 'wait_for_all', 'period': period, 'start_round': warm_up_rounds}
    given = {} if rates is None else {name: {'learning_rate': r} for name, r in rates.items()}
    return {
        'wait_minibatch': {**waiting, 'client': {**given.get('waiting', {})}},
        'wait_full': {**waiting, 'client': {**given.get('waiting', {}), 'batch_size': 0}},
        'plain': {
            **amplified(1.0, warm_up_rounds, period),
            'client': {**given.get('plain', {})},
        },
        'amplified': {
            **amplified(10.0, warm_up_rounds, period),
            'client': {**given.get('amplified', {})},
        },
    }
