"""Does the same work in other programs, each in an interpreter that has it (`interpreters`).

python -m benchmarks.peer_loops fedjax

does a job for every line that it reads, ``problem.npz<TAB>result.npz``, and answers with the
seconds that it took, what comes before the clock left out. Neither this project nor JAX is imported
here, except by FedJAX. PyTorch's jobs are those of `benchmarks.torch_loop`; for the others,
``problem.npz`` holds ``features`` [N, B, D], ``labels`` [N, B], ``weights`` [D, C] and ``bias`` [C]
to start from, ``cohorts`` [T, A] with the clients of every round, ``local_steps``,
``learning_rate`` and ``untimed``, rounds before the clock starts. ``result.npz`` gets the final
``weights`` and ``bias``, and the ``version``.
"""

import functools
import importlib.metadata
import os
import sys
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks import torch_loop

Problem = Mapping[str, np.ndarray]
Result = tuple[Mapping[str, np.ndarray], float]
PROBLEM = 'PEER_PROBLEM'
"""Environment variable that tells Flower's processes where the problem is."""


@functools.cache
def load(path: str) -> Problem:
    """Loads the problem, once per process."""
    return dict(np.load(path))


def train(
    weights: np.ndarray, bias: np.ndarray, problem: Problem, client: int
) -> tuple[np.ndarray, np.ndarray]:
    """Takes local steps of softmax regression on one client's full data, in NumPy's float32."""
    features = problem['features'][client]
    labels = problem['labels'][client]
    targets = np.eye(len(bias), dtype=np.float32)[labels]
    rate = np.float32(problem['learning_rate'])
    for _ in range(int(problem['local_steps'])):
        logits = features @ weights + bias
        shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
        slope = (shifted / shifted.sum(axis=1, keepdims=True) - targets) / np.float32(
            len(labels)
        )
        weights = weights - rate * (features.T @ slope)
        bias = bias - rate * slope.sum(axis=0)
    return weights, bias


def client_round(message: Any, context: Any) -> Any:
    """Trains as the client that a message names: what a Flower client does with it."""
    from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict

    problem = load(os.environ[PROBLEM])
    client = int(message.content['config']['client'])
    model = train(*message.content['arrays'].to_numpy_ndarrays(), problem, client)
    content = {
        'arrays': ArrayRecord(list(model)),
        'metrics': MetricRecord({'num-examples': problem['labels'].shape[1]}),
    }
    return Message(RecordDict(content), reply_to=message)


def flower(source: str) -> Result:
    """Runs Flower's simulation engine on Ray, an actor per core, with clients in NumPy."""
    from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp import ServerApp
    from flwr.serverapp.strategy import FedAvg
    from flwr.simulation import run_simulation

    problem = load(source)
    stamps: list[float] = []
    results: list[Any] = []
    num_clients = len(problem['features'])

    class OnSchedule(FedAvg):
        """Averages the scheduled clients; any nodes do their work."""

        def configure_train(
            self, server_round: int, arrays: Any, config: Any, grid: Any
        ) -> Any:
            cohort = problem['cohorts'][server_round - 1]
            nodes = sorted(grid.get_node_ids())[: len(cohort)]
            for node, client in zip(nodes, cohort, strict=True):
                content = {
                    'arrays': arrays,
                    'config': ConfigRecord({'client': int(client)}),
                }
                yield Message(
                    RecordDict(content), dst_node_id=node, message_type='train'
                )

        def aggregate_train(self, server_round: int, replies: Any) -> Any:
            aggregate = super().aggregate_train(server_round, replies)
            stamps.append(time.perf_counter())
            return aggregate

    server = ServerApp()
    client = ClientApp()
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
    weights, bias = results[0].arrays.to_numpy_ndarrays()
    seconds = stamps[-1] - stamps[int(problem['untimed']) - 1]
    return {'weights': weights, 'bias': bias}, seconds


def fedjax(source: str) -> Result:
    """Runs FedJAX's FedAvg with its default backend."""
    import fedjax as peer
    import jax
    import jax.numpy as jnp
    from fedjax.algorithms import fed_avg

    problem = load(source)

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
    state = algorithm.init(
        {name: jnp.asarray(problem[name]) for name in ('weights', 'bias')}
    )
    key = jax.random.PRNGKey(0)
    begin = 0.0
    for t, cohort in enumerate(problem['cohorts']):
        if t == int(problem['untimed']):
            jax.block_until_ready(state.params)
            begin = time.perf_counter()
        state, _ = algorithm.apply(state, [(int(i), clients[i], key) for i in cohort])
    jax.block_until_ready(state.params)
    seconds = time.perf_counter() - begin
    return {name: np.asarray(array) for name, array in state.params.items()}, seconds


def pfl_research(source: str) -> Result:
    """Runs pfl-research's federated averaging, simulated, with a model in PyTorch."""
    import torch
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.callback.base import TrainingProcessCallback
    from pfl.data.dataset import Dataset
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.hyperparam.base import NNTrainHyperParams
    from pfl.metrics import Metrics
    from pfl.model.pytorch import PyTorchModel

    problem = load(source)

    class Linear(torch.nn.Module):
        """Defines softmax regression, with what pfl asks of a model."""

        def __init__(self) -> None:
            super().__init__()
            self.weights = torch.nn.Parameter(
                torch.from_numpy(problem['weights'].copy())
            )
            self.bias = torch.nn.Parameter(torch.from_numpy(problem['bias'].copy()))

        def loss(self, features: Any, labels: Any) -> Any:
            logits = features @ self.weights + self.bias
            return torch.nn.functional.cross_entropy(logits, labels)

        def metrics(self, features: Any, labels: Any) -> dict[str, Any]:
            return {}

    class Clock(TrainingProcessCallback):
        """Records when each round was done."""

        def after_central_iteration(self, metrics: Any, model: Any, **_: Any) -> Any:
            stamps.append(time.perf_counter())
            return False, Metrics()

    stamps: list[float] = []
    clients = [
        Dataset(
            (torch.from_numpy(x), torch.from_numpy(y.astype(np.int64))), user_id=str(i)
        )
        for i, (x, y) in enumerate(
            zip(problem['features'], problem['labels'], strict=True)
        )
    ]
    scheduled = iter(problem['cohorts'].ravel().tolist())
    data = FederatedDataset(lambda i: clients[i], lambda: next(scheduled))
    module = Linear()
    model = PyTorchModel(
        module, torch.optim.SGD, torch.optim.SGD(module.parameters(), lr=1.0)
    )
    num_rounds, cohort_size = problem['cohorts'].shape
    # Clients are evaluated in the first round alone, which is not timed.
    schedule = NNAlgorithmParams(num_rounds, num_rounds + 1, cohort_size, None)
    training = NNTrainHyperParams(
        local_batch_size=problem['labels'].shape[1],
        local_num_epochs=int(problem['local_steps']),
        local_learning_rate=float(problem['learning_rate']),
    )
    backend = SimulatedBackend(training_data=data, val_data=None)
    FederatedAveraging().run(schedule, backend, model, training, callbacks=[Clock()])
    parameters = {name: p.detach().numpy() for name, p in module.named_parameters()}
    return parameters, stamps[-1] - stamps[int(problem['untimed']) - 1]


PEERS = {
    'flower': (flower, 'flwr'),
    'fedjax': (fedjax, 'fedjax'),
    'pfl_research': (pfl_research, 'pfl'),
    'torch': (torch_loop.run, 'torch'),
}
"""By name, what does a job, and the package that it needs."""


def main() -> None:
    """Does one peer's jobs, as long as there are lines."""
    run, package = PEERS[sys.argv[1]]
    version = importlib.metadata.version(package)
    replies = os.fdopen(os.dup(1), 'w')
    os.dup2(2, 1)  # what else is printed goes where errors go
    for line in iter(sys.stdin.readline, ''):
        source, target = line.rstrip('\n').split('\t')
        os.environ[PROBLEM] = source
        outputs, seconds = run(source)
        np.savez(target, version=version, **outputs)
        print(seconds, file=replies, flush=True)


if __name__ == '__main__':
    # Imported, so that other processes find its functions by name.
    from benchmarks import peer_loops

    peer_loops.main()
