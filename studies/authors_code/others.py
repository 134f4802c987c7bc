"""Compares with code that is no loop around ``util`` and ``model``: classes, and a notebook."""

import copy
import importlib
import json
import random
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import fedjax_links as fl
from fedjax_links.papers.sun2025 import released
from studies.authors_code import federation, standing
from studies.authors_code.federation import NUM_CLIENTS, Row, program, row

ROUNDS = 60
PROBS = np.linspace(0.15, 0.85, NUM_CLIENTS)


def mifa(folder: Path) -> Iterator[Row]:
    """Compares with MIFA's repository: the form that does not wait, at ``eta / (t + 1)``."""
    pairs, rows = standing.examples()
    model = standing.network()(0, 0.3).model
    stand_ins = {'src.models.model': {'choose_model': lambda options: model}}
    options = {
        'lr': 0.5,
        'wd': 0.0,
        'gpu': False,
        'batch_size': len(pairs),
        'num_round': ROUNDS,
        'clients_per_round': 1,
        'noprint': True,
        'local_step': 3,
        'seed': 2,
    }
    users = [*range(NUM_CLIENTS)]
    owned = {i: [pairs[k] for k in rows[i]] for i in users}
    dataset = users, [], owned, owned, dict(zip(users, PROBS, strict=True))
    masks: list[np.ndarray] = []
    path: list[np.ndarray] = []
    with standing.standing(folder, stand_ins, roots=('src',)):
        kind = importlib.import_module('src.trainers.fdu_no_wait').FDU_nowait_Trainer
        choose = kind.get_avail_clients
        aggregate = kind.aggregate

        def chosen(self: Any, seed: int) -> Any:
            found = choose(self, seed=seed)
            masks.append(np.isin(users, [client.cid for client in found]))
            return found

        def aggregated(self: Any) -> None:
            aggregate(self)
            path.append(np.array(self.latest_model.tolist()))

        kind.get_avail_clients = chosen
        kind.aggregate = aggregated
        kind(options, dataset, 'results').train()
    algorithm = fl.ALGORITHMS['mifa'](program(0.5, 3, 'inverse'), memory='gradient')
    our_path = federation.ours(algorithm, np.array(masks))
    yield row(
        'FDU_nowait_Trainer',
        "MIFA, memory='gradient'",
        'Bernoulli',
        np.stack(path),
        our_path,
    )


def debias(folder: Path) -> Iterator[Row]:
    """Compares with the notebook of Debiasing FedAvg: groups in turn, a round apart at least."""
    lib = standing.torch()
    (file,) = folder.glob('*.ipynb')
    cells = [''.join(cell['source']) for cell in json.loads(file.read_text())['cells']]
    classes = [
        text for text in cells if text.startswith(('class Client', 'class Server'))
    ]
    pairs, rows = standing.examples()
    groups = np.arange(NUM_CLIENTS) // 2
    for name, option in (('FedAvg', False), ('Debiasing', True)):
        network = standing.network()
        stand_ins = {
            'MNISTModel': lambda _, kind=network: kind(0, 0.1).model,
            'copy': copy,
            'nn': lib.nn,
            'optim': lib.optim,
            'torch': lib,
            'np': np,
            'random': random,
            'test_dataloader': None,
            'print': lambda *_: None,
        }
        for text in classes:
            exec(compile(text, str(file), 'exec'), stand_ins)
        loaders = [
            lib.utils.data.DataLoader(
                [pairs[k] for k in rows[i]], batch_size=len(pairs)
            )
            for i in range(NUM_CLIENTS)
        ]
        clients = [
            stand_ins['Client']((each, each), i) for i, each in enumerate(loaders)
        ]
        server = stand_ins['Server'](
            clients, R=1, M=4, num_epochs=3, is_option1=True, is_option2=option
        )
        path: list[np.ndarray] = []
        masks: list[np.ndarray] = []

        def evaluate(server: Any = server, path: Any = path) -> tuple[int, ...]:
            leaves = [server.server_params[k] for k in ('weight', 'bias')]
            path.append(
                np.concatenate([leaf.numpy().ravel().copy() for leaf in leaves])
            )
            return 0, 0, 0, 0

        average = server.aggregated_parameters

        def averaged(uploads: Any, masks: Any = masks, average: Any = average) -> Any:
            masks.append(np.isin(np.arange(NUM_CLIENTS), [cid for cid, _ in uploads]))
            return average(uploads)

        for client in clients:
            client.evaluate = lambda: (0, 0, 0, 0)
        clients[0].evaluate = evaluate
        server.aggregated_parameters = averaged
        random.seed(4)
        rate = 0.002 if option else 0.2
        server.federated_learning(num_rounds=ROUNDS, lr=rate)
        client = program(rate, 3)
        if option:
            algorithm = released.debiased_fedavg_horizon(
                client, num_rounds=ROUNDS, groups=groups
            )
            shown = 'Debiasing FedAvg, `debiased_fedavg_horizon`'
        else:
            algorithm = fl.ALGORITHMS['fedavg'](client)
            shown = 'FedAvg'
        our_path = federation.ours(algorithm, np.array(masks))
        yield row(name, shown, 'groups, R = 1', np.stack(path), our_path)


def flgo(folder: Path) -> Iterator[Row]:
    """Compares with FLGo: SCAFFOLD, FedDyn, FedNova, and FedAvg by its weighting options."""
    lib = standing.torch()
    root = folder / 'flgo'
    masks = np.random.default_rng(9).random((ROUNDS, NUM_CLIENTS)) < PROBS
    masks[20:23] = False
    clock = {'with_clock': lambda function: function}
    stand_ins: dict[str, Any] = {
        'flgo.benchmark.base': {'BasicTaskCalculator': object},
        'flgo.simulator.base': clock,
    }
    with standing.standing(folder, stand_ins, roots=('flgo',)):
        _packages(root)
        fmodule = importlib.import_module('flgo.utils.fmodule')

        class Net(fmodule.FModule):  # type: ignore[name-defined, misc]
            def __init__(self) -> None:
                super().__init__()
                self.layer = standing.network()(0, 0.1).model

            def forward(self, features: Any) -> Any:
                return self.layer(features)

        cases = [
            (
                'scaffold',
                '',
                'SCAFFOLD',
                fl.ALGORITHMS['scaffold'](program(0.1, 4), server_lr=1.3),
            ),
            (
                'feddyn',
                '',
                'FedDyn',
                fl.ALGORITHMS['feddyn'](program(0.1, 4), alpha=0.3),
            ),
            *_weighted('fednova', client_steps=_steps()),
            *_weighted('fedavg'),
            (
                'fedavg',
                'weighted_com',
                "FedAvg-all, weights='examples'",
                _all_by_examples(),
            ),
        ]
        for name, option, shown, algorithm in cases:
            module = importlib.import_module(
                f'flgo.algorithm.{"fedbase" if name == "fedavg" else name}'
            )
            path = _flgo_path(lib, module, name, option, Net, masks)
            text = f'{name}, {option}' if option else name
            yield row(
                text,
                shown,
                'Bernoulli, 3 empty',
                path,
                federation.ours(algorithm, masks),
            )


def _packages(root: Path) -> None:
    """Makes FLGo's packages of its folders, without what their ``__init__`` imports."""
    for name in (
        'flgo',
        'flgo.utils',
        'flgo.algorithm',
        'flgo.benchmark',
        'flgo.simulator',
    ):
        package = sys.modules.setdefault(name, types.ModuleType(name))
        package.__path__ = [str(root / name.partition('.')[2])]
    for name, module in list(sys.modules.items()):
        parent, _, last = name.rpartition('.')
        if name.startswith('flgo.'):
            setattr(sys.modules[parent], last, module)


def _steps() -> np.ndarray:
    return np.array([1, 4, 2, 3, 1, 2, 4, 3])


def _weighted(name: str, **options: Any) -> list[tuple[str, str, str, Any]]:
    """Returns an algorithm with both ways to weigh, by FLGo's names of them."""
    make = fl.ALGORITHMS[name]
    shown = {'fednova': 'FedNova', 'fedavg': 'FedAvg'}[name]
    client = program(0.1, 4, **options)
    return [
        (name, 'uniform', shown, make(client)),
        (
            name,
            'other',
            f"{shown}, weights='examples'",
            make(client, weights='examples'),
        ),
    ]


def _all_by_examples() -> Any:
    return fl.ALGORITHMS['fedavg_all'](program(0.1, 4), weights='examples')


def _flgo_path(
    lib: Any, module: Any, name: str, option: str, net: Any, masks: np.ndarray
) -> np.ndarray:
    """Returns what FLGo's classes make of given masks, float64[T, D]."""
    pairs, rows = standing.examples()
    kinds = ('BasicServer', 'BasicClient') if name == 'fedavg' else ('Server', 'Client')
    server = object.__new__(getattr(module, kinds[0]))
    clients = []
    server.model = net()
    server.num_clients = NUM_CLIENTS
    server.aggregation_option = option
    server.eta = 1.3
    server.alpha = 0.3
    server.cg = server.h = server.model.zeros_like()

    class Calculator:
        def get_optimizer(self, model: Any, lr: float, **_: Any) -> Any:
            return lib.optim.SGD(model.parameters(), lr=lr)

        def compute_loss(self, model: Any, batch: Any) -> Any:
            return {'loss': lib.nn.functional.cross_entropy(model(batch[0]), batch[1])}

    for i in range(NUM_CLIENTS):
        client = object.__new__(getattr(module, kinds[1]))
        features = lib.stack([pairs[k][0] for k in rows[i]])
        labels = lib.tensor([pairs[k][1] for k in rows[i]])
        client.get_batch_data = lambda batch=(features, labels): batch
        client.device = 'cpu'
        client.calculator = Calculator()
        client.datavol = len(rows[i])
        client.learning_rate = 0.1
        client.weight_decay = 0
        client.momentum = 0
        client.num_steps = int(_steps()[i]) if name == 'fednova' else 4
        client.clip_grad = 0
        client.c = None
        client.gradL = None
        client.alpha = 0.3
        clients.append(client)
    server.clients = clients
    path = []
    for active in masks:
        server.received_clients = np.flatnonzero(active).tolist()
        if server.received_clients:
            _flgo_round(server, name)
        leaves = [server.model.layer.weight, server.model.layer.bias]
        path.append(np.concatenate([np.ravel(leaf.tolist()) for leaf in leaves]))
    return np.stack(path)


def _flgo_round(server: Any, name: str) -> None:
    """Runs a round as FLGo's own `iterate` does, without what sends messages."""
    chosen = [server.clients[i] for i in server.received_clients]
    if name == 'scaffold':
        sent = [
            client.train(copy.deepcopy(server.model), server.cg) for client in chosen
        ]
        server.model, server.cg = server.aggregate(*map(list, zip(*sent, strict=True)))
        return
    models = [copy.deepcopy(server.model) for _ in chosen]
    for client, model in zip(chosen, models, strict=True):
        client.train(model)
    if name != 'fednova':
        server.model = server.aggregate(models)
        return
    taus = [client.num_steps for client in chosen]
    steps = [
        (model - server.model) / tau for model, tau in zip(models, taus, strict=True)
    ]
    total = sum(client.datavol for client in server.clients)
    server.model = server.aggregate(steps, taus, p=[c.datavol / total for c in chosen])
