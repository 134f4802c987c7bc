"""Federated rounds as a straightforward PyTorch loop: one client after the other.

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
from typing import Any

import numpy as np

State = Mapping[str, Any]
Params = Mapping[str, np.ndarray]
PREFIX = 'params/'


def run(source: str) -> tuple[dict[str, np.ndarray], float]:
    """All rounds of a job.

    Args:
      source: a file with ``features`` [E, H, W, C], ``labels`` [E], ``params/Conv_0/kernel`` and
        so on as flax has them, ``masks`` bool[T, N], ``rows`` int[T, N, steps, B], the rule's
        ``name``, ``period`` and ``amplification``, ``learning_rate``, and whether ``channels_last``
        and ``compiled``.

    Returns:
      The final parameters under their names, ``losses`` float[T] and the number of ``threads``; and
      the seconds of the rounds, without those of reading the file.
    """
    loop = _loop(source)
    begin = time.perf_counter()
    params, losses = loop.run()
    seconds = time.perf_counter() - begin
    found = {PREFIX + name: array for name, array in params.items()}
    return {**found, 'losses': losses, 'threads': np.array(loop.threads)}, seconds


def layers(params: Params, kind: str) -> list[str]:
    """Names of the layers ``Conv_0, Conv_1, ...`` or ``Dense_0, ...`` in their order."""
    count = sum(
        name.startswith(f'{kind}_') and name.endswith('/kernel') for name in params
    )
    return [f'{kind}_{i}' for i in range(count)]


def network(params: Params) -> Any:
    """The layers of these flax parameters as an ``nn.Module`` on images [B, C, H, W].

    Convolutions keep the image's size and are followed by ReLU and pooling, dense layers but the
    last by ReLU. The weights are PyTorch's own.
    """
    from torch import nn

    found: list[Any] = []
    for name in layers(params, 'Conv'):
        side, _, inputs, outputs = params[f'{name}/kernel'].shape
        found += [
            nn.Conv2d(inputs, outputs, side, padding=side // 2),
            nn.ReLU(),
            nn.MaxPool2d(2),
        ]
    found += [nn.Flatten()]
    for name in layers(params, 'Dense'):
        found += [nn.Linear(*params[f'{name}/kernel'].shape), nn.ReLU()]
    return nn.Sequential(*found[:-1])


def state_from_params(params: Params, model: Any) -> State:
    """A state dict of `network` with these parameters."""
    import torch

    arrays = []
    channels = 1
    for name in layers(params, 'Conv'):
        kernel = params[f'{name}/kernel']
        channels = kernel.shape[-1]
        arrays += [kernel.transpose(3, 2, 0, 1), params[f'{name}/bias']]
    for i, name in enumerate(layers(params, 'Dense')):
        kernel = params[f'{name}/kernel']
        if i == 0:  # inputs by pixel, then channel; PyTorch's by channel, then pixel
            split = kernel.reshape(-1, channels, kernel.shape[1])
            kernel = split.swapaxes(0, 1).reshape(kernel.shape)
        arrays += [kernel.T, params[f'{name}/bias']]
    names = model.state_dict()
    return {
        n: torch.from_numpy(np.array(a)) for n, a in zip(names, arrays, strict=True)
    }


def params_from_state(state: State, like: Params) -> dict[str, np.ndarray]:
    """The inverse of `state_from_params`, with the names of ``like``."""
    arrays = iter([value.numpy() for value in state.values()])
    params = {}
    channels = 1
    for name in layers(like, 'Conv'):
        params[f'{name}/kernel'] = kernel = next(arrays).transpose(2, 3, 1, 0)
        params[f'{name}/bias'] = next(arrays)
        channels = kernel.shape[-1]
    for i, name in enumerate(layers(like, 'Dense')):
        kernel = next(arrays).T
        if i == 0:
            split = kernel.reshape(channels, -1, kernel.shape[1])
            kernel = split.swapaxes(0, 1).reshape(kernel.shape)
        params[f'{name}/kernel'], params[f'{name}/bias'] = kernel, next(arrays)
    return params


@functools.cache
def _prepared(
    shapes: tuple[Any, ...], channels_last: bool, compiled: bool
) -> tuple[Any, Any]:
    """A network for all jobs of these shapes, and its forward pass; compiling takes a while."""
    import torch

    layout = torch.channels_last if channels_last else torch.contiguous_format
    model = network({name: np.empty(shape) for name, shape in shapes}).to(
        memory_format=layout
    )
    return model, torch.compile(model, fullgraph=True) if compiled else model


@functools.cache
def _loop(source: str) -> 'Loop':
    return Loop(dict(np.load(source)))


class Loop:
    """A federation in PyTorch, with as many threads as there are cores."""

    def __init__(self, job: Mapping[str, np.ndarray]):
        """Copies a job's data to PyTorch and makes the network, compiled if the job says so."""
        import torch

        self._torch = torch
        self._job = job
        cores = (
            len(os.sched_getaffinity(0))
            if hasattr(os, 'sched_getaffinity')
            else os.cpu_count()
        )
        torch.set_num_threads(cores or 1)
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
        options = bool(job['channels_last']), bool(job['compiled'])
        self._model, self._forward = _prepared(shapes, *options)

    def run(self) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """All rounds of the schedule: the final model, as flax has it, and float[T], the losses."""
        rule = str(self._job['name'])
        masks = self._job['masks']
        period = int(self._job['period'])
        amplification = float(self._job['amplification'])
        num_clients = masks.shape[1]
        server = reference = state_from_params(self._params, self._model)
        clients = [server] * num_clients
        losses = []
        for t, (mask, rows) in enumerate(zip(masks, self._rows, strict=True)):
            active = [i for i in range(num_clients) if mask[i]]
            if rule == 'fedpbc':
                results = [self._train(clients[i], rows[i]) for i in range(num_clients)]
                heard = [results[i] for i in active]
            else:
                results = heard = [self._train(server, rows[i]) for i in active]
            losses.append(sum(loss for _, loss in heard))
            if heard:
                server = self._mean([state for state, _ in heard])
            if rule == 'fedpbc':
                clients = [
                    server if mask[i] else results[i][0] for i in range(num_clients)
                ]
            if rule == 'amplified_fedavg' and (t + 1) % period == 0:
                server = reference = {
                    name: reference[name]
                    + amplification * (server[name] - reference[name])
                    for name in server
                }
        return params_from_state(server, self._params), np.asarray(losses, np.float32)

    def _train(self, start: State, batches: Any) -> tuple[State, float]:
        """Local steps of one client: its model and its first loss."""
        functional = self._torch.nn.functional
        rate = float(self._job['learning_rate'])
        self._model.load_state_dict(start)
        optimizer = self._torch.optim.SGD(self._model.parameters(), lr=rate)
        first = None
        for rows in batches:
            optimizer.zero_grad()
            outputs = self._forward(self._features[rows])
            loss = functional.cross_entropy(outputs, self._labels[rows])
            loss.backward()
            optimizer.step()
            first = loss.item() if first is None else first
        return copy.deepcopy(self._model.state_dict()), first

    def _mean(self, states: Sequence[State]) -> State:
        stack = self._torch.stack
        return {name: stack([s[name] for s in states]).mean(0) for name in states[0]}
