"""Figure 9 of Xiang et al. (2024): what alpha, gamma, delta and sigma_0 do to seven algorithms.

  python -m fedjax_links simulate --config=configs/xiang2024_figure9.py:gamma --workdir=runs/gamma

After the colon stands alpha (a), gamma (b), delta (c) or sigma (d). Add as_released
(:alpha,as_released) or first_commit as for xiang2024_table1.py. The full size needs prepared
CIFAR-10, takes weeks on a CPU and was not run; studies/full_size.md has its cost. With --quick it
takes a few minutes on two CPU cores. The bars have the same form, on synthetic images, without
their meaning.

A small version, :alpha,gaussians, needs no data: Gaussian classes that overlap, as in
xiang2024_table1_gaussians.py, 1,998 rounds, and rates tuned as there at every value. It takes five
minutes on two CPU cores, or half a minute with --quick. Its results are in docs/papers.md.

The paper shows bars of test accuracy over the last 100 of 10,000 rounds, without numbers. FedPBC is
ahead of the algorithms that neither remember updates nor know the probabilities. Exceptions are
alpha = 1 and sigma_0 = 1, where FedAU is ahead. MIFA is at times ahead by less than 2 %.

Deviations: of the values, the text names only alpha = 1, delta = 0.001 and sigma_0 = 1, 20. The
released code names gamma = 0.1, 0.2, 0.4. The others are ours. The rest is as in
xiang2024_table1.py. In small also classes for images, softmax regression for convolutions, and
evaluations every 9 rounds for every 10, which see all of the sine of the links.
"""

from ml_collections import ConfigDict

from fedjax_links.papers import common
from fedjax_links.papers.xiang2024 import presets

VALUES = {
    'alpha': (0.05, 0.1, 1.0),
    'gamma': (0.1, 0.2, 0.4),
    'delta': (0.001, 0.02, 0.1),
    'sigma': (1.0, 10.0, 20.0),
}
DATASETS = {'cifar10': 'CIFAR-10', **presets.SMALL_DATASETS}


def links(parameter: str, value: float) -> common.PaperSection:
    """Returns time-varying Bernoulli links with one parameter changed."""
    probs = {
        'delta': presets.probs(minimum=value),
        'sigma': presets.probs(sigma=value),
    }.get(parameter, presets.probs())
    schedule = presets.sine(value) if parameter == 'gamma' else presets.sine()
    return {'name': 'bernoulli', 'probs': probs, 'schedule': schedule}


def get_config(argument: str = '') -> ConfigDict:
    """Returns the comparison's settings.

    Args:
      argument: ``alpha``, ``gamma``, ``delta`` or ``sigma``; ``cifar10`` or ``gaussians``; and
        ``as_released`` or ``first_commit``.
    """
    parameter, dataset, code = common.chosen(argument, VALUES, DATASETS, presets.CODES)
    small = dataset in presets.SMALL_DATASETS
    quick_size = 'synthetic images, 20 clients and 40 rounds'
    replaced = (
        f'{presets.data_deviations(dataset)}'
        'the last 100 rounds are seen every {config.eval_every}; '
    )
    tuned = 'tuned at the middle value; '
    gamma = '' if parameter == 'gamma' else presets.GAMMA_DEVIATION
    if small:
        quick_size = '20 clients and 108 rounds'
        tuned = presets.TUNING_DEVIATION
        replaced = (
            f'{presets.data_deviations(dataset)}'
            '{config.num_rounds} rounds in place of 10,000, evaluated every {config.eval_every} in '
            'place of every 10, so that all of the sine is seen; '
        )
    symbol = 'sigma_0' if parameter == 'sigma' else parameter
    values = {f'value{k}': value for k, value in enumerate(VALUES[parameter], start=1)}
    config = {
        'title': f'{symbol} on {DATASETS[dataset]} (Xiang et al. 2024, Figure 9)',
        **presets.experiment(code),
        **presets.setting(dataset, code),
        'patterns': {label: links(parameter, value) for label, value in values.items()},
        'problems': {
            label: {'alpha': value}
            for label, value in values.items()
            if parameter == 'alpha'
        },
        'num_rounds': presets.NUM_ROUNDS[dataset],
        'eval_every': 9 if small else 10,
        'names': (
            *((label, f'{symbol} = {value:g}') for label, value in values.items()),
            *presets.ALGORITHM_NAMES,
        ),
        'reports': {
            'bars': {'name': 'bars', 'tail': 0.01},
            'comparison': {'name': 'comparison', 'tail': 0.01},
            'rates': {'name': 'rates'},
        },
        'caption': (
            'The paper shows bars without numbers: FedPBC ahead of the algorithms that neither '
            'remember updates nor know the probabilities (all but MIFA and FedAvg known) except '
            'for alpha = 1 and sigma_0 = 1, where FedAU is. '
            f'Deviations: {replaced}values that neither text nor code name are ours; '
            f'{presets.SAMPLES_DEVIATION}{tuned}{gamma}{presets.LABEL_LINKS_DEVIATION}{presets.F3AST_DEVIATION}'
            'FedPBC at the mean of its client models. '
            f'{presets.departures(code, "training", dataset=dataset)} With --quick: {quick_size}, '
            'whose levels mean nothing.'
        ),
        'quick': presets.quick(dataset, code, learning_rates=(0.1,), tuning_rounds=10),
    }
    config['tuning']['pattern'] = 'value2'
    if small:
        config |= {**presets.small_tuning(code), 'num_rounds': 1_998}
    return ConfigDict(config)
