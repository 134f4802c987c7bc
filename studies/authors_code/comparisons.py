"""Compares rounds of our algorithms with those of their code: `COMPARISONS`, by name."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import fedjax_links as fl
from fedjax_links.base import Algorithm
from fedjax_links.papers.xiang2024 import released
from studies.authors_code import federation, others, standing
from studies.authors_code.federation import NUM_CLIENTS, Row, program, row
from studies.authors_code.others import PROBS, ROUNDS


def _clients(module: Any, *extra: Any) -> None:
    """Hands over who owns what: ``(rows, probabilities, ...)``."""
    _, rows = standing.examples()
    module.data_participation_each_node = lambda *_: (rows, PROBS, *extra)


def fedpbc(folder: Path) -> Iterator[Row]:
    """Compares with FedPBC's repository: its algorithms over its samplers, static and varying."""
    settings = {
        'total_rounds': 5 * ROUNDS,
        'eval_freq': 5,
        'seeds': [3],
        'num_clients': NUM_CLIENTS,
        'lr_local_init': 0.3,
        'lr_global': 1.3,
        'device': 'cpu',
        'prefix': '',
        'dirichlet_alpha': 0.1,
        'prob_lower': 0.02,
        'sigma': 10.0,
        'fluctuate': 1,
    }
    client = program(0.3, 5, 'inverse_sqrt')
    entry = fl.ALGORITHMS
    eta = {'server_lr': 1.3}
    algorithms: dict[str, tuple[str, Algorithm, str]] = {
        'fedpbc': ('FedPBC', entry['fedpbc'](client, **eta), 'client_mean'),
        'fedavg': ('FedAvg', entry['fedavg'](client, **eta), 'server'),
        'fedall': ('FedAvg-all', entry['fedavg_all'](client, **eta), 'server'),
        'fedau': ('FedAU, K = 50', entry['fedau'](client, **eta), 'server'),
        'mifa': ('MIFA', entry['mifa'](client, **eta), 'server'),
        'f3ast': ('F3AST, |A| below 10', entry['f3ast'](client, **eta), 'server'),
        'fedknown': ('FedAvg known', entry['fedavg_known'](client, **eta), 'server'),
    }
    last = released.fedavg_known_last_client(client, **eta)
    links = [('bernoulli', 0), ('bernoulli', 1), ('markov-0.05', 0), ('cyclic-100', 0)]
    for name, (shown, algorithm, model) in algorithms.items():
        pairs = links if name in ('fedpbc', 'fedavg') else links[:2]
        for unreliable, varying in pairs:
            seen: list[Any] = []

            def prepare(module: Any, seen: list[Any] = seen) -> None:
                _clients(module, None, federation.NUM_CLASSES)
                seen.append(standing.watch_masks(module.WorkerSampler))

            options = {
                'algorithm': name,
                'unreliable': unreliable,
                'time_varying': varying,
            }
            path = standing.run(folder, {**settings, **options}, prepare).path()
            masks, probs = standing.as_masks(seen[0])
            where = f'{unreliable}, {"varying" if varying else "static"}'
            yield row(
                name,
                shown,
                where,
                path,
                federation.ours(algorithm, masks, probs, model),
            )
            if name == 'fedknown':
                path_of_last = federation.ours(last, masks, probs, model)
                yield row(
                    name,
                    'FedAvg known, `fedavg_known_last_client`',
                    where,
                    path,
                    path_of_last,
                )


def fedau(folder: Path) -> Iterator[Row]:
    """Compares with FedAU's repository: FedAU and the algorithms beside it."""
    lib = standing.torch()
    settings = {
        'device': lib.device('cpu'),
        'results_file_prefix': '',
        'save_agg_weight': False,
        'simulations': [3],
        'n_nodes': NUM_CLIENTS,
        'step_size_local_config': 0.2,
        'step_size_global': 1.3,
        'load_model_file': None,
        'k_value': 7,
        'lr_decay_start_iter': 10**9,
        'lr_decay_interval': 10**9,
        'iters_per_round': 5,
        'min_iters_per_eval': 5,
        'max_iter': 5 * ROUNDS,
        'save_checkpoint': False,
        'save_final_model': False,
        'data_dirichlet_alpha': 0.1,
        'participation_dirichlet_alpha': 0.1,
        'participation_prob_mean': 0.1,
        'participation_prob_min': 0.02,
    }
    client = program(0.2, 5)
    eta = {'server_lr': 1.3}
    algorithms = {
        'adaptive': ('FedAU, K = 7', fl.ALGORITHMS['fedau'](client, cutoff=7, **eta)),
        'average_participating': ('FedAvg', fl.ALGORITHMS['fedavg'](client, **eta)),
        'average_all': ('FedAvg-all', fl.ALGORITHMS['fedavg_all'](client, **eta)),
        'known_prob': ('FedAvg known', fl.ALGORITHMS['fedavg_known'](client, **eta)),
        'fedvarp': ('FedVARP', fl.ALGORITHMS['fedvarp'](client, **eta)),
        'mifa': ('MIFA', fl.ALGORITHMS['mifa'](client, **eta)),
    }
    for name, (shown, algorithm) in algorithms.items():
        patterns = ['bernoulli']
        if name == 'adaptive':
            patterns += ['markov-0.05', 'cyclic-20']
        for links in patterns:
            seen: list[Any] = []

            def prepare(module: Any, seen: list[Any] = seen) -> None:
                _clients(module)
                seen.append(standing.watch_masks(module.WorkerSampler))

            options = {'weighting_method': name, 'participation_method': links}
            path = standing.run(folder, {**settings, **options}, prepare).path()
            yield row(
                name,
                shown,
                links,
                path,
                federation.ours(algorithm, *standing.as_masks(seen[0])),
            )


def fedawe(folder: Path) -> Iterator[Row]:
    """Compares with FedAWE's repository, whose innovation is clipped at 0.5."""
    settings = {
        'total_rounds': ROUNDS,
        'eval_freq': 1,
        'seeds': [3],
        'num_clients': NUM_CLIENTS,
        'lr_local_init': 0.3,
        'lr_global': 1.3,
        'device': 'cpu',
        'prefix': '',
        'dirichlet_alpha': 0.1,
        'sigma': 10.0,
        'fluctuate': 1,
    }
    client = program(0.3, 10, 'inverse_sqrt')
    eta = {'server_lr': 1.3}
    clip = standing.function_of(folder / 'dataset' / 'dataset.py', 'clip')
    clipped = fl.ALGORITHMS['fedawe'](client, innovation_clip=0.5, **eta)
    algorithms = {
        'fedawe': ('FedAWE, clip 0.5', clipped),
        'fedavg': ('FedAvg', fl.ALGORITHMS['fedavg'](client, **eta)),
        'fedau': ('FedAU, K = 50', fl.ALGORITHMS['fedau'](client, **eta)),
        'mifa': ('MIFA', fl.ALGORITHMS['mifa'](client, **eta)),
    }
    for name, (shown, algorithm) in algorithms.items():
        seen: list[Any] = []

        def prepare(module: Any, seen: list[Any] = seen) -> None:
            _clients(module)
            module.data_participation_each_node_per_round = lambda *_: PROBS
            seen.append(standing.watch_masks(module.ClientSampler))

        run_result = standing.run(
            folder, {**settings, 'algorithm': name}, prepare, data={'clip': clip}
        )
        masks, probs = standing.as_masks(seen[0])
        path = run_result.path(1 if name == 'fedawe' else 0)
        yield row(
            name, shown, 'Bernoulli', path, federation.ours(algorithm, masks, probs)
        )
        if name == 'fedawe':
            mean_path = run_result.path(0).mean(axis=1)
            our_path = federation.ours(algorithm, masks, probs, 'client_mean')
            shown = 'FedAWE, mean of the clients'
            yield row(name, shown, 'Bernoulli', mean_path, our_path)


def amplified(folder: Path) -> Iterator[Row]:
    """Compares with Wang and Ji's repository: amplified FedAvg."""
    lib = standing.torch()
    settings = {
        'device': lib.device('cpu'),
        'results_file': '',
        'simulations': [3],
        'n_nodes': NUM_CLIENTS,
        'n_nodes_in_each_round': 3,
        'use_permute': False,
        'use_full_batch': False,
        'mixing_ratio': 0.05,
        'step_size_local': 0.2,
        'step_size_warmup': 0.4,
        'load_model_file': None,
        'iters_per_round': 5,
        'min_iters_per_eval': 5,
        'max_iter': 5 * ROUNDS,
        'save_model_file': 'model',
        'save_checkpoint': False,
        'iters_checkpoint': 10**9,
        'wait_for_all': False,
        'periodic_availability': False,
        'active_rounds': 2,
        'inactive_rounds': 8,
        'iters_warmup': 0,
    }
    cases = [(10, 3.0, 0), (7, 2.0, 0), (10, 3.0, 4)]
    for period, factor, warmup in cases:
        seen: list[np.ndarray] = []

        def prepare(module: Any, seen: list[np.ndarray] = seen) -> None:
            _, rows = standing.examples()
            module.split_data = lambda *_: rows
            sample = module.NodeSampler.sample

            def noted(self: Any, *arguments: Any) -> Any:
                chosen = sample(self, *arguments)
                seen.append(np.isin(np.arange(NUM_CLIENTS), chosen))
                return chosen

            module.NodeSampler.sample = noted

        options = {
            'p_value': period,
            'step_size_global': factor,
            'iters_warmup': 5 * warmup,
            'use_global_update': True,
        }
        path = standing.run(folder, {**settings, **options}, prepare).path()
        client = program(0.2, 5)
        if warmup:
            schedule = fl.learning_rates.warmup(0.2, initial=0.4, rounds=warmup)
            client = fl.local_training.local_sgd(schedule, local_steps=5)
        algorithm = fl.ALGORITHMS['amplified_fedavg'](
            client, period=period, amplification=factor, start_round=warmup
        )
        shown = f'amplified FedAvg, P = {period}, eta = {factor:g}'
        shown += f', warm-up {warmup}' if warmup else ''
        masks = np.array(seen)
        yield row(
            'main.py, -permute 0',
            shown,
            '3 of 8',
            path,
            federation.ours(algorithm, masks),
        )


COMPARISONS: Mapping[str, tuple[Callable[[Path], Iterator[Row]], tuple[str, ...]]] = {
    'fedpbc': (fedpbc, ('varying_pbc.py', 'static_main.py', 'util/util.py')),
    'fedau': (fedau, ('main.py', 'util/util.py', 'model/model.py')),
    'fedawe': (fedawe, ('varying_awe.py', 'util/util.py', 'dataset/dataset.py')),
    'amplified': (amplified, ('main.py', 'util/util.py')),
    'mifa': (others.mifa, ('src/trainers/fdu_no_wait.py', 'src/optimizers/gd.py')),
    'debias': (others.debias, ('debias_fedavg.ipynb',)),
    'flgo': (others.flgo, ('flgo/algorithm/scaffold.py', 'flgo/utils/fmodule.py')),
}
"""By name: the comparison, and files that its checkout must have."""
