"""Xiang et al. 2024, section 7.2: image classification over six kinds of unreliable uplinks."""

from fedjax_links import errors
from fedjax_links.presets.common import Section, synthetic_images

PATTERN_NAMES = (
    ('bernoulli', 'Bernoulli time-invariant'),
    ('bernoulli_sine', 'Bernoulli time-varying'),
    ('markov', 'Markov homogeneous'),
    ('markov_sine', 'Markov non-homogeneous'),
    ('cyclic', 'Cyclic no reset'),
    ('cyclic_reset', 'Cyclic with reset'),
)
ALGORITHM_NAMES = (
    ('fedpbc', 'FedPBC'),
    ('fedavg', 'FedAvg'),
    ('fedavg_all', 'FedAvg all'),
    ('fedau', 'FedAU'),
    ('f3ast', 'F3AST'),
    ('fedavg_known', 'FedAvg known'),
    ('mifa', 'MIFA'),
)
LEARNING_RATES = (0.1, 0.05, 0.01, 0.005, 0.001, 0.0005)
SERVER_LRS = (0.5, 1.0, 1.5, 5.0, 10.0, 50.0)
TABLE_2_TARGETS = {
    'svhn': (0.2, 0.4, 0.6, 0.8),
    'cifar10': (0.15, 0.3, 0.45, 0.6),
    'cinic10': (0.1, 0.2, 0.3, 0.4),
}
PRINTED_DATASETS = {'svhn': 'SVHN', 'cifar10': 'CIFAR-10', 'cinic10': 'CINIC-10'}
NUM_ROUNDS = {'svhn': 4_000, 'cifar10': 10_000, 'cinic10': 10_000}


def problem(dataset: str) -> Section:
    """100 clients, Dirichlet(0.1) of equal volume, the data set's network and augmentation.

    Args:
      dataset: ``'svhn'``, ``'cifar10'`` or ``'cinic10'``.

    Returns:
      A section for `problems.images`; data must have been prepared.

    Raises:
      ValueError: for an unknown data set.
    """
    if dataset not in PRINTED_DATASETS:
        raise errors.unknown_name('dataset', dataset, PRINTED_DATASETS)
    loaders = {'svhn': 'svhn_cropped', 'cifar10': 'cifar10', 'cinic10': 'cinic10'}
    return {
        'name': 'images',
        'dataset': loaders[dataset],
        'num_clients': 100,
        'model': f'xiang_{dataset}',
        'partition': 'dirichlet',
        'alpha': 0.1,
        'seed': 0,
        'normalise': dataset,
        'augment': ('crop',) if dataset == 'svhn' else ('crop', 'mirror'),
        'store': 'uint8',
    }


def small_problem(num_clients: int, num_train: int) -> Section:
    """`common.synthetic_images` with the paper's partition.

    Args:
      num_clients: N.
      num_train: number of training images.

    Returns:
      A section for `problems.images` that needs no file.
    """
    partition = {'partition': 'dirichlet', 'alpha': 0.1}
    return synthetic_images(num_clients, num_train, difficulty=0.6, partition=partition)


def probs(*, sigma: float = 10.0, minimum: float = 0.02) -> Section:
    """Link probabilities that follow the labels a client holds.

    Args:
      sigma: sigma_0, standard deviation of the logarithm of a class's weight.
      minimum: delta, the smallest probability.

    Returns:
      A section ``probs`` of links.
    """
    return {'name': 'label_dependent', 'sigma': sigma, 'minimum': minimum, 'seed': 0}


def sine(gamma: float = 0.4) -> Section:
    """The time-varying schedule; gamma is 0.4 by the released code, the text does not say."""
    return {'name': 'sine', 'gamma': gamma, 'period': 40}


def patterns(*, as_released: bool = False) -> dict[str, Section]:
    """The six link patterns by label.

    Args:
      as_released: the released code's links in place of the paper's: non-homogeneous Markov links
        without memory, and cyclic links with reset at 0.6 of their probability.

    Returns:
      Sections of links.
    """
    own = probs()
    found: dict[str, Section] = {
        'bernoulli': {'name': 'bernoulli', 'probs': own},
        'bernoulli_sine': {'name': 'bernoulli', 'probs': own, 'schedule': sine()},
        'markov': {'name': 'markov', 'probs': own},
        'markov_sine': {'name': 'markov', 'probs': own, 'schedule': sine()},
        'cyclic': {'name': 'cyclic', 'probs': own},
        'cyclic_reset': {'name': 'cyclic', 'probs': own, 'reset': True},
    }
    if as_released:
        found['markov_sine']['name'] = 'as_released_markov'
        found['cyclic_reset'] = {'name': 'as_released_cyclic', 'probs': own, 'gamma': 0.4}
    return found


def client() -> Section:
    """Five steps of batch 16 at ``eta_0 / sqrt(t / 10 + 1)``; eta_0 is tuned."""
    return {'decay': 'inverse_sqrt', 'local_steps': 5, 'batch_size': 16}


def algorithms() -> dict[str, Section]:
    """The seven algorithms of Table 1 with the hyper-parameters of appendix B."""
    return {
        'fedpbc': {},
        'fedavg': {},
        'fedavg_all': {},
        'fedau': {'cutoff': 50},
        'f3ast': {'budget': 10, 'beta': 0.01},
        'fedavg_known': {},
        'mifa': {},
    }
