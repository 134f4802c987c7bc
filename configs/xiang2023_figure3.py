"""Figure 3 of Xiang et al. (2023): FedAvg and FedPBC on Synthetic(1, 1) over unequal uplinks.

  python -m fedjax_links simulate --config=configs/xiang2023_figure3.py --workdir=runs/cdc3

It takes a quarter of an hour on two busy CPU cores, with --quick about 40 seconds. It was not
measured on a GPU. After a colon, printed_rates tunes over the paper's list of rates, which was not
run.

The paper shows training curves, without numbers. FedPBC is ahead of FedAvg with probabilities 0.05
and 0.9 that stay (a), and with jitter of +-0.02 (b). It reaches the same point in both (c).
Deviations: sample counts are not stated, so the usual generator's are used (lognormal, unequal).
Which client got which probability is not stated either. The loss is that of all training examples,
equally weighted. Minibatches are drawn with replacement, one for each local step. The listing draws
one a round, as --config.client.resample=round does. There are 3 seeds. Rates are tuned in both
cases after 500 rounds, by three other seeds, over 0.0005 to 0.02. The printed list, "0.1, 0.5,
0.01, ..., 0.001, 0.005", has none of the 0.002 that FedPBC chooses.
"""

from ml_collections import ConfigDict

from fedjax_links.papers import common

RATES = {
    'own_rates': (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02),
    'printed_rates': (0.001, 0.005, 0.01, 0.05, 0.1, 0.5),
}
"""What is tried. The paper prints its list with dots, which we read as 0.05."""


def get_config(argument: str = '') -> ConfigDict:
    """Returns the comparison's settings.

    Args:
      argument: ``own_rates`` (the default) or ``printed_rates``.
    """
    (rates,) = common.chosen(argument, RATES)
    source = 'in place of 0.001 to 0.5 as printed'
    if rates == 'printed_rates':
        source = 'as printed, with 0.05 for its dots'
    probs = {'name': 'halves', 'first': 0.05, 'second': 0.9}
    return ConfigDict(
        {
            'title': 'Synthetic(1, 1) over unequal uplinks (Xiang et al. 2023, Figure 3)',
            'problem': {
                'name': 'synthetic',
                'alpha': 1.0,
                'beta': 1.0,
                'num_clients': 30,
                'seed': 0,
            },
            'patterns': {
                'invariant': {'name': 'bernoulli', 'probs': probs},
                'varying': {
                    'name': 'bernoulli',
                    'probs': probs,
                    'schedule': {'name': 'jitter', 'width': 0.02},
                },
            },
            'client': {'local_steps': 25, 'batch_size': 100, 'resample': 'step'},
            'algorithms': {'fedavg': {}, 'fedpbc': {}},
            'tuning': {
                'learning_rates': RATES[rates],
                **({'grow': 0} if rates == 'printed_rates' else {}),
                'num_rounds': 500,
                'num_seeds': 3,
                'ties': 1,
            },
            'baseline': 'fedavg',
            'metric': 'train_loss',
            'num_rounds': 1_900,
            'eval_every': 20,
            'num_seeds': 3,
            'names': (
                ('invariant', 'time-invariant'),
                ('varying', 'time-varying'),
                ('fedavg', 'FedAvg'),
                ('fedpbc', 'FedPBC'),
            ),
            'reports': {
                'by_links': {
                    'name': 'curves',
                    'metrics': ('train_loss', 'eval_accuracy'),
                    'columns': 2,
                },
                'by_algorithm': {'name': 'curves', 'lines': 'patterns', 'columns': 2},
                'comparison': {'name': 'comparison'},
                'rates': {'name': 'rates'},
            },
            'caption': (
                'The paper reports that FedPBC is ahead of FedAvg in both cases and reaches the '
                'same point in both; no numbers. Deviations: sample counts and the assignment of '
                'probabilities are not stated (usual generator; first half of the clients at '
                '0.05); loss of all training examples, equally weighted; a minibatch per '
                '{config.client.resample}, drawn with replacement, where the listing draws one '
                'per round; rates tuned in both cases over {config.tuning.learning_rates}, '
                f'{source}, after {{config.tuning.num_rounds}} rounds; FedPBC is evaluated at the '
                'mean of its client models.'
            ),
            'quick': {
                'problem': {'max_examples': 400},
                'tuning': {
                    'learning_rates': (0.1, 0.01),
                    'num_rounds': 60,
                    'num_seeds': 1,
                    'grow': 0,
                },
                'num_rounds': 300,
            },
        }
    )
