"""Describes Xiang et al. 2024, section 7.2: image classification over six kinds of uplinks."""

from fedjax_links.papers import common
from fedjax_links.papers.common import PaperSection

CODES = ('paper', 'as_released', 'first_commit')
"""Whose algorithms run: the paper's, the repository's where the repository differs, or the first
commit's, whose FedPBC differs again."""
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
PRINTED_DATASETS = {'svhn': 'SVHN', 'cifar10': 'CIFAR-10', 'cinic10': 'CINIC-10'}
SMALL_DATASETS = {'gaussians': 'Gaussian classes'}
"""What small versions of the experiments use in place of images."""
NUM_ROUNDS = {'svhn': 4_000, 'cifar10': 10_000, 'cinic10': 10_000, 'gaussians': 9_999}
F3AST_BETAS = (0.01, 0.005, 0.001, 0.0005, 0.0001, 0.00005)
"""The paper's grid for F3AST. The paper names no winner; the first value is the released code's."""
SAMPLES_DEVIATION = (
    'a minibatch of {config.client.batch_size} per {config.client.resample}, drawn with '
    'replacement, where the listing draws a sample per round and the released code 16 examples '
    'per step (the text has no size); '
)
"""How clients draw their examples, for the deviations of a caption."""
GAMMA_DEVIATION = 'gamma is 0.4, as in the released code; '
"""Our choice in time-varying links, for the deviations of a caption."""
PAIRED_SAMPLES_DEVIATION = (
    'the algorithms named so draw once per round, as the listing does; '
)
"""Our choices in `sample_pairs`, for the deviations of a caption."""
LABEL_LINKS_DEVIATION = (
    'links follow the labels that clients own, where the text has the shares that these are drawn '
    'from; '
)
"""Our choices in label-dependent links, for the deviations of a caption."""
CYCLES_DEVIATION = (
    'cyclic links begin at whole rounds and are up in at least one a cycle; '
)
"""Our choice in cyclic links; the paper's text draws the offset uniformly over an interval."""
F3AST_DEVIATION = "F3AST's beta is 0.01, of the paper's grid of six; "
"""F3AST's beta, which is fixed here and tuned in the paper, for the deviations of a caption."""
TABLE1_DEVIATIONS = (
    SAMPLES_DEVIATION,
    GAMMA_DEVIATION,
    LABEL_LINKS_DEVIATION,
    CYCLES_DEVIATION,
    F3AST_DEVIATION,
)
"""The deviations that all small versions of Table 1 share."""
_RELEASED = 'fedjax_links.papers.xiang2024.released'
_DEPARTURES = {
    'links': 'non-homogeneous Markov links without memory, cyclic links with reset at 0.6 of their '
    'probability',
    'training': "clients of unequal volumes, FedAvg known with the last client's probability for "
    'everyone, F3AST with positions among the active clients in place of client ids',
    'first_commit': 'FedPBC with twice its displacement',
}


def partition(code: str) -> PaperSection:
    """Returns the options of Dirichlet(0.1) shares: equal volumes, or unequal as released."""
    if code != 'paper':
        return {'partition': 'dirichlet_unequal', 'alpha': 0.1}
    # Clients are served by number, as when the recorded results were made.
    return {'partition': 'dirichlet', 'order': 'numbers', 'alpha': 0.1}


def problem(dataset: str, code: str) -> PaperSection:
    """Returns a section ``problem``: prepared data on 100 clients, network and augmentation."""
    return common.images(
        'xiang', dataset, 100, released=code != 'paper', **partition(code)
    )


def setting(dataset: str, code: str) -> PaperSection:
    """Returns problem and seeds of an experiment on images, or of its small version.

    In the small version, clients draw their own labels (``code='paper'``), or have unequal volumes.
    """
    if dataset not in SMALL_DATASETS:
        return {'problem': problem(dataset, code)}
    partition_options = {'alpha': 0.1} if code == 'paper' else partition(code)
    return {
        'problem': common.gaussians(100, **partition_options),
        'redraw': 'by_seed',
        'num_seeds': 10,
    }


def data_deviations(dataset: str) -> str:
    """Says how images are changed or replaced, for the deviations of a caption."""
    if dataset not in SMALL_DATASETS:
        return (
            'images are padded by 4 before they are cropped, as in the released code; '
        )
    return f'{common.IN_SMALL}{{config.num_seeds}} seeds that redraw everything in place of 3; '


def small_problem(num_clients: int, num_train: int, code: str) -> PaperSection:
    """Returns a section ``problem`` of synthetic images, which need no file."""
    partition_section = partition(code)
    return common.synthetic_images(
        num_clients, num_train, difficulty=0.6, partition=partition_section
    )


def probs(*, sigma: float = 10.0, minimum: float = 0.02) -> PaperSection:
    """Returns a section of link probabilities that follow the labels of a client.

    Args:
      sigma: sigma_0, standard deviation of the logarithm of a class's weight, at least 0.
      minimum: delta, the smallest probability, in [0, 1].

    Returns:
      A section ``probs`` of links.
    """
    return {'name': 'label_dependent', 'sigma': sigma, 'minimum': minimum, 'seed': 0}


def sine(gamma: float = 0.4) -> PaperSection:
    """Returns a section of a sine schedule. The released code has gamma 0.4, the text has none."""
    return {'name': 'sine', 'gamma': gamma, 'period': 40}


def patterns(code: str) -> dict[str, PaperSection]:
    """Returns the six link patterns by label."""
    link_probs = probs()
    sections: dict[str, PaperSection] = {}
    variants: PaperSection = {
        '': {},
        'sine': {'schedule': sine()},
        'reset': {'reset': True},
    }
    for label, _ in PATTERN_NAMES:
        name, _, variant = label.partition('_')
        sections[label] = {'name': name, 'probs': link_probs, **variants[variant]}
    if code != 'paper':
        sections['markov_sine']['name'] = f'{_RELEASED}:memoryless_markov'
        sections['cyclic_reset'] = {
            'name': f'{_RELEASED}:reduced_cyclic',
            'probs': link_probs,
            'gamma': 0.4,
        }
    return sections


def algorithms(code: str) -> dict[str, PaperSection]:
    """Returns the seven algorithms of Table 1 with the hyper-parameters of appendix B."""
    sections: dict[str, PaperSection] = {label: {} for label, _ in ALGORITHM_NAMES}
    sections['fedau'] = {'cutoff': 50}
    sections['f3ast'] = {'budget': 10, 'beta': 0.01}
    if code != 'paper':
        sections['f3ast']['name'] = f'{_RELEASED}:f3ast_positions_as_ids'
        sections['fedavg_known']['name'] = f'{_RELEASED}:fedavg_known_last_client'
    if code == 'first_commit':
        sections['fedpbc']['name'] = f'{_RELEASED}:fedpbc_doubled_steps'
    return sections


def sample_pairs() -> tuple[dict[str, PaperSection], dict[str, str]]:
    """Returns FedAvg and FedPBC, each with a minibatch per step and with a minibatch per round.

    Returns:
      Sections of algorithms, and display names of the algorithms that draw per round.
    """
    by_round = {'resample': 'round'}
    sections: dict[str, PaperSection] = {
        'fedavg': {},
        'fedpbc': {},
        'fedavg_round': {'name': 'fedavg', 'client': by_round},
        'fedpbc_round': {'name': 'fedpbc', 'client': by_round},
    }
    names = {'fedavg_round': 'FedAvg, per round', 'fedpbc_round': 'FedPBC, per round'}
    return sections, names


def departures(code: str, *kinds: str, dataset: str = '') -> str:
    """Says which departures of the released code from the text apply, for a caption.

    Args:
      code: one of `CODES`.
      *kinds: ``'links'`` for a figure of all six link patterns, ``'training'`` for a figure that
        runs the algorithms.
      dataset: the images that algorithms run on; empty for none.

    Returns:
      One or two sentences.
    """
    texts: list[str | None] = [_DEPARTURES[kind] for kind in kinds]
    texts += [common.IMAGE_DEPARTURES.get(dataset), _DEPARTURES.get(code)]
    listed = ', '.join(filter(None, texts))
    if code == 'paper':
        return (
            f'The rest is as in the text. The released code differs: it has {listed}.'
        )
    return f'As in the released code, and not in the text: {listed}.'


def deviations(*texts: str) -> str:
    """Returns a sentence of a caption that lists deviations, and a space.

    Args:
      *texts: such as `GAMMA_DEVIATION`, each with a semicolon and a space at its end.
    """
    listed = ''.join(texts).removesuffix('; ')
    return f'Deviations: {listed}. '


def experiment(code: str) -> PaperSection:
    """Returns what the experiments of section 7.2 share.

    Title, problem, number of rounds and reports are not set.
    """
    return {
        'patterns': patterns(code),
        'client': {
            'decay': 'inverse_sqrt',
            'local_steps': 5,
            'batch_size': 16,
            'resample': 'step',
        },
        'algorithms': algorithms(code),
        'tuning': {
            'grow': 0,
            'learning_rates': (0.1, 0.05, 0.01, 0.005, 0.001, 0.0005),
            'server_lrs': (0.5, 1.0, 1.5, 5.0, 10.0, 50.0),
            'pattern': 'bernoulli_sine',
            'num_rounds': 500,
            'num_seeds': 1,
        },
        'baseline': 'fedavg',
        'metric': 'eval_accuracy',
        'redraw': {'partition': 'by_seed', 'links_quality': 'by_seed'},
        'num_seeds': 3,
        'names': PATTERN_NAMES + ALGORITHM_NAMES,
    }


def quick(
    dataset: str, code: str, *, learning_rates: tuple[float, ...], tuning_rounds: int
) -> PaperSection:
    """Returns the section ``quick``: 20 clients, with fewer Gaussians or with synthetic images."""
    problem = small_problem(20, 600, code)
    num_rounds = 40
    tuning: PaperSection = {'server_lrs': (1.0,)}
    if dataset in SMALL_DATASETS:
        problem = {'num_clients': 20, 'examples_per_client': 50}
        num_rounds = 108
        learning_rates = (0.1, 0.01)
        tuning_rounds = 54
        tuning = {'num_seeds': 1, 'grow': 0}
    tuning |= {'learning_rates': learning_rates, 'num_rounds': tuning_rounds}
    return {
        'problem': problem,
        'tuning': tuning,
        'num_rounds': num_rounds,
        'num_seeds': 2,
    }


def small_experiment(code: str) -> PaperSection:
    """Returns `experiment` for small versions of Table 1, beside SVHN's test accuracy."""
    reports: PaperSection = {
        name: {'name': name} for name in ('comparison', 'rates', 'bars', 'curves')
    }
    reports['comparison']['published'] = table1('svhn', 'test')
    return {**experiment(code), 'reports': reports}


def small_tuning(code: str) -> PaperSection:
    """Returns the tuning of small versions, since the paper's grids are for images.

    The client rate of each algorithm is tuned for each pattern, at full length and by three seeds,
    until the best rate lies inside the grid. The server rate is 1. The server rate of FedAvg-all is
    10, because FedAvg-all divides by all clients, of which about a tenth is active.
    """
    return {
        'algorithms': {**algorithms(code), 'fedavg_all': {'server_lr': 10.0}},
        'tuning': {
            'learning_rates': (0.02, 0.08, 0.32),
            'num_seeds': 3,
            'ties': 1,
            'model': {'fedpbc': 'client_mean'},
        },
    }


TUNING_DEVIATION = (
    'client rates tuned on every pattern; server rate 1, or 10 for FedAvg all; '
)
"""What `small_tuning` does, for the deviations of a caption."""


def table1(dataset: str, split: str) -> PaperSection:
    """Returns a section ``published``: printed accuracies of a data set."""
    table = 'fedjax_links.papers.xiang2024.tables:table1'
    return {'name': table, 'dataset': PRINTED_DATASETS[dataset], 'split': split}
