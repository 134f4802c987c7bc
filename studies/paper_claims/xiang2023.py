"""Claims of Xiang et al. 2023."""

from collections.abc import Iterator

from studies.claim import Claim, Side


def claims() -> Iterator[Claim]:
    """Yields the claims in the order of the paper."""
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
    text = 'FedPBC ends at the same loss without jitter as with it'
    yield Claim(
        'Xiang et al. 2023, Figure 3c', text, run, {'': ends}, **loss, ordered=False
    )
