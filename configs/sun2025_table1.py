"""Table 1 and Figure 4 of Sun et al. (ICLR 2025): CIFAR-10 with groups that wait R rounds.

  python -m fedjax_links simulate --config=configs/sun2025_table1.py --workdir=runs/sun_table1

It needs prepared CIFAR-10. The full size takes a day on a CPU and was not run; studies/full_size.md
has its cost. With --quick it takes a few minutes on two CPU cores, on synthetic images. After a
colon, gaussians is a small version that needs no data: classes that overlap and softmax regression,
all else as it was. It takes two and a half minutes on two CPU cores, or half a minute with --quick.
Its results are in docs/papers.md.

The paper prints training and test accuracies for R = 5, 10, 15; the report prints them beside ours.
Debiasing FedAvg is ahead of FedVARP and FedAvg throughout. Deviations: the paper states
only "three convolution layers" and rates "of order 1e-3". Partition, batch, local work and rounds
are those of the MNIST experiment's code, the network is ours, and rates are tuned at R = 10.

With :cifar10,as_released or :gaussians,as_released the released form of debiasing runs, and smaller
rates are tried as well.
"""

from ml_collections import ConfigDict

from fedjax_links.papers import common
from fedjax_links.papers.sun2025 import presets

DATASETS = {'cifar10': 'CIFAR-10', presets.SMALL: 'Gaussian classes'}
SEPARATIONS = (5, 10, 15)


def get_config(argument: str = '') -> ConfigDict:
    """Returns the comparison's settings.

    Args:
      argument: ``cifar10`` or ``gaussians``, and ``as_released`` for the released form of
        debiasing.
    """
    dataset, code = common.chosen(argument, DATASETS, presets.CODES)
    comparison = ''
    network = 'the network is ours, '
    quick_data = 'synthetic images, a smaller network'
    if dataset == presets.SMALL:
        comparison = (
            'The paper columns are those of CIFAR-10, to compare orders, not levels. '
        )
        network = ''
        quick_data = '50 examples a client'
    config = presets.experiment(
        dataset,
        SEPARATIONS,
        code,
        rates=((0.1, 0.03, 0.01, 0.003, 0.001), (0.1, 0.03)),
        tuned_on='R10',
        local_steps=(50, 5),
        quick_problem={
            'data': {
                'num_train': 3_000,
                'num_test': 500,
                'shape': (16, 16, 3),
                'difficulty': 0.5,
            },
            'model': {'name': 'cnn', 'channels': (8, 8, 16), 'hidden': (32,)},
        },
    )

    def page(split: str, metric: str) -> dict:
        table = 'fedjax_links.papers.sun2025.tables:table1'
        published = {'name': table, 'dataset': 'CIFAR-10', 'split': split}
        return {'name': 'comparison', 'metric': metric, 'published': published}

    return ConfigDict(
        {
            'title': (
                f'{DATASETS[dataset]} with minimum separation '
                '(Sun et al. 2025, Table 1 and Figure 4)'
            ),
            **config,
            'metric': 'train_accuracy',
            'reports': {
                'train': page('train', 'train_accuracy'),
                'test': page('test', 'eval_accuracy'),
                'curves': {
                    'name': 'curves',
                    'log_rounds': dataset == presets.SMALL,
                    'columns': 4,
                },
                'rates': {'name': 'rates'},
            },
            'caption': (
                f'{comparison}{presets.debiasing(code)} Deviations: '
                f'{presets.data_deviations(dataset)}'
                f'{presets.SAMPLES_DEVIATION}the '
                'paper states "three convolution layers" and rates of order 1e-3; partition, '
                f'batch, local work and rounds here are those of its MNIST code, {network}rates '
                f'are tuned at R = 10. With --quick: {quick_data}, 5 local steps, 150 rounds.'
            ),
        }
    )
