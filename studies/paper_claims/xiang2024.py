"""Claims of Xiang et al. 2024."""

from collections.abc import Iterator, Mapping, Sequence

from fedjax_links.papers.xiang2024 import presets
from studies.claim import Claim, Side

FEDPBC = 'fedpbc', 'bernoulli_sine'
RIVALS = {
    'FedAvg': 'fedavg',
    'FedAvg-all': 'fedavg_all',
    'FedAU': 'fedau',
    'F3AST': 'f3ast',
    'FedAvg known': 'fedavg_known',
    'MIFA': 'mifa',
}
VALUES = {
    'alpha': ('0.05', '0.1', '1'),
    'gamma': ('0.1', '0.2', '0.4'),
    'delta': ('0.001', '0.02', '0.1'),
    'sigma': ('1', '10', '20'),
}
AHEAD = {'alpha': '1', 'sigma': '1'}
"""Where FedAU is said to be ahead of FedPBC."""
HARDER = {'gamma': ('0.1', '0.4'), 'delta': ('0.02', '0.001')}
"""The easier and the harder value."""
ENDS = (
    ('FedPBC', 'fedpbc', 'client_mean'),
    *((name, label, 'server') for name, label in RIVALS.items()),
)


def claims() -> Iterator[Claim]:
    """Yields the claims in the order of the paper."""
    yield from _table_1()
    yield from _table_2()
    for letter, parameter in zip('abcd', VALUES, strict=True):
        yield from _figure_9(letter, parameter)


def _table_1() -> Iterator[Claim]:
    item = 'Xiang et al. 2024, Table 1'
    run = 'xiang2024_table1_gaussians'
    patterns = {label: label for label in presets.patterns('paper')}
    pairs = _pbc_over('fedavg', patterns)
    text = 'FedPBC ahead of FedAvg, by about 10 points'
    yield Claim(item, text, run, pairs, note='; by about half of it')
    for name in ('FedAvg-all', 'FedAU', 'F3AST', 'FedAvg known'):
        pairs = _pbc_over(RIVALS[name], patterns)
        yield Claim(item, f'FedPBC ahead of {name}', run, pairs)
    item = 'Xiang et al. 2024, section 7.2'
    text = 'FedPBC beside MIFA, which is not always the best'
    yield Claim(item, text, run, _pbc_over('mifa', patterns))
    reset = {'': (Side('fedau', 'cyclic'), Side('fedau', 'cyclic_reset'))}
    yield Claim(item, 'FedAU worse where cycles are reset', run, reset)


def _table_2() -> Iterator[Claim]:
    for target in (0.15, 0.3):
        text = 'in about the rounds of FedAU and MIFA'
        yield _reaches(target, text, ('FedAU', 'MIFA'), ordered=False)
    for target in (0.45, 0.6):
        yield _reaches(target, 'before the others', tuple(RIVALS), ordered=True)


def _reaches(
    target: float, when: str, others: Sequence[str], *, ordered: bool
) -> Claim:
    """Makes a claim of the rounds in which FedPBC reaches an accuracy."""
    algorithm, pattern = FEDPBC
    first = Side(algorithm, pattern, 'client_mean')
    return Claim(
        'Xiang et al. 2024, Table 2',
        f'FedPBC reaches {100 * target:.0f} % {when}',
        'xiang2024_table2_gaussians',
        {name: (first, Side(RIVALS[name], pattern)) for name in others},
        target=target,
        unit='doublings of the rounds',
        ordered=ordered,
    )


def _figure_9(letter: str, parameter: str) -> Iterator[Claim]:
    """Makes the claims of one panel, in which one parameter has three values."""
    item = f'Xiang et al. 2024, Figure 9{letter}'
    run = f'xiang2024_figure9_{parameter}_gaussians'
    patterns = {
        value: f'value{k}' for k, value in enumerate(VALUES[parameter], start=1)
    }
    for name in ('FedAvg', 'FedAvg-all', 'F3AST'):
        pairs = _pbc_over(RIVALS[name], patterns)
        yield Claim(item, f'FedPBC ahead of {name}', run, pairs)
    elsewhere = dict(patterns)
    elsewhere.pop(AHEAD.get(parameter, ''), None)
    pairs = _pbc_over('fedau', elsewhere)
    yield Claim(item, 'FedPBC ahead of FedAU', run, pairs)
    if parameter in AHEAD:
        value = AHEAD[parameter]
        pattern = patterns[value]
        pair = Side('fedau', pattern), Side('fedpbc', pattern, 'client_mean')
        text = f'FedAU ahead of FedPBC at {parameter} = {value}'
        yield Claim(item, text, run, {'': pair})
    if parameter == 'sigma':
        pairs = _pbc_over('fedavg_known', {'': patterns['20']})
        yield Claim(item, 'FedPBC ahead of FedAvg known at sigma = 20', run, pairs)
    else:
        pairs = _pbc_over('fedavg_known', patterns)
        yield Claim(item, 'FedPBC ahead of FedAvg known', run, pairs)
    if parameter == 'alpha':
        pairs = {
            name: _pbc_over(label, {'': 'value3'})[''] for name, label in RIVALS.items()
        }
        text = 'FedPBC on par with almost all at alpha = 1'
        yield Claim(item, text, run, pairs, ordered=False)
    if parameter in HARDER:
        yield from _harder(item, run, parameter, patterns)
    pairs = {}
    for value, (fedpbc, mifa) in _pbc_over('mifa', patterns).items():
        pairs[value] = mifa, fedpbc
    yield Claim(
        item,
        'MIFA at times ahead of FedPBC, by less than 2 points',
        run,
        pairs,
        ordered=False,
        margin=2.0,
        note='; within 2 points',
    )


def _harder(
    item: str, run: str, parameter: str, patterns: Mapping[str, str]
) -> Iterator[Claim]:
    """Makes the claims that one value of a parameter is harder than another."""
    easy, hard = HARDER[parameter]
    drops = {
        name: (Side(label, patterns[easy], model), Side(label, patterns[hard], model))
        for name, label, model in ENDS
    }
    text = f'{parameter} = {easy} easier than {hard} for all'
    yield Claim(item, text, run, drops)
    if parameter == 'delta':
        pairs = {
            name: (*drops['MIFA'], *drop)
            for name, drop in drops.items()
            if name != 'MIFA'
        }
        yield Claim(item, 'MIFA drops most at delta = 0.001', run, pairs)


def _pbc_over(other: str, by_value: Mapping[str, str]) -> dict[str, tuple[Side, Side]]:
    return {
        value: (Side('fedpbc', pattern, 'client_mean'), Side(other, pattern))
        for value, pattern in by_value.items()
    }


def short_runs() -> Iterator[Claim]:
    """Yields rows of what the papers vary or leave open, from runs of 1,023 rounds."""
    pattern = FEDPBC[1]
    run = 'xiang2024_table1_gaussians_samples'
    item = 'Xiang et al. 2024, Algorithm 1'
    ends = {'FedAvg': ('fedavg', 'server'), 'FedPBC': ('fedpbc', 'client_mean')}
    pairs = {
        name: (
            Side(f'{label}_round', pattern, model),
            Side(label, pattern, model),
        )
        for name, (label, model) in ends.items()
    }
    text = 'one sample per round, beside one per step (no comparison is printed)'
    yield Claim(item, text, run, pairs, ordered=False)
    ours = Side('fedpbc_round', pattern, 'client_mean')
    pairs = {'': (ours, Side('fedavg_round', pattern))}
    text = 'FedPBC ahead of FedAvg with one sample per round'
    yield Claim(item, text, run, pairs)
    run = 'xiang2024_table1_gaussians_betas'
    first, *others = presets.F3AST_BETAS
    pairs = {
        f'{beta:g}': (Side('beta1', pattern), Side(f'beta{k}', pattern))
        for k, beta in enumerate(others, start=2)
    }
    yield Claim(
        'Xiang et al. 2024, appendix B',
        f'F3AST is tuned over six betas (no winner is printed): {first:g} ahead of',
        run,
        pairs,
        note='; after 1,023 rounds, in which small betas stay near their start',
    )
