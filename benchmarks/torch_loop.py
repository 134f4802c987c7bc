"""Runs federated rounds as a straightforward PyTorch loop: one client after the other.

Network, initial weights, data, links and minibatches are given in a file, as
`benchmarks.against_torch` writes it, so that what comes out can be compared with the engine's.
Loops over clients and steps are Python's; layers are PyTorch's, channels first, as in the papers'
released code. Runs in an interpreter with PyTorch and NumPy (`benchmarks.peer_loops`).
"""

import copy
import functools
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

State = Mapping[str, Any]
Params = Mapping[str, np.ndarray]
PREFIX = 'params/'
_NORM = 'BatchNorm'  # The layer after a dense layer of the same number.


def run(source: str) -> tuple[dict[str, np.ndarray], float]:
    """Runs all rounds of a job.

    Args:
      source: a file with ``features`` [E, H, W, C], ``labels`` [E], ``params/Conv_0/kernel`` and
        so on as flax has them, ``masks`` bool[T, N], ``rows`` int[T, N, steps, B], the algorithm's
        ``name``, ``period`` and ``amplification``, ``learning_rate``, and whether ``channels_last``
        and ``compiled``. Features and parameters are both float32, or both float64, and the rounds
        are computed in that.

    Returns:
      The final parameters under their names, ``losses`` float[T] and the number of ``threads``; and
      the seconds of the rounds, without those of reading the file.
    """
    loop = _loop(source)
    begin = time.perf_counter()
    params, losses = loop.run()
    seconds = time.perf_counter() - begin
    outputs = {PREFIX + name: array for name, array in params.items()}
    outputs['losses'] = losses
    outputs['threads'] = np.array(loop.threads)
    return outputs, seconds


def layers(params: Params, kind: str) -> list[str]:
    """Lists the layers ``Conv_0, Conv_1, ...`` or ``Dense_0, ...`` in their order."""
    count = sum(
        name.startswith(f'{kind}_') and name.endswith('/kernel') for name in params
    )
    return [f'{kind}_{i}' for i in range(count)]


def network(params: Params) -> Any:
    """Makes an ``nn.Module`` on images [B, C, H, W] with the layers of flax parameters.

    Convolutions keep the image's size and are followed by ReLU and pooling, dense layers but the
    last by normalisation over the batch, if the parameters have it, and ReLU. The weights are
    PyTorch's own.
    """
    from torch import nn

    modules: list[Any] = []
    for name in layers(params, 'Conv'):
        side, _, inputs, outputs = params[f'{name}/kernel'].shape
        modules += [
            nn.Conv2d(inputs, outputs, side, padding=side // 2),
            nn.ReLU(),
            nn.MaxPool2d(2),
        ]
    modules += [nn.Flatten()]
    for i, name in enumerate(layers(params, 'Dense')):
        inputs, outputs = params[f'{name}/kernel'].shape
        modules.append(nn.Linear(inputs, outputs))
        if f'{_NORM}_{i}/scale' in params:
            modules.append(nn.BatchNorm1d(outputs, track_running_stats=False))
        modules.append(nn.ReLU())
    modules.pop()  # No ReLU follows the last layer.
    return nn.Sequential(*modules)


def state_from_params(params: Params, model: Any) -> State:
    """Makes the state dict of `network` with these parameters."""
    import torch

    arrays = []
    channels = 1
    for name in layers(params, 'Conv'):
        kernel = params[f'{name}/kernel']
        channels = kernel.shape[-1]
        arrays += [kernel.transpose(3, 2, 0, 1), params[f'{name}/bias']]
    for i, name in enumerate(layers(params, 'Dense')):
        kernel = params[f'{name}/kernel']
        if i == 0:
            # Flax flattens by pixel, then channel; PyTorch by channel, then pixel.
            split = kernel.reshape(-1, channels, kernel.shape[1])
            kernel = split.swapaxes(0, 1).reshape(kernel.shape)
        arrays += [kernel.T, params[f'{name}/bias']]
        if f'{_NORM}_{i}/scale' in params:
            arrays += [params[f'{_NORM}_{i}/scale'], params[f'{_NORM}_{i}/bias']]
    names = model.state_dict()
    return {
        n: torch.from_numpy(np.array(a)) for n, a in zip(names, arrays, strict=True)
    }


def params_from_state(state: State, like: Params) -> dict[str, np.ndarray]:
    """Inverts `state_from_params`; names and shapes are those of ``like``."""
    arrays = iter([value.numpy() for value in state.values()])
    params = {}
    channels = 1
    for name in layers(like, 'Conv'):
        kernel = next(arrays).transpose(2, 3, 1, 0)
        params[f'{name}/kernel'] = kernel
        params[f'{name}/bias'] = next(arrays)
        channels = kernel.shape[-1]
    for i, name in enumerate(layers(like, 'Dense')):
        kernel = next(arrays).T
        if i == 0:
            split = kernel.reshape(channels, -1, kernel.shape[1])
            kernel = split.swapaxes(0, 1).reshape(kernel.shape)
        params[f'{name}/kernel'] = kernel
        params[f'{name}/bias'] = next(arrays)
        if f'{_NORM}_{i}/scale' in like:
            params[f'{_NORM}_{i}/scale'] = next(arrays)
            params[f'{_NORM}_{i}/bias'] = next(arrays)
    return params


@functools.cache
def _prepared(
    shapes: tuple[Any, ...], dtype: str, channels_last: bool, compiled: bool
) -> tuple[Any, Any]:
    """Makes a network for all jobs of these shapes, and its forward pass.

    Compiling takes a while, so both stay in memory.
    """
    import torch

    layout = torch.channels_last if channels_last else torch.contiguous_format
    model = network({name: np.empty(shape) for name, shape in shapes}).to(
        dtype=getattr(torch, dtype), memory_format=layout
    )
    forward = torch.compile(model, fullgraph=True) if compiled else model
    return model, forward


@functools.cache
def _loop(source: str) -> 'Loop':
    return Loop(dict(np.load(source)))


class Trained(NamedTuple):
    """Holds a client's model after its local steps, and its first loss."""

    model: State
    loss: float | None


class Loop:
    """Simulates a federation in PyTorch, with as many threads as there are cores."""

    def __init__(self, job: Mapping[str, np.ndarray]):
        """Copies a job's data to PyTorch and makes the network, compiled if the job says so."""
        import torch

        self._torch = torch
        self._job = job
        if hasattr(os, 'sched_getaffinity'):
            num_cores = len(os.sched_getaffinity(0))
        else:
            num_cores = os.cpu_count() or 1
        torch.set_num_threads(num_cores)
        self.threads = torch.get_num_threads()
        self._params = {
            name.removeprefix(PREFIX): array
            for name, array in job.items()
            if name.startswith(PREFIX)
        }
        layout = (
            torch.channels_last if job['channels_last'] else torch.contiguous_format
        )
        features = job['features'].transpose(0, 3, 1, 2)
        self._features = torch.from_numpy(features.copy()).contiguous(
            memory_format=layout
        )
        self._labels = torch.from_numpy(job['labels'].astype(np.int64))
        self._rows = torch.from_numpy(job['rows'].astype(np.int64))
        shapes = tuple((name, array.shape) for name, array in self._params.items())
        self._model, self._forward = _prepared(
            shapes,
            str(job['features'].dtype),
            bool(job['channels_last']),
            bool(job['compiled']),
        )

    def run(self) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Runs all rounds of the schedule.

        Returns:
          The final model, as flax has it, and float[T], each round's sum of first losses.
        """
        algorithm = str(self._job['name'])
        masks = self._job['masks']
        num_clients = masks.shape[1]
        server = state_from_params(self._params, self._model)
        block_start = server
        clients = [server] * num_clients
        losses = []
        for t, (mask, rows) in enumerate(zip(masks, self._rows, strict=True)):
            active = [i for i in range(num_clients) if mask[i]]
            if algorithm == 'fedpbc':
                # FedPBC: every client trains from its own model.
                trained = {
                    i: self._train(clients[i], rows[i]) for i in range(num_clients)
                }
            else:
                trained = {i: self._train(server, rows[i]) for i in active}
            losses.append(sum(trained[i].loss for i in active))
            if active:
                server = self._mean([trained[i].model for i in active])
            if algorithm == 'fedpbc':
                # The broadcast replaces the models of active clients only.
                clients = [
                    server if mask[i] else trained[i].model for i in range(num_clients)
                ]
            if algorithm == 'amplified_fedavg' and self._ends_block(t):
                server = self._amplify(block_start, server)
                block_start = server
        dtype = self._job['features'].dtype
        return params_from_state(server, self._params), np.asarray(losses, dtype)

    def _ends_block(self, t: int) -> bool:
        return (t + 1) % int(self._job['period']) == 0

    def _amplify(self, start: State, end: State) -> State:
        """Multiplies the server's displacement since the start of a block by the amplification."""
        factor = float(self._job['amplification'])
        return {name: start[name] + factor * (end[name] - start[name]) for name in end}

    def _train(self, start: State, batches: Any) -> Trained:
        """Takes the local steps of one client."""
        cross_entropy = self._torch.nn.functional.cross_entropy
        learning_rate = float(self._job['learning_rate'])
        self._model.load_state_dict(start)
        optimizer = self._torch.optim.SGD(self._model.parameters(), lr=learning_rate)
        first_loss = None
        for rows in batches:
            optimizer.zero_grad()
            outputs = self._forward(self._features[rows])
            loss = cross_entropy(outputs, self._labels[rows])
            loss.backward()
            optimizer.step()
            if first_loss is None:
                first_loss = loss.item()
        return Trained(copy.deepcopy(self._model.state_dict()), first_loss)

    def _mean(self, states: Sequence[State]) -> State:
        stack = self._torch.stack
        return {name: stack([s[name] for s in states]).mean(0) for name in states[0]}
