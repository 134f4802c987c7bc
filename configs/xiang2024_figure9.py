"""Figure 9 of Xiang et al. (2024): what alpha, gamma, delta and sigma_0 do to seven algorithms.

  python -m fedjax_links.cli.sweep --config=configs/xiang2024_figure9.py:gamma --workdir=runs/gamma

After the colon: alpha (a), gamma (b), delta (c) or sigma (d). The full size needs prepared CIFAR-10
and takes weeks on a CPU; it has not been run, on a GPU neither. With --quick, a few minutes
on two CPU cores: bars of the same form on synthetic images, without their meaning.

The paper shows bars of test accuracy over the last 100 of 10,000 rounds, without numbers: FedPBC is
ahead of the algorithms without memory except for alpha = 1 and sigma_0 = 1, where FedAU is; MIFA is
at times ahead by less than 2 %. Deviations: of the values only alpha = 1, delta = 0.001 and
sigma_0 = 1, 20 are named in the text and gamma = 0.1, 0.2, 0.4 in the released code, the others are
ours; else as in xiang2024_table1.py.
"""

from typing import Any

from ml_collections import ConfigDict

from fedjax_links import errors
from fedjax_links.presets import xiang2024

VALUES = {
    'alpha': (0.05, 0.1, 1.0),
    'gamma': (0.1, 0.2, 0.4),
    'delta': (0.001, 0.02, 0.1),
    'sigma': (1.0, 10.0, 20.0),
}
SYMBOLS = {'alpha': 'alpha', 'gamma': 'gamma', 'delta': 'delta', 'sigma': 'sigma_0'}


def links(parameter: str, value: float) -> dict[str, Any]:
    """Time-varying Bernoulli links with one parameter changed."""
    probs = {
        'delta': xiang2024.probs(minimum=value),
        'sigma': xiang2024.probs(sigma=value),
    }.get(parameter, xiang2024.probs())
    schedule = xiang2024.sine(value) if parameter == 'gamma' else xiang2024.sine()
    return {'name': 'bernoulli', 'probs': probs, 'schedule': schedule}


def get_config(parameter: str = 'alpha') -> ConfigDict:
    """The comparison's settings.

    Args:
      parameter: ``'alpha'``, ``'gamma'``, ``'delta'`` or ``'sigma'``.
    """
    if parameter not in VALUES:
        raise errors.unknown_name('parameter', parameter, VALUES)
    values = dict(enumerate(VALUES[parameter], start=1))
    problems = {f'value{k}': {'alpha': v} for k, v in values.items()}
    return ConfigDict(
        {
            'title': f'{SYMBOLS[parameter]} on CIFAR-10 (Xiang et al. 2024, Figure 9)',
            'problem': xiang2024.problem('cifar10'),
            'patterns': {f'value{k}': links(parameter, v) for k, v in values.items()},
            'problems': problems if parameter == 'alpha' else {},
            'client': xiang2024.client(),
            'algorithms': xiang2024.algorithms(),
            'tuning': {
                'learning_rates': xiang2024.LEARNING_RATES,
                'server_lrs': xiang2024.SERVER_LRS,
                'pattern': 'value2',
                'num_rounds': 500,
                'num_seeds': 1,
            },
            'baseline': 'fedavg',
            'metric': 'eval_accuracy',
            'num_rounds': xiang2024.NUM_ROUNDS['cifar10'],
            'eval_every': 10,
            'num_seeds': 3,
            'names': tuple(
                (f'value{k}', f'{SYMBOLS[parameter]} = {v:g}') for k, v in values.items()
            )
            + xiang2024.ALGORITHM_NAMES,
            'reports': {
                'bars': {'name': 'bars', 'tail': 0.01},
                'levels': {'name': 'levels', 'tail': 0.01},
                'rates': {'name': 'rates'},
            },
            'caption': (
                'The paper shows bars without numbers: FedPBC ahead of the algorithms without '
                'memory (all but MIFA and FedAvg known) except for alpha = 1 and sigma_0 = 1, '
                'where FedAU is. Deviations: values that neither text nor code name are ours; '
                'minibatches with replacement; tuned at the middle value; gamma 0.4; equal '
                'volumes; FedPBC at the mean of its client models. With --quick: synthetic '
                'images, 20 clients and 40 rounds, whose levels mean nothing.'
            ),
            'quick': {
                'problem': xiang2024.small_problem(num_clients=20, num_train=600),
                'tuning': {
                    'learning_rates': (0.1,),
                    'server_lrs': (1.0,),
                    'num_rounds': 10,
                },
                'num_rounds': 40,
                'num_seeds': 2,
            },
        }
    )
