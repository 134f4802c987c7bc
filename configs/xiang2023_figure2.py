"""Figure 2 of Xiang et al. (CDC 2023): distance to the optimum of FedAvg and FedPBC.

  python -m fedjax_links figure --config=configs/xiang2023_figure2.py --workdir=runs/cdc2

It takes about 20 seconds on two CPU cores, five with `--quick`. It was not measured on a GPU.

The paper prints no numbers. It reports that FedPBC reaches the optimum for all pairs of
probabilities if all clients compute (a), and FedAvg for p0 = p1 only. FedPBC keeps a bias if only
active clients compute (b). It plots x_PS, which the proceedings define as the mean of the client
models, for both panels. With this mean all three statements hold here: it has no bias in (a). A
long version on arXiv has the server model for x_PS. That model has a bias where p0 differs from p1,
19 to 72 times smaller than FedAvg's, and with p0 = p1 = 0.1 its noise is larger than FedAvg's, as
exact theory says. Both models are drawn.

Deviations: its list of pairs is lost in the texts at hand, and these six are ours. So is the number
of seeds, 3 with the same targets. Bands are standard deviations.
"""

from ml_collections import ConfigDict


def get_config() -> ConfigDict:
    """Returns the figure's settings."""
    return ConfigDict(
        {
            'title': 'Distance to the optimum, counterexample (Xiang et al. 2023, Figure 2)',
            'figure': {
                'name': 'figures.counterexample:counterexample_error',
                'panels': {
                    '(a) all clients compute': {
                        'algorithms': ('fedavg', 'fedpbc'),
                        'compute': 'all',
                    },
                    '(b) only active clients compute': {
                        'algorithms': ('fedpbc',),
                        'compute': 'active',
                    },
                },
                'learning_rate': 3e-4,
                'local_steps': 30,
                'num_rounds': 4000,
            },
            'caption': (
                'F_i = 0.5 ||x - u_i||^2, N = d = 100, s = 30, eta = 3e-4; clients 1-50 are up '
                'with p0, the others with p1; server model, mean and standard deviation over 3 '
                'seeds, and the mean client model of FedPBC (dotted), from round 50. The paper '
                'plots x_PS, in the proceedings the mean of the client models, in a long version '
                'the server model. Points: the exact root mean square; triangles: the exact bias. '
                'The paper reports, without numbers: FedPBC reaches the optimum in (a), FedAvg '
                'only for p0 = p1, and in (b) FedPBC keeps a bias. Here too with the mean of the '
                'client models; the server model has a small bias in (a) where p0 and p1 differ, '
                'exact in the table. Deviations: its pairs of probabilities are lost, these are '
                'ours; so is the number of seeds, which share one draw of the u_i.'
            ),
            'width': 110,
            'quick': {
                'figure': {'pairs': ((0.1, 0.9), (0.5, 0.5)), 'num_rounds': 400},
            },
        }
    )
