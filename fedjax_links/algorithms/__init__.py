"""Federated algorithms: each one a pure ``round_step``, named in `ALGORITHMS`.

Docstrings of this package share their symbols. N is the number of clients, and x the server model,
x^t at the start of round t. A holds the active clients: their uplink delivers in the round. An
empty round has no active client. p_i is the probability that client i's uplink delivers. L_i is the
client program: what client i does with a model in a round. The update ``Delta_i = L_i(x) - x`` is
the change of the model. F_i is the loss of client i, n_i its number of examples, eta its local
rate, and s its number of local steps. eta_g is the server's rate. A table has a row for each
client.
"""

from collections.abc import Mapping
from typing import Any

import optax

from fedjax_links.algorithms.amplified_fedavg import (
    amplified_fedavg,
    wait_for_all,
    wait_for_all_senders,
)
from fedjax_links.algorithms.amplified_scaffold import amplified_scaffold
from fedjax_links.algorithms.area import area
from fedjax_links.algorithms.ca2fl import ca2fl
from fedjax_links.algorithms.ca_fed import ca_fed
from fedjax_links.algorithms.cogc import cogc
from fedjax_links.algorithms.colrel import colrel
from fedjax_links.algorithms.debiased_fedavg import debiased_fedavg
from fedjax_links.algorithms.f3ast import f3ast, f3ast_senders
from fedjax_links.algorithms.fedau import fedau
from fedjax_links.algorithms.fedavg import fedavg, fedavg_all
from fedjax_links.algorithms.fedavg_known import fedavg_known
from fedjax_links.algorithms.fedawe import fedawe
from fedjax_links.algorithms.fedbuff import fedbuff
from fedjax_links.algorithms.feddyn import feddyn
from fedjax_links.algorithms.fednova import fednova
from fedjax_links.algorithms.fedopt import fedadagrad, fedadam, fedopt, fedyogi
from fedjax_links.algorithms.fedpbc import fedpbc
from fedjax_links.algorithms.fedstale import fedstale
from fedjax_links.algorithms.fedstale_async import fedstale_async
from fedjax_links.algorithms.fedvarp import fedvarp
from fedjax_links.algorithms.focus import focus
from fedjax_links.algorithms.gossip import gossip
from fedjax_links.algorithms.mifa import mifa
from fedjax_links.algorithms.mimic import mimic
from fedjax_links.algorithms.richardson import richardson
from fedjax_links.algorithms.scaffold import scaffold
from fedjax_links.algorithms.semi_decentralised import (
    s2a,
    s2s,
    semi_decentralised_senders,
)
from fedjax_links.algorithms.uniform_iterate import uniform_iterate
from fedjax_links.core.registry import AlgorithmEntry, Registry, Traffic
from fedjax_links.local_training import proximal_sgd

_E = AlgorithmEntry
_BLOCKS = {'period': 3, 'amplification': 1.5}
_UNLIKE_FEDAVG: dict[str, Any] = {'full_participation_is_fedavg': False}
_MOVES_WITHOUT_UPLOADS: dict[str, Any] = {'empty_round_keeps_server': False}
_WITHOUT_LINKS: dict[str, Any] = {
    **_UNLIKE_FEDAVG,
    **_MOVES_WITHOUT_UPLOADS,
    'uses_links': False,
}
_TWO_MODELS = Traffic(up=2, down=2)  # Up: Delta_i and the change of c_i; down: x and c.
_COMPUTE_OPTION = Traffic(everyone=None)
# Updates are computed before the round in which they arrive.
_LATE = Traffic(awaits_compute=False)
_PEERS = Traffic(everyone=True, peers=1)
_SERVER_ROUNDS = _PEERS._replace(senders=semi_decentralised_senders)

ALGORITHMS: Mapping[str, AlgorithmEntry] = Registry(
    amplified_fedavg=_E(amplified_fedavg, _BLOCKS, **_UNLIKE_FEDAVG),
    amplified_scaffold=_E(
        amplified_scaffold, _BLOCKS, **_UNLIKE_FEDAVG, traffic=_TWO_MODELS
    ),
    area=_E(area),
    ca2fl=_E(ca2fl, {'buffer_size': 3}, traffic=_LATE),
    ca_fed=_E(ca_fed, **_UNLIKE_FEDAVG),
    cogc=_E(cogc, {'tolerance': 1}, traffic=_PEERS),
    colrel=_E(colrel, traffic=_PEERS),
    debiased_fedavg=_E(debiased_fedavg),
    f3ast=_E(f3ast, **_UNLIKE_FEDAVG, traffic=Traffic(senders=f3ast_senders)),
    fedau=_E(fedau),
    fedavg=_E(fedavg, traffic=_COMPUTE_OPTION),
    fedavg_all=_E(fedavg_all),
    fedavg_known=_E(fedavg_known, also_known_as=('upga_pl',)),
    fedawe=_E(fedawe),
    fedbuff=_E(fedbuff, {'buffer_size': 3}, traffic=_LATE),
    feddyn=_E(feddyn, {'alpha': 0.1}, **_UNLIKE_FEDAVG),
    fednova=_E(fednova),
    fedopt=_E(
        fedopt,
        {'server_optimizer': optax.sgd(1.0)},
        also_known_as=('fedadam', 'fedyogi', 'fedadagrad', 'fedavgm'),
    ),
    fedpbc=_E(fedpbc, traffic=Traffic(everyone=None, default='all')),
    fedprox=_E(
        fedavg,
        client_program=proximal_sgd,
        client_example={'mu': 0.1},
        traffic=_COMPUTE_OPTION,
    ),
    fedstale=_E(fedstale, {'stale_weight': 0.5}, **_MOVES_WITHOUT_UPLOADS),
    fedstale_async=_E(
        fedstale_async,
        {'stale_weight': 0.5},
        **_MOVES_WITHOUT_UPLOADS,
        traffic=_LATE,
    ),
    fedvarp=_E(fedvarp),
    focus=_E(focus, **_UNLIKE_FEDAVG, **_MOVES_WITHOUT_UPLOADS),
    gossip=_E(gossip, **_WITHOUT_LINKS, traffic=_PEERS._replace(up=0, down=0)),
    mifa=_E(mifa, **_MOVES_WITHOUT_UPLOADS, also_known_as=('fedlaavg',)),
    mimic=_E(mimic),
    s2a=_E(s2a, traffic=_SERVER_ROUNDS),
    s2s=_E(s2s, traffic=_SERVER_ROUNDS),
    scaffold=_E(scaffold, **_UNLIKE_FEDAVG, traffic=_TWO_MODELS),
    wait_for_all=_E(
        wait_for_all,
        {'period': 3},
        **_WITHOUT_LINKS,
        traffic=Traffic(senders=wait_for_all_senders),
    ),
)

__all__ = [
    'ALGORITHMS',
    'fedadagrad',
    'fedadam',
    'fedyogi',
    'richardson',
    'uniform_iterate',
    *sorted({e.factory.__name__ for e in ALGORITHMS.values()}),
]
