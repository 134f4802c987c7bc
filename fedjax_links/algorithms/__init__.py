"""Federated algorithms: each one a pure ``round_step``, named in `ALGORITHMS`."""

from collections.abc import Mapping
from typing import Any

import optax

from fedjax_links.algorithms.amplified_fedavg import (
    all_at_times,
    amplified_fedavg,
    wait_for_all,
)
from fedjax_links.algorithms.amplified_scaffold import amplified_scaffold
from fedjax_links.algorithms.area import area
from fedjax_links.algorithms.cogc import cogc
from fedjax_links.algorithms.colrel import colrel
from fedjax_links.algorithms.debiased_fedavg import debiased_fedavg
from fedjax_links.algorithms.f3ast import budgeted, f3ast
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
from fedjax_links.algorithms.fedvarp import fedvarp
from fedjax_links.algorithms.focus import focus
from fedjax_links.algorithms.gossip import gossip
from fedjax_links.algorithms.mifa import mifa
from fedjax_links.algorithms.mimic import mimic
from fedjax_links.algorithms.richardson import richardson
from fedjax_links.algorithms.scaffold import scaffold
from fedjax_links.algorithms.semi_decentralised import in_server_rounds, s2a, s2s
from fedjax_links.core.registry import AlgorithmEntry, Registry, Traffic
from fedjax_links.local_training import proximal_sgd

_E = AlgorithmEntry
_BLOCKS = {'period': 3, 'amplification': 1.5}
_OWN: Any = {'full_participation_is_fedavg': False}
_MOVES: Any = {'empty_round_keeps_server': False}
_WITHOUT_LINKS: Any = {**_OWN, **_MOVES, 'uses_links': False}
_TWO_MODELS = Traffic(up=2, down=2)  # Delta_i, and what changes c_i; x and c
_ASKED = Traffic(everyone=None)
_PEERS = Traffic(everyone=True, peers=1)
_NOW_AND_THEN = _PEERS._replace(asked=in_server_rounds)

ALGORITHMS: Mapping[str, AlgorithmEntry] = Registry(
    amplified_fedavg=_E(amplified_fedavg, _BLOCKS, **_OWN),
    amplified_scaffold=_E(amplified_scaffold, _BLOCKS, **_OWN, traffic=_TWO_MODELS),
    area=_E(area),
    cogc=_E(cogc, {'tolerance': 1}, traffic=_PEERS),
    colrel=_E(colrel, traffic=_PEERS),
    debiased_fedavg=_E(debiased_fedavg),
    f3ast=_E(f3ast, **_OWN, traffic=Traffic(asked=budgeted)),
    fedau=_E(fedau),
    fedavg=_E(fedavg, traffic=_ASKED),
    fedavg_all=_E(fedavg_all),
    fedavg_known=_E(fedavg_known),
    fedawe=_E(fedawe),
    # Of steps made since the last arrival:
    fedbuff=_E(fedbuff, {'buffer_size': 3}, traffic=Traffic(awaits_compute=False)),
    feddyn=_E(feddyn, {'alpha': 0.1}, **_OWN),
    fednova=_E(fednova),
    fedopt=_E(fedopt, {'server_optimizer': optax.sgd(1.0)}),
    fedpbc=_E(fedpbc, traffic=Traffic(everyone=None, default='all')),
    fedprox=_E(
        fedavg, client_program=proximal_sgd, client_example={'mu': 0.1}, traffic=_ASKED
    ),
    fedstale=_E(fedstale, {'stale_weight': 0.5}, **_MOVES),
    fedvarp=_E(fedvarp),
    focus=_E(focus, **_OWN, **_MOVES),
    gossip=_E(gossip, **_WITHOUT_LINKS, traffic=_PEERS._replace(up=0, down=0)),
    mifa=_E(mifa, **_MOVES),
    mimic=_E(mimic),
    s2a=_E(s2a, traffic=_NOW_AND_THEN),
    s2s=_E(s2s, traffic=_NOW_AND_THEN),
    scaffold=_E(scaffold, **_OWN, traffic=_TWO_MODELS),
    wait_for_all=_E(
        wait_for_all,
        {'period': 3},
        **_WITHOUT_LINKS,
        traffic=Traffic(asked=all_at_times),
    ),
)

__all__ = [
    'ALGORITHMS',
    'fedadagrad',
    'fedadam',
    'fedyogi',
    'richardson',
    *sorted({e.factory.__name__ for e in ALGORITHMS.values()}),
]
