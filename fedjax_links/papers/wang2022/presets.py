"""Describes Wang and Ji 2022, section 6, appendix D: amplification, periodic availability."""

from collections.abc import Mapping

from fedjax_links.papers import common
from fedjax_links.papers.common import PaperSection

CODES = ('paper', 'as_released')
"""Whose selection of clients is run: the paper's, or the released code's."""
PRINTED_DATASETS = {'fashion_mnist': 'FashionMNIST', 'cifar10': 'CIFAR-10'}
SMALL = 'gaussians'
"""What the small version uses in place of images. All else is as for FashionMNIST."""
DATASETS = {**PRINTED_DATASETS, SMALL: 'Gaussian classes'}
INITIAL_RATES = {'fashion_mnist': 0.1, 'cifar10': 0.05, SMALL: 0.1}
WARM_UP_ROUNDS = {'fashion_mnist': 2_000, 'cifar10': 4_000, SMALL: 2_000}
"""Lengths of the warm-up: the paper states none, so these are of its search for initial rates."""
WARM_UP = (
    'the initial rate holds for {config.client.decay.rounds} rounds, our choice: the appendix has '
    'a search of 2,000 or 4,000 rounds for that rate and gives no length of this phase; '
)
"""The lengths of the warm-up, for the deviations of a caption."""
BAND = (
    'Moving average over 3 % of the evaluations, band: standard deviation over this window and all '
    'seeds'
)
"""For a caption."""
NUM_ROUNDS = {'fashion_mnist': 300_000, 'cifar10': 600_000, SMALL: 300_033}
EVAL_EVERY = {'fashion_mnist': 50, 'cifar10': 50, SMALL: 153}
"""As in the paper. The small version's number lets evaluations see all of a cycle of 500 rounds."""
NUM_SEEDS = {'fashion_mnist': 10, 'cifar10': 5, SMALL: 10}
PERIOD = 500
_SIMILARITY = {'partition': 'similarity', 'similarity': 0.05}
QUICK_WARM_UP_ROUNDS = 100
QUICK_PERIOD = 50
METHOD_NAMES = (
    ('wait_minibatch', 'wait-minibatch'),
    ('wait_full', 'wait-full'),
    ('plain', 'Algorithm 1 without amplification'),
    ('amplified', 'Algorithm 1 with amplification'),
)
TABLE_D1 = {
    'fashion_mnist': {'waiting': 0.1, 'plain': 1e-5, 'amplified': 1e-5},
    'cifar10': {'waiting': 0.05, 'plain': 5e-5, 'amplified': 5e-6},
    SMALL: {'waiting': 0.1, 'plain': 1e-4, 'amplified': 1e-4},
}
"""Local rates after the warm-up, as printed. The small version's are our choice among the same
multiples of the initial rate: the least training loss of one seed over 300,033 rounds."""


def problem(dataset: str, code: str) -> PaperSection:
    """Spreads FashionMNIST, CIFAR-10 or Gaussians over 250 clients, 5 % of the data at random."""
    if dataset == SMALL:
        return common.gaussians(250, **_SIMILARITY)
    return common.images(
        'wang', dataset, 250, released=code == 'as_released', **_SIMILARITY
    )


def quick_problem(dataset: str) -> PaperSection:
    """Spreads Gaussians or `common.synthetic_images` over 50 clients by the paper's partition."""
    if dataset == SMALL:
        return {'num_clients': 50, 'examples_per_client': 40}
    return common.synthetic_images(50, 2_000, difficulty=0.5, partition=_SIMILARITY)


def data_deviations(dataset: str, *, own_rates: bool = False) -> str:
    """Says how the small version's data differ from the paper's, for a caption's deviations.

    Args:
      dataset: one of `DATASETS`.
      own_rates: whether the rates of `TABLE_D1` are used.

    Returns:
      Clauses; an empty text unless the data set is `SMALL`.
    """
    if dataset != SMALL:
        return ''
    rates = (
        'rates chosen by one seed from the multiples of Table D.1; '
        if own_rates
        else ''
    )
    return (
        f'{common.IN_SMALL}seeds redraw everything; {{config.num_rounds}} rounds, evaluated every '
        f'{{config.eval_every}}, so that all of a cycle is seen; {rates}'
    )


def quick_data(dataset: str) -> str:
    """Says what the quick version runs on, for a caption."""
    return '50 clients' if dataset == SMALL else 'synthetic images, 50 clients'


def quick_cohorts(dataset: str) -> str:
    """Says how the quick version of independent and regularised participation differs.

    There the regularised cycle has 10 rounds, and evaluations are 20 rounds apart. Only for `SMALL`
    the rest of the caption says that evaluations see all of a cycle.
    """
    text = f'{quick_data(dataset)}, five per round'
    return f'{text}, evaluations at ends of cycles' if dataset == SMALL else text


def quick_rate(dataset: str) -> float:
    """Returns a local rate that suits amplification by 10 in the quick version."""
    return 0.002 if dataset == SMALL else 0.005


def periodic(code: str, *, quick: bool = False) -> PaperSection:
    """Makes five groups of clients, two majority labels each, available in turns.

    A turn has a hundred rounds, each of which selects ten available clients. In the quick version a
    turn has ten rounds of five clients.

    Args:
      code: one of `CODES`.
      quick: whether the section is for `quick_problem`.

    Returns:
      A section of links.
    """
    cohort_size, group_size = (5, 10) if quick else (10, 50)
    turns = {
        'name': 'periodic_groups',
        'groups': {'name': 'contiguous', 'num_groups': 5},
        'active_rounds': 10 if quick else 100,
    }
    if code == 'paper':
        return {**turns, 'cohort_size': cohort_size}
    return {
        'name': 'fedjax_links.papers.wang2022.released:permutation_consumer',
        'pattern': {**turns, 'cohort_size': group_size},
        'cohort_size': cohort_size,
    }


def selection(code: str, dataset: str) -> str:
    """Says how clients are selected and images are prepared, for a caption."""
    images = common.IMAGE_DEPARTURES.get(dataset)
    if code == 'paper':
        text = 'nobody is selected twice in a round, as in the paper and not in the released code'
        return f'{text}; the released code also has {images}' if images else text
    text = (
        'a client can be selected twice in a round, as in the released code and not in the paper, '
        'but trains once, so that those rounds have a client less'
    )
    return f'{text}; {images}, as in the released code' if images else text


def amplified(
    amplification: float, warm_up_rounds: int, period: int = PERIOD
) -> PaperSection:
    """Returns Algorithm 1 with blocks of P rounds; the first block begins after the warm-up."""
    return {
        'name': 'amplified_fedavg',
        'amplification': amplification,
        'period': period,
        'start_round': warm_up_rounds,
    }


def methods(
    warm_up_rounds: int,
    *,
    period: int = PERIOD,
    rates: Mapping[str, float] | None = None,
) -> dict[str, PaperSection]:
    """Returns waiting with minibatches or full data, and Algorithm 1 with eta 1 and 10.

    Args:
      warm_up_rounds: rounds of plain FedAvg before the first block.
      period: P.
      rates: local rates after the warm-up, by ``waiting``, ``plain`` and ``amplified``. None if
        rates are to be tuned.

    Returns:
      Sections of algorithms.
    """
    waits = {'name': 'wait_for_all', 'period': period, 'start_round': warm_up_rounds}
    clients = {name: {'learning_rate': rate} for name, rate in (rates or {}).items()}
    waiting = clients.get('waiting', {})
    plain = clients.get('plain', {})
    amplified_client = clients.get('amplified', {})
    return {
        'wait_minibatch': {**waits, 'client': waiting},
        'wait_full': {**waits, 'client': {**waiting, 'batch_size': 0}},
        'plain': {**amplified(1.0, warm_up_rounds, period), 'client': plain},
        'amplified': {
            **amplified(10.0, warm_up_rounds, period),
            'client': amplified_client,
        },
    }


def experiment(dataset: str, code: str, *, item: str) -> PaperSection:
    """Returns what the experiments of Figures 1 and 2 and of appendix D share.

    Args:
      dataset: one of `DATASETS`.
      code: one of `CODES`.
      item: which figure.

    Returns:
      A config without algorithms, names and caption. Its section ``quick`` lacks these too.
    """
    is_small = dataset == SMALL
    # The configs set the rates after the warm-up.
    warm_up = {
        'name': 'warmup',
        'initial': INITIAL_RATES[dataset],
        'rounds': WARM_UP_ROUNDS[dataset],
    }
    return {
        'title': f'{DATASETS[dataset]} (Wang and Ji 2022, {item})',
        'problem': problem(dataset, code),
        'patterns': {'periodic': periodic(code)},
        'client': {'decay': warm_up, 'local_steps': 5, 'batch_size': 16},
        'baseline': 'plain',
        'metric': 'eval_accuracy',
        'num_rounds': NUM_ROUNDS[dataset],
        'eval_every': EVAL_EVERY[dataset],
        'num_seeds': NUM_SEEDS[dataset],
        **({'redraw': 'by_seed'} if is_small else {}),
        'reports': {
            'curves': {
                'name': 'curves',
                'metrics': ('train_loss', 'eval_accuracy'),
                'smoothing': 0.03,
                'band': 'deviation',
                'log_rounds': is_small,  # a convex problem ends in the first tenth
                'columns': 2,
            },
            'comparison': {'name': 'comparison', 'tail': 0.03},
        },
        'quick': {
            'problem': quick_problem(dataset),
            'patterns': {'periodic': periodic(code, quick=True)},
            'client': {'decay': {'initial': 0.1, 'rounds': QUICK_WARM_UP_ROUNDS}},
            'num_rounds': 507,  # 39 evaluations
            'eval_every': 13,
            'num_seeds': 2,
        },
    }
