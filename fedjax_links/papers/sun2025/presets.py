"""Describes Sun et al. 2025, section 6 and appendix: groups wait R rounds between selections."""

from fedjax_links.papers import common
from fedjax_links.papers.common import PaperSection

CODES = ('paper', 'as_released')
"""Whose algorithms run: the paper's, or the notebook's where the notebook differs."""
SMALL = 'gaussians'
"""What small versions of the experiments use in place of images."""
SAMPLES_DEVIATION = (
    'minibatches of {config.client.batch_size} with replacement, where its listing has full '
    'gradients and its notebook passes over the data; '
)
"""How clients draw their examples, for the deviations of a caption."""
NUM_CLIENTS = 100
NUM_GROUPS = 20
NUM_ROUNDS = 2_000
ALGORITHM_NAMES = (
    ('debiased_fedavg', 'Debiasing FedAvg'),
    ('fedavg', 'FedAvg'),
    ('fedvarp', 'FedVARP'),
)


def separated(separation: int, *, exponent: float = 1.5) -> PaperSection:
    """Returns links that select one of M groups per round, among groups that waited R rounds.

    Group g has a weight proportional to ``g^-exponent``.
    """
    return {
        'name': 'minimum_separation',
        'weights': {'name': 'power', 'exponent': exponent, 'count': NUM_GROUPS},
        'separation': separation,
        'groups': {'name': 'contiguous', 'num_groups': NUM_GROUPS},
    }


def patterns(separations: tuple[int, ...]) -> dict[str, PaperSection]:
    """Returns `separated` by label, ``R05`` for R = 5, and ``uniform`` over equal groups."""
    by_label = {f'R{r:02d}': separated(r) for r in separations}
    return {**by_label, 'uniform': separated(0, exponent=0.0)}


def pattern_names(separations: tuple[int, ...]) -> tuple[tuple[str, str], ...]:
    """Returns labels and names of `patterns`, in this order."""
    return (*((f'R{r:02d}', f'R = {r}') for r in separations), ('uniform', 'uniform'))


def algorithms(code: str) -> dict[str, PaperSection]:
    """Returns the three algorithms; Debiasing FedAvg is the paper's or the notebook's."""
    debiased: PaperSection = {}
    if code == 'as_released':
        debiased = {
            'name': 'fedjax_links.papers.sun2025.released:debiased_fedavg_horizon',
            'num_rounds': NUM_ROUNDS,
            'groups': tuple(i * NUM_GROUPS // NUM_CLIENTS for i in range(NUM_CLIENTS)),
        }
    return {'fedavg': {}, 'debiased_fedavg': debiased, 'fedvarp': {}}


def debiasing(code: str) -> str:
    """Says which form of debiasing is run, for a caption."""
    if code == 'as_released':
        return (
            'As in the released code, Debiasing FedAvg trains at its rate times T / count of the '
            'group, with T the planned number of rounds; the paper has (t + 1) B / N in place of T.'
        )
    return 'Debiasing FedAvg is that of the paper, not that of the released code.'


def learning_rates(rates: tuple[float, ...], code: str) -> tuple[float, ...]:
    """Returns learning rates to try, for released code also M times smaller rates.

    At the last round the debiasing factor of the released code is M times the paper's factor.
    """
    if code != 'as_released':
        return rates
    return (*rates, *(rate / NUM_GROUPS for rate in rates))


def problem(dataset: str) -> PaperSection:
    """Deals images or Gaussian classes out to 100 clients by Dirichlet(0.5) per class."""
    partition = {'partition': 'dirichlet_per_class', 'alpha': 0.5}
    if dataset == SMALL:
        return common.gaussians(NUM_CLIENTS, **partition)
    return {
        'name': 'images',
        'num_clients': NUM_CLIENTS,
        'dataset': dataset,
        'model': {'name': f'fedjax_links.papers.architectures:sun_{dataset}'},
        **partition,
        'seed': 1,
    }


def data_deviations(dataset: str) -> str:
    """Says what small versions use in place of images, for a caption's deviations."""
    if dataset != SMALL:
        return ''
    return (
        f'{common.IN_SMALL}{{config.num_seeds}} seeds that redraw everything; evaluated every '
        '{config.eval_every} rounds; '
    )


def experiment(
    dataset: str,
    separations: tuple[int, ...],
    code: str,
    *,
    rates: tuple[tuple[float, ...], tuple[float, ...]],
    tuned_on: str,
    local_steps: tuple[int, int],
    quick_problem: PaperSection,
) -> PaperSection:
    """Returns what Figure 3 and Table 1 share.

    Args:
      dataset: ``'mnist'`` or ``'cifar10'``, whose data must have been prepared, or `SMALL`.
      separations: values of R.
      code: one of `CODES`.
      rates: learning rates to try, at full size and in the quick version.
      tuned_on: the pattern under which rates are tried.
      local_steps: s, at full size and in the quick version.
      quick_problem: ``model`` and ``data`` of the quick version, which draws synthetic images in
        place of real ones; not read for `SMALL`.

    Returns:
      A config without title, metric, reports and caption.
    """
    num_quick_rounds = 150
    released = code == 'as_released'
    small = dataset == SMALL
    synthetic = {'dataset': 'synthetic_images', **quick_problem}
    return {
        'problem': problem(dataset),
        'patterns': patterns(separations),
        'client': {'local_steps': local_steps[0], 'batch_size': 8},
        'algorithms': algorithms(code),
        'tuning': {
            'grow': 0,
            'learning_rates': learning_rates(rates[0], code),
            'pattern': tuned_on,
            'num_rounds': 200,
            'num_seeds': 1,
        },
        'baseline': 'fedavg',
        'num_rounds': NUM_ROUNDS,
        'eval_every': 10,
        'num_seeds': 3,
        **({'num_seeds': 10, 'redraw': 'by_seed'} if small else {}),
        'names': pattern_names(separations) + ALGORITHM_NAMES,
        'quick': {
            'problem': {'examples_per_client': 50} if small else synthetic,
            'client': {'local_steps': local_steps[1]},
            'algorithms': {'debiased_fedavg': {'num_rounds': num_quick_rounds}}
            if released
            else {},
            'tuning': {
                'learning_rates': learning_rates(rates[1], code),
                'num_rounds': 50,
            },
            'num_rounds': num_quick_rounds,
            **({'num_seeds': 2} if small else {}),
        },
    }
