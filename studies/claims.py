"""What the papers say of their experiments, beside the runs of the repository.

python -m studies.claims

Reads the archives in ``studies/records/papers``, one a run, and prints a table. A claim is a list
of pairs: of either the first is said to be ahead, or both alike. The sides of a pair have the same
seeds; a number is the mean difference over seeds with its 95 % interval (Student t), positive where
the first is ahead. A verdict counts pairs whose interval lies within a margin (alike), or excludes
zero; a star marks what survives Benjamini-Hochberg at 5 % among all pairs.
"""

from collections.abc import Iterator, Mapping

from studies.claim import Claim, Side, doublings_to, rates, rows, scatter, until

SUN_TABLE = {'R = 5': 'R05', 'R = 10': 'R10', 'R = 15': 'R15'}
SUN_FIGURE = {'R = 5': 'R05', 'R = 8': 'R08'}
FEDPBC = 'fedpbc', 'bernoulli_sine'
RIVALS = {
    'FedAvg': 'fedavg',
    'FedAvg all': 'fedavg_all',
    'FedAU': 'fedau',
    'F3AST': 'f3ast',
    'known-p': 'fedavg_known',
    'MIFA': 'mifa',
}
VALUES = {
    'alpha': ('0.05', '0.1', '1'),
    'gamma': ('0.1', '0.2', '0.4'),
    'delta': ('0.001', '0.02', '0.1'),
    'sigma': ('1', '10', '20'),
}
EARLY = {'statistic': until(30_000), 'part': 'first 30,000 rounds'}
"""A tenth of the runs of Wang and Ji, beside their ends."""
AHEAD = {'alpha': '1', 'sigma': '1'}
"""Where FedAU is said to be ahead of FedPBC."""
HARDER = {'gamma': ('0.1', '0.4'), 'delta': ('0.02', '0.001')}
"""The easier and the harder value."""
ENDS = (
    ('FedPBC', 'fedpbc', 'client_mean'),
    *((name, label, 'server') for name, label in RIVALS.items()),
)


def _between(first: str, second: str, patterns: Mapping[str, str]) -> dict[str, tuple[Side, Side]]:
    return {label: (Side(first, p), Side(second, p)) for label, p in patterns.items()}


def _by_separation(*pairs: tuple[int, int]) -> dict[str, tuple[Side, Side]]:
    return {
        f'R = {b} over {a}': (Side('fedavg', f'R{b:02d}'), Side('fedavg', f'R{a:02d}'))
        for a, b in pairs
    }


def _sun() -> Iterator[Claim]:
    loss = {'metric': 'loss', 'sign': -1, 'scale': 1e5, 'unit': '1e-5 of loss'}
    run = 'sun2025_figure2'
    yield Claim(
        'Sun et al. 2025, Figure 2a',
        'FedAvg ends at a lower loss for larger R',
        run,
        _by_separation((0, 5), (5, 10), (10, 15), (15, 19)),
        **loss,
    )
    yield Claim(
        'Sun et al. 2025, Figure 2b',
        'Debiasing FedAvg ends at the loss of uniform sampling',
        run,
        {
            f'R = {n}': (Side('debiased_fedavg', f'R{n:02d}'), Side('fedavg', 'uniform'))
            for n in (0, 5, 10, 15, 19)
        },
        **loss,
        ordered=False,
    )
    item = 'Sun et al. 2025, Table 1'
    run = 'sun2025_table1_gaussians'
    for first, second, text in (
        ('debiased_fedavg', 'fedavg', 'Debiasing FedAvg ahead of FedAvg, by 6.2, 6.1, 4.0 points'),
        ('debiased_fedavg', 'fedvarp', 'Debiasing FedAvg ahead of FedVARP, by 5.8, 5.5, 1.6'),
        ('fedvarp', 'fedavg', 'FedVARP ahead of FedAvg, by 0.4, 0.6, 2.4'),
    ):
        pairs, hidden = _between(first, second, SUN_TABLE), first == 'debiased_fedavg'
        for metric, part in (('eval_accuracy', ''), ('train_accuracy', 'training data')):
            yield Claim(item, text, run, pairs, metric, part=part, hidden=hidden)
        text = text.partition(',')[0]
    yield Claim(
        item,
        'FedAvg gains with R',
        run,
        {'15 over 5': (Side('fedavg', 'R15'), Side('fedavg', 'R05'))},
    )
    loss = {'metric': 'train_loss', 'sign': -1, 'scale': 1000.0, 'unit': 'thousandths of loss'}
    run = 'sun2025_figure3_gaussians'
    uniform = Side('fedavg', 'uniform')
    yield Claim(
        'Sun et al. 2025, Figure 3a',
        'Debiasing FedAvg reaches the loss of uniform sampling',
        run,
        {label: (Side('debiased_fedavg', p), uniform) for label, p in SUN_TABLE.items()},
        **loss,
        ordered=False,
    )
    yield Claim(
        'Sun et al. 2025, Figure 3b',
        "FedAvg's loss is lower for larger R",
        run,
        _by_separation((0, 5), (5, 10), (10, 15)),
        **loss,
    )
    sooner = {
        f'{name}, {b} over {a}': (Side(label, f'R{b:02d}'), Side(label, f'R{a:02d}'))
        for name, label in (('FedAvg', 'fedavg'), ('debiased', 'debiased_fedavg'))
        for a, b in ((0, 5), (5, 10), (10, 15))
    }
    yield Claim(
        'Sun et al. 2025, Figures 3a, 3b',
        'larger R is sooner (here at a loss of 1.15)',
        run,
        sooner,
        metric='train_loss',
        statistic=doublings_to(1.15, sign=-1),
        sign=-1,
        scale=1.0,
        unit='doublings of the rounds',
    )
    for second, text in (('fedavg', 'FedAvg'), ('fedvarp', 'FedVARP')):
        yield Claim(
            'Sun et al. 2025, Figure 3c',
            f'Debiasing FedAvg below {text}',
            run,
            _between('debiased_fedavg', second, SUN_FIGURE),
            **loss,
            hidden=True,
        )


def _wang() -> Iterator[Claim]:
    yield Claim(
        'Wang and Ji 2022, Figure D.1',
        'regularised participation marginally ahead of independent',
        'wang2022_figure_d1_gaussians',
        {'': (Side('fedavg', 'regularised'), Side('fedavg', 'independent'))},
    )
    own = {
        'against ' + text: label
        for text, label in (
            ('none', 'plain'),
            ('wait-minibatch', 'wait_minibatch'),
            ('wait-full', 'wait_full'),
        )
    }
    pairs = {
        label: (Side('amplified', 'periodic'), Side(other, 'periodic'))
        for label, other in own.items()
    }
    item, run = 'Wang and Ji 2022, Figure 1', 'wang2022_figure1_gaussians'
    for which in ({}, EARLY):
        yield Claim(item, 'amplification ahead of none and of waiting', run, pairs, **which)
    blocks = {
        f'P = {5 * share}': (Side(f'period{share}', 'periodic'), Side('plain', 'periodic'))
        for share in (20, 50, 70)
    }
    smallest = {'1e-5': (Side('amplified', 'rate4'), Side('plain', 'rate4'))}
    unstable = {
        label: (Side(name, 'rate2'), Side(name, 'rate0'))
        for label, name in (('factor 1', 'plain'), ('10', 'amplified'))
    }
    for item, run, said, pairs in (
        ('2', 'figure2', 'amplification helps with P below the cycle', blocks),
        ('D.2', 'figure_d2', 'at the smallest local rate amplification ahead', smallest),
    ):
        item, run = f'Wang and Ji 2022, Figure {item}', f'wang2022_{run}_gaussians'
        for which in ({}, EARLY):
            yield Claim(item, said, run, pairs, **which)
    yield Claim(item, 'large local rates unstable: 0.001 ahead of 0.1', run, unstable)
    run, ten = 'wang2022_figure_d3_gaussians', Side('eta10', 'periodic')
    others = {
        n: {f'10 over {k}': (ten, Side(f'eta{k:02d}', 'periodic')) for k in n}
        for n in ((2, 20), (5, 15))
    }
    item = 'Wang and Ji 2022, Figure D.3'
    for which in ({}, EARLY):
        yield Claim(item, 'factors 2 and 20 worse than 10', run, others[2, 20], **which)
        text = 'factors 5, 10 and 15 alike, especially near convergence'
        yield Claim(item, text, run, others[5, 15], **which, ordered=False)
    steadier = {'': (ten, Side('eta20', 'periodic'))}
    scattered = {'statistic': scatter, 'sign': -1, 'part': 'standard deviation'}
    yield Claim(item, '20 fluctuates more than 10', run, steadier, **scattered)


def _xiang_2023() -> Iterator[Claim]:
    run, links = 'xiang2023_figure3', {'a': 'invariant', 'b': 'varying'}
    loss = {'metric': 'train_loss', 'sign': -1, 'scale': 1000.0, 'unit': 'thousandths of loss'}
    for letter, pattern in links.items():
        item = f'Xiang et al. 2023, Figure 3{letter}'
        pairs = {
            name: (Side('fedpbc', pattern, model), Side('fedavg', pattern))
            for name, model in (('server model', 'server'), ('client mean', 'client_mean'))
        }
        yield Claim(item, 'FedPBC below FedAvg', run, pairs, **loss)
    ends = tuple(Side('fedpbc', pattern, 'client_mean') for pattern in links.values())
    text = 'FedPBC ends at the same loss in both'
    yield Claim('Xiang et al. 2023, Figure 3c', text, run, {'': ends}, **loss, ordered=False)


def _xiang_2024() -> Iterator[Claim]:
    item, run = 'Xiang et al. 2024, Table 2', 'xiang2024_table2_gaussians'
    for level, others in (
        (0.15, ('FedAU', 'MIFA')),
        (0.3, ('FedAU', 'MIFA')),
        (0.45, RIVALS),
        (0.6, RIVALS),
    ):
        first = others is RIVALS
        said = 'before the others' if first else 'in about the rounds of FedAU and MIFA'
        pbc = Side(*FEDPBC, 'client_mean')
        yield Claim(
            item,
            f'FedPBC reaches {100 * level:.0f} % {said}',
            run,
            {label: (pbc, Side(RIVALS[label], FEDPBC[1])) for label in others},
            statistic=doublings_to(level),
            sign=-1,
            scale=1.0,
            unit='doublings of the rounds',
            ordered=first,
        )
    for letter, (parameter, values) in zip('abcd', VALUES.items(), strict=True):
        item, run = (
            f'Xiang et al. 2024, Figure 9{letter}',
            f'xiang2024_figure9_{parameter}_gaussians',
        )
        by_value = {value: f'value{k}' for k, value in enumerate(values, start=1)}
        for other in ('FedAvg', 'FedAvg all', 'F3AST', 'FedAU'):
            among = by_value
            if other == 'FedAU':
                among = {
                    value: label
                    for value, label in by_value.items()
                    if value != AHEAD.get(parameter)
                }
            yield Claim(item, f'FedPBC ahead of {other}', run, _pbc_over(RIVALS[other], among))
        if parameter in AHEAD:
            label = by_value[AHEAD[parameter]]
            pair = Side('fedau', label), Side('fedpbc', label, 'client_mean')
            text = f'FedAU ahead of FedPBC at {parameter} = {AHEAD[parameter]}'
            yield Claim(item, text, run, {'': pair})
        if parameter == 'alpha':
            at_one = {name: _pbc_over(RIVALS[name], {'': 'value3'})[''] for name in RIVALS}
            yield Claim(item, 'all on par at alpha = 1', run, at_one, ordered=False)
        if parameter in HARDER:
            easy, hard = HARDER[parameter]
            pairs = {
                name: (Side(label, by_value[easy], model), Side(label, by_value[hard], model))
                for name, label, model in ENDS
            }
            yield Claim(item, f'{parameter} = {easy} easier than {hard} for all', run, pairs)
        yield Claim(
            item,
            'MIFA at times ahead of FedPBC, by less than 2 points',
            run,
            {value: pair[::-1] for value, pair in _pbc_over('mifa', by_value).items()},
        )


def _pbc_over(other: str, by_value: Mapping[str, str]) -> dict[str, tuple[Side, Side]]:
    return {
        value: (Side('fedpbc', pattern, 'client_mean'), Side(other, pattern))
        for value, pattern in by_value.items()
    }


CLAIMS = (*_xiang_2023(), *_xiang_2024(), *_wang(), *_sun())

TABLE_D1 = 'wang2022_table_d1_gaussians'
PRINTED = {'wait_minibatch': 0.1, 'wait_full': 0.1, 'plain': 1e-5, 'amplified': 1e-5}


def table() -> Iterator[str]:
    """The lines of the table: all claims, and the rates of Table D.1."""
    yield from rows(CLAIMS)
    yield rates('Wang and Ji 2022, Table D.1', TABLE_D1, PRINTED)


if __name__ == '__main__':
    print('\n'.join(table()))
