"""Stands in for modules that a loop of theirs imports: settings, data, network, statistics.

Their own file of loops and their own ``util`` run as they are. The folder of the checkout is on the
path only meanwhile, and every module of it is forgotten afterwards.
"""

import ast
import contextlib
import os
import runpy
import sys
import tempfile
import types
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedjax_links.core import errors
from studies.authors_code import federation


def checkout(path: str, *files: str) -> Path:
    """Returns a checkout of somebody's repository.

    Args:
      path: of its folder.
      *files: that a comparison reads there.

    Raises:
      ValueError: in one line, naming the first that is missing.
    """
    folder = Path(path).expanduser().resolve()
    for file in files:
        if not (folder / file).is_file():
            requirement = f'be a checkout that has {file}'
            raise errors.invalid('PATH', requirement, path)
    return folder


def torch() -> Any:
    """Returns PyTorch, with double precision by default and without devices.

    Raises:
      MissingPackageError: where it is not installed.
    """
    try:
        import torch
    except ImportError:
        raise errors.missing_package(
            "The authors' code needs PyTorch", 'torch'
        ) from None
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    return torch


class Recorder:
    """Collects the models that a loop hands to its statistics.

    Attributes:
      models: by round, the tensors it was given: the server's, or also the clients'.
    """

    def __init__(self) -> None:
        """Begins with no models."""
        self.models: list[list[np.ndarray]] = []

    def build(self, *_: Any, **__: Any) -> 'Recorder':
        """Returns itself, in place of a class of statistics."""
        return self

    def collect_stat_eval(
        self, seed: int, rounds: int, model: Any, *others: Any
    ) -> None:
        """Keeps what comes after the two loaders."""
        del seed, rounds, model
        self.models.append([np.array(tensor.tolist()) for tensor in others[2:]])

    collect_stat = collect_stat_eval

    def path(self, model: int = 0) -> np.ndarray:
        """Returns one of the models after each round, float64[T, ...]."""
        return np.stack([models[model] for models in self.models])


def network() -> Any:
    """Returns a class with the methods of their ``Model``, around softmax regression."""
    lib = torch()

    class Model:
        def __init__(self, seed: int, learning_rate: float, **_: Any) -> None:
            weight, bias = federation.start()
            self.model = lib.nn.Linear(federation.NUM_FEATURES, federation.NUM_CLASSES)
            self.assign_weight(
                lib.tensor(np.concatenate([weight.ravel(), bias]).tolist())
            )
            self.loss_fn = lib.nn.CrossEntropyLoss()
            self.update_learning_rate(learning_rate)

        def update_learning_rate(self, learning_rate: float) -> None:
            self.optimizer = lib.optim.SGD(
                self.model.parameters(), lr=float(learning_rate)
            )

        def get_weight(self) -> Any:
            with lib.no_grad():
                leaves = [self.model.weight.reshape(-1), self.model.bias]
                return lib.cat(leaves).clone()

        def assign_weight(self, flat: Any) -> None:
            count = self.model.weight.numel()
            with lib.no_grad():
                self.model.weight.copy_(flat[:count].view_as(self.model.weight))
                self.model.bias.copy_(flat[count:])

    return Model


def examples() -> tuple[Any, dict[int, np.ndarray]]:
    """Returns a data set of pairs of tensors, and the rows of every client."""
    lib = torch()
    features, labels, owners = federation.data()
    pairs = [
        (lib.tensor(x.tolist()), int(y))
        for x, y in zip(features, labels.tolist(), strict=True)
    ]
    rows = {i: np.flatnonzero(owners == i) for i in range(federation.NUM_CLIENTS)}
    return pairs, rows


def function_of(file: Path, name: str) -> Any:
    """Returns a function of a file of theirs, without the rest of the file."""
    tree = ast.parse(file.read_text())
    tree.body = [
        n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == name
    ]
    found: dict[str, Any] = {}
    exec(compile(tree, str(file), 'exec'), found)
    return found[name]


def run(
    folder: Path,
    settings: Mapping[str, Any],
    prepare: Callable[[Any], None],
    *,
    data: Mapping[str, Any] | None = None,
) -> Recorder:
    """Runs their ``main.py`` as its command would.

    Args:
      folder: the checkout.
      settings: what their ``config`` holds.
      prepare: is given their ``util.util`` once it is there, to hand over who owns what.
      data: what else their ``dataset.dataset`` has.

    Returns:
      The models.
    """
    pairs, _ = examples()
    recorder = Recorder()
    batch = len(pairs)
    defaults = {
        'transform_train': None,
        'transform_train_eval': None,
        'dataset_file_path': '',
        'dataset': '',
        'model_name': '',
        'batch_size_train': batch,
        'batch_size_eval': batch,
    }
    loaded = {'load_data': lambda *_: (pairs, pairs), **(data or {})}
    names = ('stats_collector', 'stats_collector_bar', 'CollectStatistics')
    stand_ins = {
        'config': {**defaults, **settings},
        'dataset.dataset': loaded,
        'model.model': {'Model': network()},
        'statistic.collect_stat': dict.fromkeys(names, recorder.build),
    }
    with standing(folder, stand_ins, roots=('util',)):
        import util.util  # type: ignore[import-not-found]  # theirs

        prepare(util.util)
        runpy.run_path(str(folder / 'main.py'), run_name='__main__')
    return recorder


@contextlib.contextmanager
def standing(
    folder: Path, stand_ins: Mapping[str, Mapping[str, Any]], roots: tuple[str, ...]
) -> Iterator[None]:
    """Lets modules of a checkout be imported, and gives an empty folder to write to.

    Args:
      folder: the checkout.
      stand_ins: by module, what there is in place of it.
      roots: the packages of theirs, which are forgotten afterwards.
    """
    lib = torch()
    before = {*sys.modules}
    where = Path.cwd()
    to = lib.Tensor.to
    loader = lib.utils.data.dataloader._BaseDataLoaderIter
    for name, content in stand_ins.items():
        parent = name.partition('.')[0]
        if parent != name and parent not in roots:
            sys.modules.setdefault(parent, types.ModuleType(parent)).__path__ = []
        sys.modules[name] = types.ModuleType(name)
        vars(sys.modules[name]).update(content)
    sys.path.insert(0, str(folder))
    lib.Tensor.to = lambda a, where, *more: (
        a if isinstance(where, str) else to(a, where, *more)
    )
    loader.next = loader.__next__  # as older versions had it
    try:
        with (
            tempfile.TemporaryDirectory() as empty,
            open(os.devnull, 'w') as nowhere,
            contextlib.redirect_stdout(nowhere),
        ):
            os.chdir(empty)
            yield
    finally:
        os.chdir(where)
        sys.path.remove(str(folder))
        lib.Tensor.to = to
        removed = {*roots, *(name.partition('.')[0] for name in stand_ins)}
        for name in {*sys.modules} - before:
            file = str(getattr(sys.modules[name], '__file__', ''))
            if name.partition('.')[0] in removed or file.startswith(str(folder)):
                del sys.modules[name]


def watch_masks(kind: Any) -> list[tuple[bool, float]]:
    """Notes every answer of a sampler of theirs, and the probability that it was given."""
    seen: list[tuple[bool, float]] = []
    sample = kind.sample

    def noted(self: Any) -> bool:
        answer = bool(sample(self))
        seen.append((answer, float(self.participation_prob)))
        return answer

    kind.sample = noted
    return seen


def as_masks(seen: list[tuple[bool, float]]) -> tuple[np.ndarray, np.ndarray]:
    """Returns masks bool[T, N] and probabilities float[T, N] of answers, client after client."""
    shape = -1, federation.NUM_CLIENTS
    masks = np.array([answer for answer, _ in seen]).reshape(shape)
    return masks, np.array([prob for _, prob in seen]).reshape(shape)
