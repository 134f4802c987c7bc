"""Builds classification problems of images, and of texts as tokens, spread over clients."""

import dataclasses
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from flax import linen as nn

from fedjax_links import datasets
from fedjax_links import partition as partitions
from fedjax_links.base import Array, Problem
from fedjax_links.core import (
    checks,
    contracts,
    errors,
    factory_options,
    numpy_random,
)
from fedjax_links.core.labels import class_labels
from fedjax_links.core.records import Section
from fedjax_links.core.registry import Registry
from fedjax_links.problems import augmentation, example_owners, models
from fedjax_links.problems.arrays import Partial
from fedjax_links.problems.networks import check_linen, from_flax, is_nnx, unchanged

Model = str | Mapping[str, Any] | nn.Module | Callable[[int], nn.Module]
"""A name in ``MODELS``, a mapping of name and options, a module, or ``num_classes -> module``."""

_MODELS = models.Softmax, models.MLP, models.CNN, models.GRU, models.Transformer
MODELS: Mapping[str, type[nn.Module]] = Registry(
    {kind.__name__.lower(): kind for kind in _MODELS}
)


def digits(
    *,
    num_clients: int = 50,
    model: Model = 'softmax',
    seed: int = 0,
    data_seed: int | None = None,
    partition_seed: int | None = None,
    **options: Any,
) -> Problem:
    """Spreads handwritten digits (1797 real 8x8 images, embedded) over clients.

    Args:
      num_clients: N.
      model: as in `images`.
      seed: seed of the partition, of label noise and, unless ``data`` has a seed, of the split.
      data_seed: seed of the split and label noise in place of ``seed``.
      partition_seed: seed of the partition in place of ``seed``.
      **options: further options of `images`, such as ``partition`` and the partition's own options
        (``alpha``, ``shards_per_client``, ...).

    Returns:
      A problem with metrics ``loss`` and ``accuracy`` on the 20 % of images held out.

    Raises:
      ValueError: for an unknown model, partition or option, and for another data set.

    Example:
      >>> from fedjax_links import problems
      >>> problem = problems.digits(num_clients=5)
      >>> print(problem.num_clients, problem.data.features.shape)
      5 (1438, 8, 8, 1)
    """
    if 'dataset' in options:
        requirement = "be left out of 'digits'; the problem 'images' takes one"
        raise errors.invalid('dataset', requirement, options['dataset'])
    data = options.get('data')
    has_own_seed = isinstance(data, Mapping) and 'seed' in data
    if data_seed is None and not has_own_seed:
        data_seed = seed
    return images(
        dataset='digits',
        num_clients=num_clients,
        model=model,
        seed=seed,
        data_seed=data_seed,
        partition_seed=partition_seed,
        **options,
    )


def text(
    *,
    model: Model = 'gru',
    partition: str | partitions.Partitioner = 'natural',
    seed: int = 0,
    data_seed: int | None = None,
    partition_seed: int | None = None,
    **options: Any,
) -> Problem:
    """Builds a next-token problem: texts are tokens [E, L], and labels are the tokens that follow.

    Args:
      model: as in `images`: ``'gru'``, ``'transformer'``, or another that takes tokens.
      partition: as in `images`.
      seed: seed of the partition and label noise.
      data_seed: seed of the data and label noise in place of ``seed``.
      partition_seed: seed of the partition in place of ``seed``.
      **options: further options of `images`, such as ``dataset``.

    Returns:
      A problem with metrics ``loss`` and ``accuracy``, the fraction of next tokens predicted.
      Labels [E, L], one for each token, add the metric ``perplexity``. Such labels need a model
      that scores every token, such as ``{'name': 'gru', 'every_token': True}``.

    Raises:
      ValueError: as `images` does.

    Example:
      >>> from fedjax_links import problems
      >>> from fedjax_links.datasets import Dataset, characters
      >>> texts, after, speakers = ['to be or', 'not to b'], [' ', 'e'], ['Hamlet', 'Ophelia']
      >>> data = Dataset(
      ...     characters.encode(texts), characters.encode_next(after), speakers,
      ...     num_classes=characters.NUM_TOKENS,
      ... )
      >>> problem = problems.text(dataset=data, model={'name': 'gru', 'hidden': 8})
      >>> print(problem.num_clients, problem.data.features.dtype, problem.data.features.shape)
      2 uint8 (2, 8)
    """
    if 'tokens' in options:
        requirement = "be left out of 'text', which always has them"
        raise errors.invalid('tokens', requirement, options['tokens'])
    return images(
        model=model,
        partition=partition,
        tokens=True,
        seed=seed,
        data_seed=data_seed,
        partition_seed=partition_seed,
        **options,
    )


def images(
    *,
    dataset: str | datasets.Dataset,
    num_clients: int | None = None,
    model: Model,
    partition: str | partitions.Partitioner = 'dirichlet',
    seed: int = 0,
    normalise: augmentation.Statistics | None = None,
    augment: Sequence[str | augmentation.Augmentation] = (),
    data: Section | None = None,
    label_noise: Section | None = None,
    min_examples: int = 1,
    max_examples: int | None = None,
    holdout_clients: float = 0,
    holdout_examples: float = 0.0,
    data_seed: int | None = None,
    partition_seed: int | None = None,
    tokens: bool = False,
    **partition_options: Any,
) -> Problem:
    """Spreads training examples of a data set over clients, and evaluates on held-out examples.

    Models are evaluated on the test examples or, without test examples, on the clients' training
    data. If test examples have owners, or if clients or examples are held out, models are also
    evaluated per client (`evaluation.over_clients`). Test examples without owners are then dropped.
    Clients held out, and clients with test examples alone, are numbered from N on. Mistakes in
    names are found before data are read.

    Args:
      dataset: a name in `datasets.DATASETS`, or a data set. Pixels stay uint8 in memory and are
        scaled to [0, 1] inside the program.
      num_clients: number of clients, including held-out clients. With ``'natural'``: number of the
        data's owners that are drawn at random to be clients; all owners by default.
      model: a name in `classification.MODELS`, a mapping of that ``name`` and its options, a flax
        linen module, or a function ``num_classes -> module``.
      partition: a name in `partition.PARTITIONS`, where ``'natural'`` keeps the data's own owners;
        or one of these functions. Or your own function
        ``(labels, *, num_clients, **options) -> int[E]`` that returns the owners; it gets ``seed``
        if it has such a parameter.
      seed: seed of the partition and label noise.
      normalise: a name in `augmentation.CHANNEL_STATISTICS`, or ``mean`` and ``deviation`` of each
        channel, to normalise the images by inside the program; the data stay in [0, 1].
      augment: names in `augmentation.AUGMENTATIONS` or functions ``(key, images) -> images``,
        applied in this order to what clients train on, after normalisation, as `augmentation.chain`
        does; evaluation sees the images as they are.
      data: options of the data set's loader, such as ``data_dir`` or its own ``seed``.
      label_noise: ``rate`` of `problems.label_noise`, to make training labels wrong. The partition
        uses the true labels. Links that depend on labels use the noisy labels that clients hold.
      min_examples: as in `partition.divide`, like the next three arguments.
      max_examples: the most examples that a client uses.
      holdout_clients: a number of clients, or a share below 1, that do not train.
      holdout_examples: share of each client's examples that is held out.
      data_seed: seed of label noise in place of ``seed``. It also replaces the seed of the data
        set's loader, if that loader has a seed.
      partition_seed: seed of the partition in place of ``seed``.
      tokens: whether features are tokens, which are not scaled, as in `text`.
      **partition_options: passed on to the partition (``alpha``, ``shards_per_client``, ...).

    Returns:
      A problem with metrics ``loss`` and ``accuracy``.

    Raises:
      ValueError: for an unknown name or option, data that are not there, images whose channels do
        not fit ``normalise``, ``augment`` without images, ``'natural'`` without owners, and a
        partition that leaves a client without examples.
      ImportError: if the loader needs a package that is not installed.

    Example:
      >>> import numpy as np
      >>> from fedjax_links import datasets, problems
      >>> pixels = np.zeros((6, 4, 4, 1), np.uint8)
      >>> data = datasets.Dataset(pixels, np.arange(6) % 2)
      >>> problem = problems.images(dataset=data, num_clients=3, model='softmax', partition='iid')
      >>> print(problem.num_clients, problem.data.features.dtype)
      3 uint8
    """
    assign = partitions.bind(partition, partition_options, images)
    channels = None if normalise is None else augmentation.statistics(normalise)
    checks.flags(tokens=tokens)
    augmented = augmentation.chain(augment)
    # A wrong model is refused before data are read. Two classes stand for the unknown number.
    _build_model(model, 2)
    noise_seed, partition_seed = numpy_random.seeds(seed, data_seed, partition_seed)
    loaded = _load(dataset, data, data_seed)
    features = loaded.train_features
    is_natural = partition in ('natural', partitions.natural)
    if augment and features.ndim != 4:
        requirement = (
            'be empty for features other than images [height, width, channels]'
        )
        got = f'{tuple(augment)} for {list(features.shape[1:])}'
        raise errors.invalid('augment', requirement, got)
    if is_natural:
        owners_of_examples = example_owners.natural(loaded)
    else:
        owners_of_examples = example_owners.assign(
            loaded, assign, num_clients, partition_seed
        )
    division = partitions.divide(
        owners_of_examples,
        num_clients=num_clients if is_natural else None,
        min_examples=min_examples,
        max_examples=max_examples,
        holdout_clients=holdout_clients,
        holdout_examples=holdout_examples,
        seed=partition_seed,
    )
    labels = loaded.train_labels
    num_classes = loaded.num_classes
    labels = augmentation.with_label_noise(label_noise, noise_seed, labels, num_classes)
    try:
        problem = from_flax(
            features[division.rows],
            labels[division.rows],
            division.clients,
            module=_build_model(model, num_classes),
            loss='cross_entropy' if labels.ndim == 1 else 'token_cross_entropy',
            eval_data=example_owners.eval_data(loaded, division, is_natural=is_natural),
            preprocess=_preprocess(features, channels, tokens=tokens),
            augment=augmented if augment else None,
        )
    except errors.InvalidError as error:  # a module is a model here
        raise error.at(re.sub('^module', 'model', error.path)) from error
    if is_natural:
        return dataclasses.replace(
            problem, named=example_owners.names(loaded, division)
        )
    return problem


def _preprocess(
    features: np.ndarray,
    channels: augmentation.ChannelStatistics | None,
    *,
    tokens: bool,
) -> Callable[[Array], Array] | None:
    """Returns what is done to features inside the program; None for nothing."""
    if channels is not None or (features.dtype == np.uint8 and not tokens):
        return Partial(augmentation.scale_pixels, channels)
    return unchanged if tokens else None


def _load(
    dataset: str | datasets.Dataset, data: Section | None, seed: int | None
) -> datasets.Dataset:
    """Loads a data set by name; a seed replaces the loader's own seed, if it has one."""
    if isinstance(dataset, datasets.Dataset):
        is_empty = isinstance(data, Mapping) and not data
        if data is not None and not is_empty:
            got = errors.text_of(data)
            raise errors.invalid('data', 'go with a data set by name', got)
        return dataset
    if not isinstance(dataset, str) or dataset not in datasets.DATASETS:
        raise datasets.unknown('dataset', dataset, datasets.DATASETS)
    load = datasets.DATASETS[dataset]
    if not isinstance(data, Mapping | None):
        raise errors.invalid(
            'data', f'be a section of options of {dataset!r}', repr(data)
        )
    options = dict(data or {})
    factory_options.check('data', load, options)
    if seed is not None and 'seed' in inspect.signature(load).parameters:
        options['seed'] = seed
    with errors.context('data'):
        return load(**options)


def owners(problem: Problem) -> np.ndarray:
    """Returns int[E], the owner of each row of ``problem.data``."""
    contracts.check_problem(problem)
    return np.repeat(np.arange(problem.num_clients), np.asarray(problem.counts))


def partition_of(problem: Problem) -> partitions.PartitionReport:
    """Describes what clients hold: volumes, and classes if every example has an integer label."""
    labels = class_labels(problem)
    if labels is None:
        return partitions.volumes(problem.counts)
    return partitions.report(owners(problem), labels)


def _build_model(model: Model, num_classes: int) -> nn.Module:
    """Builds the flax module that a name, a section with options, or a function stands for."""
    options: dict[str, Any] = {**model} if isinstance(model, Mapping) else {}
    if isinstance(model, nn.Module):
        return model
    if isinstance(model, Mapping):
        model = checks.entry('model.name', options.pop('name', None), MODELS)
    elif isinstance(model, str):
        model = checks.entry('model', model, MODELS)
    if is_nnx(model):
        check_linen('model', model)
    if not callable(model):
        requirement = 'be a name, a section, a flax module or a function that makes one'
        raise errors.invalid('model', requirement, repr(model))
    factory_options.check('model', model, options, None)
    module = model(num_classes, **options)
    if not isinstance(module, nn.Module):
        got = 'one of flax.nnx' if is_nnx(module) else f'a {type(module).__name__}'
        raise errors.invalid('model', 'make a flax module', got)
    return module
