"""Federated algorithms: each one a pure ``round_step``, named in `ALGORITHMS`."""

from collections.abc import Mapping

import optax

from fedjax_links import local_training
from fedjax_links.algorithms.amplified_fedavg import amplified_fedavg
from fedjax_links.algorithms.amplified_scaffold import amplified_scaffold
from fedjax_links.algorithms.debiased_fedavg import debiased_fedavg
from fedjax_links.algorithms.f3ast import budgeted, f3ast
from fedjax_links.algorithms.fedau import fedau
from fedjax_links.algorithms.fedavg import fedavg, fedavg_all
from fedjax_links.algorithms.fedavg_known import fedavg_known
from fedjax_links.algorithms.fedawe import fedawe
from fedjax_links.algorithms.fedbuff import fedbuff
from fedjax_links.algorithms.feddyn import feddyn
from fedjax_links.algorithms.fednova import fednova
from fedjax_links.algorithms.fedopt import fedopt
from fedjax_links.algorithms.fedpbc import fedpbc
from fedjax_links.algorithms.fedstale import fedstale
from fedjax_links.algorithms.fedvarp import fedvarp
from fedjax_links.algorithms.focus import focus
from fedjax_links.algorithms.mifa import mifa, mifa_waiting
from fedjax_links.algorithms.scaffold import scaffold
from fedjax_links.algorithms.wait_for_all import all_at_times, wait_for_all
from fedjax_links.core import describing
from fedjax_links.core.registry import AlgorithmEntry, Registry, Traffic

describing.remember_calls(globals())

ALGORITHMS: Mapping[str, AlgorithmEntry] = Registry(
    {
        'amplified_fedavg': AlgorithmEntry(
            amplified_fedavg,
            example={'period': 3, 'amplification': 1.5},
            full_participation_is_fedavg=False,
        ),
        'amplified_scaffold': AlgorithmEntry(
            amplified_scaffold,
            example={'period': 3, 'amplification': 1.5},
            full_participation_is_fedavg=False,
            traffic=Traffic(up=2, down=2),  # Delta_i and its mean gradient; x and c
        ),
        'debiased_fedavg': AlgorithmEntry(debiased_fedavg),
        'f3ast': AlgorithmEntry(
            f3ast, full_participation_is_fedavg=False, traffic=Traffic(asked=budgeted)
        ),
        'fedau': AlgorithmEntry(fedau),
        'fedavg': AlgorithmEntry(fedavg, traffic=Traffic(everyone=None)),
        'fedavg_all': AlgorithmEntry(fedavg_all),
        'fedavg_known': AlgorithmEntry(fedavg_known),
        'fedawe': AlgorithmEntry(fedawe),
        'fedbuff': AlgorithmEntry(
            fedbuff,
            example={'buffer_size': 3},
            traffic=Traffic(awaits_compute=False),  # of steps made since the last arrival
        ),
        'feddyn': AlgorithmEntry(
            feddyn, example={'alpha': 0.1}, full_participation_is_fedavg=False
        ),
        'fednova': AlgorithmEntry(fednova),
        'fedopt': AlgorithmEntry(fedopt, example={'server_optimizer': optax.sgd(1.0)}),
        'fedpbc': AlgorithmEntry(fedpbc, traffic=Traffic(everyone=None, default='all')),
        'fedprox': AlgorithmEntry(
            fedavg,
            client_program=local_training.proximal_sgd,
            client_example={'mu': 0.1},
            traffic=Traffic(everyone=None),
        ),
        'fedstale': AlgorithmEntry(
            fedstale, example={'stale_weight': 0.5}, empty_round_keeps_server=False
        ),
        'fedvarp': AlgorithmEntry(fedvarp),
        'focus': AlgorithmEntry(
            focus, full_participation_is_fedavg=False, empty_round_keeps_server=False
        ),
        'mifa': AlgorithmEntry(mifa, empty_round_keeps_server=False),
        'mifa_waiting': AlgorithmEntry(
            mifa_waiting, full_participation_is_fedavg=False, empty_round_keeps_server=False
        ),
        'scaffold': AlgorithmEntry(
            scaffold,
            full_participation_is_fedavg=False,
            traffic=Traffic(up=2, down=2),  # Delta_i and the change of c_i; x and c
        ),
        'wait_for_all': AlgorithmEntry(
            wait_for_all,
            example={'period': 3},
            full_participation_is_fedavg=False,
            empty_round_keeps_server=False,
            uses_links=False,
            traffic=Traffic(asked=all_at_times),
        ),
    }
)

__all__ = ['ALGORITHMS', *sorted({entry.factory.__name__ for entry in ALGORITHMS.values()})]
