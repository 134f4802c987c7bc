"""What the papers say of their experiments, beside the runs of the repository.

python -m studies.claims

Prints the rows of `studies.computed`, and from the archives in ``studies/records/papers``, one a
run, a table. A claim is a list of pairs: of either the first is
said to be ahead, or both alike. The sides of a pair have the same seeds; a number is the mean
difference over seeds with its 95 % interval (Student t), positive where the first is ahead, and a
verdict counts the pairs: `studies.claim.Outcome.verdict`.
"""

from collections.abc import Iterator, Mapping

from fedjax_links.papers.xiang2024 import presets
from studies import computed
from studies.claim import (
    Claim,
    Judged,
    Side,
    fluctuation,
    judged,
    rates,
    rows,
    summary,
    until,
)

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
MINUTES = {
    'sun2025_figure2': '1',
    'sun2025_figure3_gaussians': '6',
    'sun2025_table1_gaussians': '3',
    'wang2022_figure1_gaussians': '15',
    'wang2022_figure2_gaussians': '30',
    'wang2022_figure_d1_gaussians': '1',
    'wang2022_figure_d2_gaussians': '46',
    'wang2022_figure_d3_gaussians': '26',
    'wang2022_table_d1_gaussians': '14',
    'xiang2023_figure3': '15',
    'xiang2024_table1_gaussians': '21',
    'xiang2024_table2_gaussians': '10',
    **{f'xiang2024_figure9_{parameter}_gaussians': '5' for parameter in VALUES},
}
"""What a run cost on two CPU cores, about."""
SPEED = {'target': 1.15, 'part': 'to a loss of 1.15', 'unit': 'doublings of the rounds'}
"""A loss between start and end of every curve of Sun et al., Figure 3; our choice."""
EARLY = {'statistic': until(30_000), 'part': 'first 30,000 rounds'}
"""A tenth of the runs of Wang and Ji, beside their ends."""
CONVEX = {'shows': False}
"""Ends of runs on a convex problem, where all factors and waiting share one minimiser."""
STEPS = {
    'statistic': fluctuation,
    'scale': 1.0,
    'margin': 0.0,
    'unit': 'doublings of the steps',
}
"""How far apart successive evaluations are, at the end."""
AHEAD = {'alpha': '1', 'sigma': '1'}
"""Where FedAU is said to be ahead of FedPBC."""
HARDER = {'gamma': ('0.1', '0.4'), 'delta': ('0.02', '0.001')}
"""The easier and the harder value."""
ENDS = (
    ('FedPBC', 'fedpbc', 'client_mean'),
    *((name, label, 'server') for name, label in RIVALS.items()),
)


def _between(
    first: str, second: str, patterns: Mapping[str, str]
) -> dict[str, tuple[Side, Side]]:
    return {label: (Side(first, p), Side(second, p)) for label, p in patterns.items()}


def _by_separation(
    *pairs: tuple[int, int], rule: str = 'fedavg'
) -> dict[str, tuple[Side, Side]]:
    return {
        f'R = {b} over {a}': (Side(rule, f'R{b:02d}'), Side(rule, f'R{a:02d}'))
        for a, b in pairs
    }


SUN_RULES = {
    'debiased_fedavg': 'Debiasing FedAvg',
    'fedvarp': 'FedVARP',
    'fedavg': 'FedAvg',
}
SUN_TRAINING = '4.4, 6.2, 7.3', '2.6, 4.0, 3.4', '1.8, 2.2, 3.9'
"""Printed leads in training accuracy, from Table 1."""


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
            f'R = {n}': (
                Side('debiased_fedavg', f'R{n:02d}'),
                Side('fedavg', 'uniform'),
            )
            for n in (0, 5, 10, 15, 19)
        },
        **loss,
        ordered=False,
    )
    item = 'Sun et al. 2025, Table 1'
    run = 'sun2025_table1_gaussians'
    ours, varp, avg = SUN_RULES.items()
    orders = (ours, avg), (ours, varp), (varp, avg)
    for part, metric, by in (
        ('test', 'eval_accuracy', ('6.2, 6.1, 4.0', '5.8, 5.5, 1.6', '0.4, 0.6, 2.4')),
        ('training, as in Figure 4', 'train_accuracy', SUN_TRAINING),
    ):
        for (first, second), points in zip(orders, by, strict=True):
            text = f'{part}: {first[1]} ahead of {second[1]}, by {points} points'
            pairs = _between(first[0], second[0], SUN_TABLE)
            yield Claim(item, text, run, pairs, metric=metric, shows=False)
        gain = {'15 over 5': (Side('fedavg', 'R15'), Side('fedavg', 'R05'))}
        yield Claim(item, f'{part}: FedAvg gains with R', run, gain, metric=metric)
    loss = {
        'metric': 'train_loss',
        'sign': -1,
        'scale': 1000.0,
        'unit': 'thousandths of loss',
    }
    run = 'sun2025_figure3_gaussians'
    uniform = Side('fedavg', 'uniform')
    steps = ((0, 5), (5, 10), (10, 15))
    yield Claim(
        'Sun et al. 2025, Figure 3a',
        'Debiasing FedAvg reaches the loss of uniform sampling',
        run,
        {
            label: (Side('debiased_fedavg', p), uniform)
            for label, p in SUN_TABLE.items()
        },
        **loss,
        ordered=False,
    )
    yield Claim(
        'Sun et al. 2025, Figure 3b',
        "FedAvg's loss is lower for larger R",
        run,
        _by_separation(*steps),
        **loss,
    )
    for letter, rule, name in (('a', *ours), ('b', *avg)):
        text = f'{name} converges faster for larger R'
        pairs = _by_separation(*steps, rule=rule)
        item = f'Sun et al. 2025, Figure 3{letter}'
        yield Claim(item, text, run, pairs, metric='train_loss', sign=-1, **SPEED)
    for second, text in (('fedavg', 'FedAvg'), ('fedvarp', 'FedVARP')):
        yield Claim(
            'Sun et al. 2025, Figure 3c',
            f'Debiasing FedAvg below {text}',
            run,
            _between('debiased_fedavg', second, SUN_FIGURE),
            **loss,
            shows=False,
        )


def _wang() -> Iterator[Claim]:
    item = 'Wang and Ji 2022, Figure D.1'
    run = 'wang2022_figure_d1_gaussians'
    pair = {'': (Side('fedavg', 'regularised'), Side('fedavg', 'independent'))}
    text = 'regularised and independent participation similar'
    yield Claim(item, text, run, pair, ordered=False)
    yield Claim(item, 'regularised participation marginally ahead', run, pair)
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
    item = 'Wang and Ji 2022, Figure 1'
    run = 'wang2022_figure1_gaussians'
    for which in (CONVEX, EARLY):
        yield Claim(
            item, 'amplification ahead of none and of waiting', run, pairs, **which
        )
    blocks = {
        f'P = {5 * share}': (
            Side(f'period{share}', 'periodic'),
            Side('plain', 'periodic'),
        )
        for share in (20, 50, 70)
    }
    smallest = {'1e-5': (Side('amplified', 'rate4'), Side('plain', 'rate4'))}
    unstable = {
        label: (Side(name, 'rate2'), Side(name, 'rate0'))
        for label, name in (('factor 1', 'plain'), ('10', 'amplified'))
    }
    for item, run, said, pairs, end in (
        ('2', 'figure2', 'amplification helps with P below the cycle', blocks, CONVEX),
        (
            'D.2',
            'figure_d2',
            'at the smallest local rate amplification ahead',
            smallest,
            {},
        ),
    ):
        item = f'Wang and Ji 2022, Figure {item}'
        run = f'wang2022_{run}_gaussians'
        for which in (end, EARLY):
            yield Claim(item, said, run, pairs, **which)
    yield Claim(item, 'large local rates unstable: 0.001 ahead of 0.1', run, unstable)
    run = 'wang2022_figure_d3_gaussians'
    ten = Side('eta10', 'periodic')
    others = {
        n: {f'10 over {k}': (ten, Side(f'eta{k:02d}', 'periodic')) for k in n}
        for n in ((2, 20), (5, 15))
    }
    item = 'Wang and Ji 2022, Figure D.3'
    for end, which in ((CONVEX, {}), (EARLY, EARLY)):
        yield Claim(item, 'factors 2 and 20 worse than 10', run, others[2, 20], **end)
        text = 'factors 5, 10 and 15 alike, especially near convergence'
        yield Claim(item, text, run, others[5, 15], **which, ordered=False)
    rough = {
        f'20 over {k}': (Side('eta20', 'periodic'), Side(f'eta{k:02d}', 'periodic'))
        for k in (5, 10, 15)
    }
    for metric, name in (('train_loss', 'loss'), ('eval_accuracy', 'accuracy')):
        text = f'factor 20 fluctuates more in {name}'
        yield Claim(item, text, run, rough, metric=metric, **STEPS)


def _xiang_2023() -> Iterator[Claim]:
    run = 'xiang2023_figure3'
    links = {'a': 'invariant', 'b': 'varying'}
    loss = {
        'metric': 'train_loss',
        'sign': -1,
        'scale': 1000.0,
        'unit': 'thousandths of loss',
    }
    for letter, pattern in links.items():
        item = f'Xiang et al. 2023, Figure 3{letter}'
        pairs = {
            name: (Side('fedpbc', pattern, model), Side('fedavg', pattern))
            for name, model in (
                ('server model', 'server'),
                ('client mean', 'client_mean'),
            )
        }
        yield Claim(item, 'FedPBC below FedAvg', run, pairs, **loss)
    ends = tuple(Side('fedpbc', pattern, 'client_mean') for pattern in links.values())
    text = 'FedPBC ends at the same loss in both'
    yield Claim(
        'Xiang et al. 2023, Figure 3c', text, run, {'': ends}, **loss, ordered=False
    )


def _xiang_2024() -> Iterator[Claim]:
    item = 'Xiang et al. 2024, Table 1'
    run = 'xiang2024_table1_gaussians'
    patterns = {label: label for label in presets.patterns('paper')}
    pairs = _pbc_over('fedavg', patterns)
    text = 'FedPBC ahead of FedAvg, by about 10 points'
    yield Claim(item, text, run, pairs, note='; by about half of it')
    for name in ('FedAvg all', 'FedAU', 'F3AST', 'known-p'):
        pairs = _pbc_over(RIVALS[name], patterns)
        yield Claim(item, f'FedPBC ahead of {name}', run, pairs)
    item = 'Xiang et al. 2024, section 7.2'
    yield Claim(item, 'MIFA not always the best', run, _pbc_over('mifa', patterns))
    reset = {'': (Side('fedau', 'cyclic'), Side('fedau', 'cyclic_reset'))}
    yield Claim(item, 'FedAU worse where cycles are reset', run, reset)
    item = 'Xiang et al. 2024, Table 2'
    run = 'xiang2024_table2_gaussians'
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
            target=level,
            unit='doublings of the rounds',
            ordered=first,
        )
    for letter, (parameter, values) in zip('abcd', VALUES.items(), strict=True):
        item = f'Xiang et al. 2024, Figure 9{letter}'
        run = f'xiang2024_figure9_{parameter}_gaussians'
        by_value = {value: f'value{k}' for k, value in enumerate(values, start=1)}
        for other in ('FedAvg', 'FedAvg all', 'F3AST', 'FedAU'):
            among = by_value
            if other == 'FedAU':
                among = {
                    value: label
                    for value, label in by_value.items()
                    if value != AHEAD.get(parameter)
                }
            pairs = _pbc_over(RIVALS[other], among)
            yield Claim(item, f'FedPBC ahead of {other}', run, pairs)
        if parameter in AHEAD:
            label = by_value[AHEAD[parameter]]
            pair = Side('fedau', label), Side('fedpbc', label, 'client_mean')
            text = f'FedAU ahead of FedPBC at {parameter} = {AHEAD[parameter]}'
            yield Claim(item, text, run, {'': pair})
        if parameter == 'sigma':
            pair = _pbc_over('fedavg_known', {'': by_value['20']})
            yield Claim(item, 'FedPBC ahead of known-p at sigma = 20', run, pair)
        if parameter == 'alpha':
            same = {
                name: _pbc_over(rule, {'': 'value3'})['']
                for name, rule in RIVALS.items()
            }
            text = 'almost all on par with FedPBC at alpha = 1'
            yield Claim(item, text, run, same, ordered=False)
        if parameter in HARDER:
            easy, hard = HARDER[parameter]
            pairs = {
                name: (
                    Side(label, by_value[easy], model),
                    Side(label, by_value[hard], model),
                )
                for name, label, model in ENDS
            }
            yield Claim(
                item, f'{parameter} = {easy} easier than {hard} for all', run, pairs
            )
        if parameter == 'delta':
            more = {
                name: (*pairs['MIFA'], *pair)
                for name, pair in pairs.items()
                if name != 'MIFA'
            }
            yield Claim(item, 'MIFA drops most at delta = 0.001', run, more)
        yield Claim(
            item,
            'MIFA at times ahead of FedPBC, by less than 2 points',
            run,
            {value: pair[::-1] for value, pair in _pbc_over('mifa', by_value).items()},
            ordered=False,
            margin=2.0,
            note='; within 2 points',
        )


def _pbc_over(other: str, by_value: Mapping[str, str]) -> dict[str, tuple[Side, Side]]:
    return {
        value: (Side('fedpbc', pattern, 'client_mean'), Side(other, pattern))
        for value, pattern in by_value.items()
    }


CLAIMS = (*_xiang_2023(), *_xiang_2024(), *_wang(), *_sun())

TABLE_D1 = 'wang2022_table_d1_gaussians'
PRINTED = {'wait_minibatch': 0.1, 'wait_full': 0.1, 'plain': 1e-5, 'amplified': 1e-5}


def table(found: Judged) -> Iterator[str]:
    """The lines of the table: all claims, and the rates of Table D.1."""
    yield from rows(found, MINUTES)
    yield rates('Wang and Ji 2022, Table D.1', TABLE_D1, PRINTED, MINUTES)


if __name__ == '__main__':
    outcomes = judged(CLAIMS)
    print('\n'.join([*computed.rows(), '', *table(outcomes), '', summary(outcomes)]))
