"""Image classification spread over clients."""

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from fedjax_links.base import Array, Key, Problem
from fedjax_links.core import checks, errors, tree
from fedjax_links.problems import augmentation, datasets, models
from fedjax_links.problems import noisy_labels as noise
from fedjax_links.problems.arrays import from_flax
from fedjax_links.problems.partition import draws, names
from fedjax_links.problems.partition.names import Partitioner

Model = str | Mapping[str, Any] | nn.Module | Callable[[int], nn.Module]
"""A name in ``MODELS``, a section with name and options, a module, or ``num_classes -> module``."""

_STORES = ('float32', 'uint8')
_CHUNK = 1024

MODELS: Mapping[str, Callable[..., nn.Module]] = {
    'softmax': models.Softmax,
    'mlp': models.MLP,
    'cnn': models.CNN,
}


def digits(
    *,
    num_clients: int = 50,
    model: Model = 'softmax',
    partition: str | Partitioner = 'dirichlet',
    seed: int = 0,
    data_seed: int | None = None,
    partition_seed: int | None = None,
    **options: Any,
) -> Problem:
    """Handwritten digits (1797 real 8x8 images, embedded) over clients with skewed labels.

    Args:
      num_clients: N.
      model: as in `federate`.
      partition: as in `federate`; by default `partition.dirichlet`, of equal volumes.
      seed: seed of the split, the partition and label noise.
      data_seed: seed of the split and label noise in its place.
      partition_seed: seed of the partition in its place.
      **options: further options of `federate`, those of the partition (``alpha``,
        ``shards_per_client``, ...) among them.

    Returns:
      A problem with metrics ``loss`` and ``accuracy`` on the 20 % of images held out.

    Raises:
      ValueError: for an unknown model, partition or option.
    """
    return images(
        dataset='digits',
        num_clients=num_clients,
        model=model,
        partition=partition,
        seed=seed,
        data_seed=seed if data_seed is None else data_seed,
        partition_seed=partition_seed,
        **options,
    )


def images(
    *,
    dataset: str,
    num_clients: int,
    model: Model,
    partition: str | Partitioner = 'dirichlet',
    seed: int = 0,
    normalise: augmentation.Statistics | None = None,
    augment: Sequence[str | augmentation.Augmentation] = (),
    store: str = 'float32',
    data: Mapping[str, Any] | None = None,
    label_noise: Mapping[str, Any] | None = None,
    data_seed: int | None = None,
    partition_seed: int | None = None,
    **partition_options: Any,
) -> Problem:
    """A data set by name, spread over clients.

    Mistakes in names are found before anything is read.

    Args:
      dataset: a name in `datasets.DATASETS`.
      num_clients: N.
      model: as in `federate`.
      partition: as in `federate`; by default `partition.dirichlet`, of equal volumes.
      seed: seed of the partition and label noise.
      normalise: as in `federate`.
      augment: as in `federate`.
      store: as in `federate`.
      data: options of the data set's loader, such as ``data_dir`` or its own ``seed``.
      label_noise: as in `federate`.
      data_seed: seed of label noise in place of ``seed``, and of the loader in place of its own,
        where it has one.
      partition_seed: seed of the partition in place of ``seed``.
      **partition_options: passed on to the partition (``alpha``, ``shards_per_client``, ...), and
        ``noise_seed`` as in `federate`.

    Returns:
      A problem with metrics ``loss`` and ``accuracy`` on the test images.

    Raises:
      ValueError: for an unknown name or option, or data that are not there.
      ImportError: if the loader needs a package that is not installed.
    """
    checks.choice('dataset', dataset, datasets.DATASETS)
    if not isinstance(data, Mapping | None):
        raise errors.invalid('data', f'be a section of options of {dataset!r}', repr(data))
    checks.options('data', datasets.DATASETS[dataset], data or {})
    _check_options(images, partition, partition_options)
    _check_names(model, normalise, augment, store)
    options = dict(data or {})
    noise_seed, partition_seed = draws.seeds(seed, data_seed, partition_seed)
    if data_seed is not None and 'seed' in names.keywords(datasets.DATASETS[dataset]):
        options['seed'] = data_seed
    with errors.inside('data'):
        loaded = datasets.load(dataset, **options)
    return federate(
        loaded,
        num_clients=num_clients,
        model=model,
        partition=partition,
        seed=partition_seed,
        normalise=normalise,
        augment=augment,
        store=store,
        label_noise=label_noise,
        **{'noise_seed': noise_seed, **partition_options},
    )


def federate(
    dataset: datasets.Dataset,
    *,
    num_clients: int,
    model: Model,
    partition: str | Partitioner,
    seed: int,
    normalise: augmentation.Statistics | None = None,
    augment: Sequence[str | augmentation.Augmentation] = (),
    store: str = 'float32',
    label_noise: Mapping[str, Any] | None = None,
    noise_seed: int | None = None,
    **partition_options: Any,
) -> Problem:
    """Spreads a dataset's training examples over clients; the test examples evaluate.

    Args:
      dataset: images and labels.
      num_clients: N.
      model: a name in `classification.MODELS`, a mapping of that ``name`` and its options, a flax
        linen module, or a function ``num_classes -> module``.
      partition: a name in `names.PARTITIONS`, or a function ``(labels, *, num_clients,
        **options) -> int[E]`` of the owners, which gets ``seed`` if it has such a parameter.
      seed: seed of the partition.
      normalise: a name in `augmentation.CHANNEL_STATISTICS`, or ``mean`` and ``deviation`` of each
        channel, to normalise the images by inside the program; the data stay in [0, 1].
      augment: names in `augmentation.AUGMENTATIONS` or functions ``(key, images) -> images``,
        applied in this order to what clients train on, after normalisation, as `augmentation.chain`
        does; evaluation sees the images as they are.
      store: ``'float32'``, or ``'uint8'`` to hold images as 8-bit pixels in a quarter of the memory
        and scale them to [0, 1] inside the program. Values are the same to a rounding.
      label_noise: which training labels are wrong: one kind of noise of `problems.label_noise`
        (``rate``, ``confusion``, ``client_rates`` or ``client_range``), and ``test``, whether test
        labels are too, at the clients' mean rate. The partition goes by the true labels; links that
        depend on labels see those that clients hold.
      noise_seed: seed of label noise; ``seed`` by default.
      **partition_options: passed on to the partition.

    Returns:
      The problem.

    Raises:
      ValueError: for an unknown name or option, for images whose channels do not fit ``normalise``,
        for ``augment`` without images, for ``'uint8'`` if the data are not 8-bit pixels, and for a
        partition that leaves a client without examples.
    """
    _check_options(federate, partition, partition_options)
    _check_names(model, normalise, augment, store)
    module = _build_model(model, dataset.num_classes)
    shape = dataset.train_features.shape
    if augment and len(shape) != 4:
        requirement = 'be empty for features other than images [height, width, channels]'
        raise errors.invalid('augment', requirement, f'{tuple(augment)} for {list(shape[1:])}')
    clients = names.owners(partition, dataset.train_labels, num_clients, seed, partition_options)
    _check_size(module, dataset.train_features)
    train_labels, test_labels = noise.apply(
        label_noise,
        seed if noise_seed is None else noise_seed,
        (dataset.train_labels, clients),
        dataset.test_labels,
        dataset.num_classes,
    )
    train, test = dataset.train_features, dataset.test_features
    if store == 'uint8':
        train, test = _as_pixels(train), _as_pixels(test)
    return from_flax(
        train,
        train_labels,
        clients,
        module=module,
        eval_data=(test, test_labels),
        preprocess=_preprocessing(normalise, store),
        augment=augmentation.chain(augment) if augment else None,
    )


def owners(problem: Problem) -> np.ndarray:
    """int[E], the owner of each row of ``problem.data``."""
    return np.repeat(np.arange(problem.num_clients), np.asarray(problem.counts))


def _check_options(
    caller: Callable[..., Problem], partition: str | Partitioner, options: Mapping[str, Any]
) -> None:
    """Raises for options that neither ``caller`` nor `federate` nor the partition knows."""
    own = names.keywords(caller) | names.keywords(federate)
    names.check(partition, options, own)


def _check_names(
    model: Model,
    normalise: augmentation.Statistics | None,
    augment: Sequence[str | augmentation.Augmentation],
    store: str,
) -> None:
    if isinstance(model, Mapping):
        options = dict(model)
        name = options.pop('name', None)
        checks.choice('model.name', name, MODELS)
        made = MODELS[name]
        if isinstance(made, type):  # whose signature has what flax adds to any module
            fields = {field.name for field in dataclasses.fields(made)}
            fields -= {'num_classes', 'name', 'parent'}
            for option in options.keys() - fields:
                raise errors.unknown_name('model', option, fields)
        checks.options('model', made, options, None)
    elif isinstance(model, str):
        checks.choice('model', model, MODELS)
    elif not isinstance(model, nn.Module):
        if not callable(model):
            requirement = 'be a name, a section, a flax module or a function that makes one'
            raise errors.invalid('model', requirement, repr(model))
        checks.options('model', model, {}, None)
    if normalise is not None:
        augmentation.statistics(normalise)
    augmentation.chain(augment)
    checks.choice('store', store, _STORES)


def _build_model(model: Model, num_classes: int) -> nn.Module:
    """The flax module that a name, a section with a name and options, or a function stands for."""
    if isinstance(model, str):
        return MODELS[model](num_classes)
    if isinstance(model, Mapping):
        options = {name: value for name, value in model.items() if name != 'name'}
        return MODELS[model['name']](num_classes, **options)
    if isinstance(model, nn.Module):
        return model
    module = model(num_classes)
    if not isinstance(module, nn.Module):
        raise errors.invalid('model', 'make a flax module', f'a {type(module).__name__}')
    return module


def _check_size(module: nn.Module, features: np.ndarray) -> None:
    """Raises for a model that does not suit the data, or that memory does not hold."""
    example = jax.ShapeDtypeStruct((1, *features.shape[1:]), np.float32)
    takes_train = 'train' in inspect.signature(type(module).__call__).parameters
    evaluating: dict[str, Any] = {'train': False} if takes_train else {}

    def init(key: Key, features: Array) -> Any:
        return module.init(key, features, **evaluating)

    try:
        shapes = jax.eval_shape(init, jax.random.key(0), example)
    except errors.InvalidError as error:
        raise error.under('model') from error
    except Exception as error:  # whatever the layers say
        requirement = f'suit features of shape {list(features.shape[1:])}'
        raise errors.invalid('model', requirement, errors.described(error)) from error
    checks.fits('model', type(module).__name__, tree.num_bytes(shapes))


def _preprocessing(
    normalise: augmentation.Statistics | None, store: str
) -> Callable[[Array], Array] | None:
    """From what is stored to what a model sees; None if that is the same."""
    if normalise is None and store == 'float32':
        return None

    def preprocess(stored: Array) -> Array:
        features = stored.astype(jnp.float32) / 255 if store == 'uint8' else stored
        if normalise is None:
            return features
        return jnp.asarray(augmentation.normalise(features, normalise))

    return preprocess


def _as_pixels(features: np.ndarray) -> np.ndarray:
    """The uint8 pixels that were scaled to float32, in pieces to save memory."""
    pixels = np.empty(features.shape, np.uint8)
    for start in range(0, len(features), _CHUNK):
        part = features[start : start + _CHUNK]
        levels = np.rint(part * np.float32(255))
        exact = np.array_equal(np.divide(levels, np.float32(255)), part)
        if not exact or levels.min() < 0 or levels.max() > 255:
            raise errors.invalid('store', 'be float32 for images that are not 8-bit', "'uint8'")
        pixels[start : start + _CHUNK] = levels
    return pixels
