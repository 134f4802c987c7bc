"""The workload of `benchmarks.peers` in other simulators, each in an interpreter that has it.

python -m benchmarks.peer_loops flower problem.npz result.npz

Neither this project nor JAX is imported here, except by FedJAX. ``problem.npz`` holds ``features``
[N, B, D], ``labels`` [N, B], ``weights`` [D, C] and ``bias`` [C] to start from, ``cohorts`` [T, A]
with the clients of every round, ``local_steps``, ``learning_rate`` and ``untimed``, rounds before
the clock starts. ``result.npz`` gets the final ``weights`` and ``bias``, ``seconds`` of the rounds
that were timed, and the ``version``.
"""

import functools
import importlib.metadata
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

Problem = Mapping[str, np.ndarray]
PROBLEM = 'PEER_PROBLEM'
"""Environment variable that tells Flower's processes where the problem is."""


@functools.cache
def load(path: str) -> Problem:
    """The problem, once per process."""
    return dict(np.load(path))


def train(
    weights: np.ndarray, bias: np.ndarray, problem: Problem, client: int
) -> tuple[np.ndarray, np.ndarray]:
    """Local steps of softmax regression on one client's full data, in NumPy's float32."""
    features, labels = problem['features'][client], problem['labels'][client]
    targets = np.eye(len(bias), dtype=np.float32)[labels]
    rate = np.float32(problem['learning_rate'])
    for _ in range(int(problem['local_steps'])):
        logits = features @ weights + bias
        shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
        slope = (shifted / shifted.sum(axis=1, keepdims=True) - targets) / np.float32(len(labels))
        weights = weights - rate * (features.T @ slope)
        bias = bias - rate * slope.sum(axis=0)
    return weights, bias


def client_round(message: Any, context: Any) -> Any:
    """What a Flower client does with a message: it trains as the client that the message names."""
    from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict

    problem, client = load(os.environ[PROBLEM]), int(message.content['config']['client'])
    model = train(*message.content['arrays'].to_numpy_ndarrays(), problem, client)
    content = {
        'arrays': ArrayRecord(list(model)),
        'metrics': MetricRecord({'num-examples': problem['labels'].shape[1]}),
    }
    return Message(RecordDict(content), reply_to=message)


def flower(problem: Problem) -> tuple[list[np.ndarray], float]:
    """Flower's simulation engine on Ray, an actor per core, with clients in NumPy."""
    from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp import ServerApp
    from flwr.serverapp.strategy import FedAvg
    from flwr.simulation import run_simulation

    stamps: list[float] = []
    results: list[Any] = []
    num_clients = len(problem['features'])

    class OnSchedule(FedAvg):
        """FedAvg of the scheduled clients; any nodes do their work."""

        def configure_train(self, server_round: int, arrays: Any, config: Any, grid: Any) -> Any:
            cohort = problem['cohorts'][server_round - 1]
            nodes = sorted(grid.get_node_ids())[: len(cohort)]
            for node, client in zip(nodes, cohort, strict=True):
                own = {'arrays': arrays, 'config': ConfigRecord({'client': int(client)})}
                yield Message(RecordDict(own), dst_node_id=node, message_type='train')

        def aggregate_train(self, server_round: int, replies: Any) -> Any:
            found = super().aggregate_train(server_round, replies)
            stamps.append(time.perf_counter())
            return found

    server, client = ServerApp(), ClientApp()
    client.train()(client_round)

    @server.main()
    def serve(grid: Any, context: Any) -> None:
        while len(list(grid.get_node_ids())) < num_clients:
            time.sleep(0.1)
        start = ArrayRecord([problem['weights'], problem['bias']])
        strategy = OnSchedule(fraction_evaluate=0.0)
        rounds = len(problem['cohorts'])
        results.append(strategy.start(grid, initial_arrays=start, num_rounds=rounds))

    run_simulation(
        server_app=server,
        client_app=client,
        num_supernodes=num_clients,
        backend_config={'client_resources': {'num_cpus': 1, 'num_gpus': 0.0}},
    )
    model = results[0].arrays.to_numpy_ndarrays()
    return model, stamps[-1] - stamps[int(problem['untimed']) - 1]


def fedjax(problem: Problem) -> tuple[list[np.ndarray], float]:
    """FedJAX's FedAvg, with its default backend."""
    import fedjax as peer
    import jax
    import jax.numpy as jnp
    from fedjax.algorithms import fed_avg

    def loss(params: Any, batch: Any, rng: Any) -> Any:
        log_probs = jax.nn.log_softmax(batch['x'] @ params['weights'] + params['bias'])
        return -jnp.mean(jnp.take_along_axis(log_probs, batch['y'][:, None], axis=1))

    size = problem['labels'].shape[1]
    algorithm = fed_avg.federated_averaging(
        jax.grad(loss),
        peer.optimizers.sgd(float(problem['learning_rate'])),
        peer.optimizers.sgd(1.0),
        peer.ShuffleRepeatBatchHParams(
            batch_size=size, num_epochs=None, num_steps=int(problem['local_steps'])
        ),
    )
    clients = [
        peer.ClientDataset({'x': x, 'y': y})
        for x, y in zip(problem['features'], problem['labels'], strict=True)
    ]
    state = algorithm.init({name: jnp.asarray(problem[name]) for name in ('weights', 'bias')})
    key, begin = jax.random.PRNGKey(0), 0.0
    for t, cohort in enumerate(problem['cohorts']):
        if t == int(problem['untimed']):
            jax.block_until_ready(state.params)
            begin = time.perf_counter()
        state, _ = algorithm.apply(state, [(int(i), clients[i], key) for i in cohort])
    jax.block_until_ready(state.params)
    seconds = time.perf_counter() - begin
    return [np.asarray(state.params[name]) for name in ('weights', 'bias')], seconds


def interpreter(name: str) -> str:
    """The Python that has a peer."""
    return os.environ.get(f'PEER_PYTHON_{name.upper()}', sys.executable)


def imports(python: str, package: str) -> bool:
    """Whether a package is installed for an interpreter."""
    code = f'import importlib.util as u, sys; sys.exit(u.find_spec({package!r}) is None)'
    return subprocess.run([python, '-c', code], cwd=tempfile.gettempdir()).returncode == 0


PEERS = {'flower': (flower, 'flwr'), 'fedjax': (fedjax, 'fedjax')}


def main() -> None:
    """Runs one peer."""
    name, source, target = sys.argv[1:]
    os.environ[PROBLEM] = source
    run, package = PEERS[name]
    (weights, bias), seconds = run(load(source))
    version = importlib.metadata.version(package)
    np.savez(target, weights=weights, bias=bias, seconds=seconds, version=version)


if __name__ == '__main__':
    from benchmarks import peer_loops  # so that other processes find its functions by name

    peer_loops.main()
