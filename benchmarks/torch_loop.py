"""Federated rounds as a straightforward PyTorch loop: one client after the other.

Network, initial weights, data, links and minibatches are given (`benchmarks.images`), so that its
results can be compared with the engine's. Loops over clients and steps are Python's; layers are
PyTorch's, channels first, as in the papers' released code.
"""

import copy
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from benchmarks import common, images, proofs, summary
from fedjax_links.base import Participation, Problem
from fedjax_links.problems import models

MISSING = "PyTorch is not installed: pip install -e '.[bench]'"

State = Mapping[str, Any]
Loops = Mapping[str, tuple[str, Mapping[str, Any]]]

PLAIN: Loops = {
    'torch': ('PyTorch', {}),
    'torch_channels_last': ('PyTorch, channels last', {'channels_last': True}),
}
"""Loops by name: what rows call them, and the options of `Loop`."""


def require_torch() -> Any:
    """The module ``torch``, with as many threads as there are cores.

    Raises:
      SystemExit: with one line if it is not installed.
    """
    try:
        import torch
    except ModuleNotFoundError:
        raise SystemExit(MISSING) from None
    torch.set_num_threads(common.num_cores())
    return torch


def network(module: models.CNN, image_shape: Sequence[int]) -> Any:
    """The same layers as an ``nn.Module`` on images [B, C, H, W], with PyTorch's own weights."""
    nn = require_torch().nn
    height, width, inputs = image_shape
    side = module.kernel_size
    layers = []
    for channels in module.channels:
        layers += [nn.Conv2d(inputs, channels, side, padding=side // 2), nn.ReLU()]
        layers += [nn.MaxPool2d(2)]
        height, width, inputs = height // 2, width // 2, channels
    layers += [nn.Flatten()]
    inputs *= height * width
    for units in module.hidden:
        layers += [nn.Linear(inputs, units), nn.ReLU()]
        inputs = units
    return nn.Sequential(*layers, nn.Linear(inputs, module.num_classes))


def state_from_params(params: Any, model: Any, module: models.CNN) -> State:
    """A state dict of `network` with the parameters of the flax module."""
    torch = require_torch()
    arrays = []
    for i in range(len(module.channels)):
        layer = params[f'Conv_{i}']
        arrays += [np.transpose(layer['kernel'], (3, 2, 0, 1)), layer['bias']]
    for i in range(len(module.hidden) + 1):
        layer = params[f'Dense_{i}']
        kernel = np.asarray(layer['kernel'])
        if i == 0:  # inputs by pixel, then channel; PyTorch's by channel, then pixel
            split = kernel.reshape(-1, module.channels[-1], kernel.shape[1])
            kernel = split.swapaxes(0, 1).reshape(kernel.shape)
        arrays += [kernel.T, layer['bias']]
    names = model.state_dict()
    return {n: torch.from_numpy(np.array(a)) for n, a in zip(names, arrays, strict=True)}


def params_from_state(state: State, module: models.CNN) -> Any:
    """The inverse of `state_from_params`, as NumPy arrays."""
    arrays = iter([value.numpy() for value in state.values()])
    params = {}
    for i in range(len(module.channels)):
        kernel = next(arrays).transpose(2, 3, 1, 0)
        params[f'Conv_{i}'] = {'kernel': kernel, 'bias': next(arrays)}
    for i in range(len(module.hidden) + 1):
        kernel = next(arrays).T
        if i == 0:
            split = kernel.reshape(module.channels[-1], -1, kernel.shape[1])
            kernel = split.swapaxes(0, 1).reshape(kernel.shape)
        params[f'Dense_{i}'] = {'kernel': kernel, 'bias': next(arrays)}
    return params


class Loop:
    """A federation in PyTorch, on the data of a problem.

    Args:
      data: the problem.
      module: its network.
      workload: its size.
      rule: the algorithm.
      channels_last: whether images and weights are laid out as the engine's.
      compiled: whether `torch.compile` makes the network's forward and backward pass.
    """

    def __init__(
        self,
        data: Problem,
        module: models.CNN,
        workload: images.Workload,
        rule: images.Rule,
        *,
        channels_last: bool = False,
        compiled: bool = False,
    ):
        """Copies the data to PyTorch."""
        torch = self._torch = require_torch()
        features = np.transpose(np.asarray(data.data.features), (0, 3, 1, 2))
        layout = torch.channels_last if channels_last else torch.contiguous_format
        self._features = torch.from_numpy(np.array(features)).contiguous(memory_format=layout)
        self._labels = torch.from_numpy(np.asarray(data.data.labels).astype(np.int64))
        self._model = network(module, workload.image_shape).to(memory_format=layout)
        self._forward = torch.compile(self._model, fullgraph=True) if compiled else self._model
        self._module, self._workload, self._rule = module, workload, rule

    def run(self, params: Any, plan: images.Schedule) -> Any:
        """All rounds of a schedule: the final model, as flax has it, and float[T], the losses."""
        rule, num_clients = self._rule, self._workload.num_clients
        server = reference = state_from_params(params, self._model, self._module)
        clients = [server] * num_clients
        rows_of_rounds = self._torch.from_numpy(plan.rows.astype(np.int64))
        losses = []
        for t, (mask, rows) in enumerate(zip(plan.masks, rows_of_rounds, strict=True)):
            active = [i for i in range(num_clients) if mask[i]]
            if rule.name == 'fedpbc':
                results = [self._train(clients[i], rows[i]) for i in range(num_clients)]
                heard = [results[i] for i in active]
            else:
                results = heard = [self._train(server, rows[i]) for i in active]
            losses.append(sum(loss for _, loss in heard))
            if heard:
                server = self._mean([state for state, _ in heard])
            if rule.name == 'fedpbc':
                clients = [server if mask[i] else results[i][0] for i in range(num_clients)]
            if rule.name == 'amplified_fedavg' and (t + 1) % rule.period == 0:
                server = reference = {
                    name: reference[name] + rule.amplification * (server[name] - reference[name])
                    for name in server
                }
        return params_from_state(server, self._module), np.asarray(losses, np.float32)

    def _train(self, start: State, batches: Any) -> tuple[State, float]:
        """Local steps of one client: its model and its first loss."""
        functional = self._torch.nn.functional
        self._model.load_state_dict(start)
        optimizer = self._torch.optim.SGD(self._model.parameters(), lr=self._workload.learning_rate)
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


def compare(
    module: models.CNN,
    workload: images.Workload,
    rule: images.Rule,
    links: Participation,
    *,
    repeats: int,
    targets: Sequence[float | None],
    loops: Loops = PLAIN,
) -> dict[str, Any]:
    """Proves the engine equal to the first loop, then times it and all loops in turns.

    Args:
      module: the network.
      workload: its size.
      rule: the algorithm.
      links: the pattern.
      repeats: timed runs of each.
      targets: least ratio of the engine's speed to that of each loop.
      loops: by name, what rows call them, and the options of `Loop`.

    Returns:
      The record of one algorithm.
    """
    torch = require_torch()
    key = jax.random.key(0)
    data = images.problem(workload, module)

    def in_torch(params, data, plan, workload, **options):
        return Loop(data, module, workload, rule, **options).run(params, plan)

    _, options = next(iter(loops.values()))
    reference = functools.partial(in_torch, **options)
    twin = functools.partial(in_torch, channels_last=not options.get('channels_last', False))
    proof = proofs.prove(key, module, workload, rule, links, reference, twin)
    made = {
        name: Loop(data, module, workload, rule, **options) for name, (_, options) in loops.items()
    }
    params, plan = images.initial_params(key, data), images.schedule(key, links, workload)
    program, compile_seconds = common.compile_program(
        lambda key, data: images.engine(key, data, workload, rule, links), key, data
    )
    calls: dict[str, Callable[[], Any]] = {
        'engine': lambda: jax.block_until_ready(program(key, data)),
        **{name: functools.partial(loop.run, params, plan) for name, loop in made.items()},
    }
    for call in calls.values():
        call()
    seconds = common.take_turns(calls, repeats=repeats)
    timings = {
        name: common.Timing(compile_seconds if name == 'engine' else 0.0, turns)
        for name, turns in seconds.items()
    }
    rows = [
        summary.ratio_row(
            f'{rule.name}, speed relative to {label}',
            timings[name].seconds,
            timings['engine'].seconds,
            target,
            detail=f'{workload.num_rounds / timings["engine"].median:.3g} rounds/s',
        )
        for (name, (label, _)), target in zip(loops.items(), targets, strict=True)
    ]
    return {
        'rule': rule._asdict(),
        **proof,
        'clients_trained_per_round': images.clients_trained(plan, rule),
        'threads': {'engine': common.num_cores(), 'torch': torch.get_num_threads()},
        'torch': torch.__version__,
        'programs': common.rates(timings, workload.num_rounds, digits=3),
        'rows': rows,
    }
