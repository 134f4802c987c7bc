"""Labels that are wrong at known rates: alike for all, by class (a confusion), or by client."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedjax_links.base import Key
from fedjax_links.core import checks, errors, prng

_TRAIN, _TEST = 0, 1
_STREAM = 0x4C4E  # keeps these draws apart from others that use the same seed
_WAYS = ('rate', 'confusion', 'client_rates', 'client_range')


def label_noise(
    key: Key,
    labels: ArrayLike,
    *,
    num_classes: int,
    clients: ArrayLike | None = None,
    rate: float | None = None,
    confusion: Sequence[Sequence[float]] | None = None,
    client_rates: Sequence[float] | None = None,
    client_range: Sequence[float] | None = None,
) -> NDArray[np.int32]:
    """Replaces labels at random, each example on its own.

    With one key a higher rate changes all the labels that a lower one does, and to the same ones.
    Exactly one of the last four is given.

    Args:
      key: a key.
      labels: int[E], classes from 0.
      num_classes: K, at least 2.
      clients: int[E], the owner of each example; for rates by client.
      rate: probability that a label becomes one of the K - 1 others, all equally likely.
      confusion: [K, K], row c the law of the label of an example of class c.
      client_rates: [N], the rate of each client.
      client_range: [low, high], rates that rise evenly from client 0 to client N - 1.

    Returns:
      int32[E].

    Raises:
      ValueError: if there is not one kind of noise, or a number is out of range.
    """
    true = checks.ids('labels', labels)
    if true.max() >= num_classes:
        raise errors.invalid('num_classes', f'exceed the largest label {true.max()}', num_classes)
    options = dict(zip(_WAYS, (rate, confusion, client_rates, client_range), strict=True))
    owners = None if clients is None else checks.ids('clients', clients)
    if owners is not None and owners.shape != true.shape:
        raise errors.invalid('clients', f'have {true.size} entries', owners.size)
    num_clients = None if owners is None else int(owners.max()) + 1
    way, numbers = _check(options, num_classes, num_clients)
    draws = prng.uniform(key, (2, true.size))
    changed, which = (np.asarray(row, np.float64) for row in draws)
    if way == 'confusion':
        others = numbers * (1 - np.eye(num_classes))
        rates = others.sum(axis=1)
        ends = np.cumsum(others, axis=1) / np.where(rates > 0, rates, 1)[:, None]
        wrong = np.sum(which[:, None] >= ends[true][:, :-1], axis=1)
        wrong = np.minimum(wrong, _last(others)[true])  # sums may fall an ulp short of one
        flipped = changed < rates[true]
    else:
        place = np.zeros(true.size, int) if way == 'rate' or owners is None else owners
        wrong = (which * (num_classes - 1)).astype(np.int64)
        wrong += wrong >= true
        flipped = changed < numbers[place]
    return np.where(flipped, wrong, true).astype(np.int32)


def check(section: Any, num_classes: int, num_clients: int) -> None:
    """Raises unless a section ``label_noise`` says one kind of noise, in range."""
    if section is None:
        return
    if not isinstance(section, Mapping):
        raise errors.invalid('label_noise', 'be a section', errors.shown(section))
    valid = (*_WAYS, 'test')
    for option in section:
        if option not in valid:
            raise errors.unknown_name('label_noise', option, valid)
    if not isinstance(section.get('test', False), bool):
        shown = errors.shown(section['test'])
        raise errors.invalid('label_noise.test', 'be True or False', shown)
    with errors.inside('label_noise'):
        _check(section, num_classes, num_clients)


def apply(
    section: Mapping[str, Any] | None,
    seed: int,
    train: tuple[NDArray[Any], NDArray[Any]],
    test_labels: NDArray[Any],
    num_classes: int,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Training and test labels under the noise that a problem's section says.

    Args:
      section: options of `label_noise` and ``test``, whether test labels are changed too, at the
        clients' mean rate where rates are by client; None for no noise.
      seed: integer in ``[0, 2**32)``.
      train: labels int[E] and owners int[E].
      test_labels: int[T].
      num_classes: K.

    Returns:
      Labels int[E] and int[T].

    Raises:
      ValueError: if the section is no such thing.
    """
    labels, clients = train
    if section is None:
        return labels, test_labels
    check(section, num_classes, int(np.max(clients)) + 1)
    options = {name: value for name, value in section.items() if name != 'test'}
    key = jax.random.fold_in(jax.random.key(np.uint32(seed)), _STREAM)
    changed = label_noise(
        jax.random.fold_in(key, _TRAIN), labels, num_classes=num_classes, clients=clients, **options
    )
    if section.get('test', False):
        table = confusion_of(section, num_classes, int(np.max(clients)) + 1)
        test_key = jax.random.fold_in(key, _TEST)
        test_labels = label_noise(
            test_key, test_labels, num_classes=num_classes, confusion=table.tolist()
        )
    return changed, test_labels


def confusion_of(
    section: Mapping[str, Any], num_classes: int, num_clients: int
) -> NDArray[np.float64]:
    """float64[K, K], the confusion that a checked section stands for, a mean over clients."""
    way, numbers = _check(section, num_classes, num_clients)
    if way == 'confusion':
        return numbers
    from fedjax_links import analysis  # brings SciPy, which takes longest to import

    return analysis.symmetric_confusion(numbers.mean(), num_classes)


def _check(
    options: Mapping[str, Any], num_classes: int, num_clients: int | None
) -> tuple[str, NDArray[np.float64]]:
    """The kind of noise, and its numbers: float64[1], [K], [K, K] or [N]."""
    checks.static_int('num_classes', num_classes, minimum=2)
    given = [name for name in _WAYS if options.get(name) is not None]
    if len(given) != 1:
        kinds = ', '.join(_WAYS)
        raise errors.invalid(given[1] if given else 'rate', f'be the one given of {kinds}', given)
    (way,) = given
    numbers = checks.numbers(way, options[way]).astype(np.float64)
    bad = ~((numbers >= 0) & (numbers <= 1))
    if bad.any():
        raise errors.invalid(way, 'lie in [0, 1]', numbers[bad].flat[0])
    if num_clients is None and way in ('client_rates', 'client_range'):
        raise errors.invalid('clients', f'be given with {way}', None)
    shape: dict[str, tuple[int, ...]] = {
        'rate': (),
        'confusion': (num_classes, num_classes),
        'client_rates': (num_clients or 0,),
        'client_range': (2,),
    }
    if numbers.shape != shape[way]:
        requirement = f'have shape {list(shape[way])}' if shape[way] else 'be a number'
        raise errors.invalid(way, requirement, f'shape {list(numbers.shape)}')
    if way == 'confusion' and not np.allclose(numbers.sum(axis=1), 1, rtol=0, atol=1e-6):
        row = int(np.argmax(np.abs(numbers.sum(axis=1) - 1)))
        raise errors.invalid(way, 'have rows of sum 1', f'{numbers[row].sum():g} in row {row}')
    if way == 'client_range':
        if numbers[0] > numbers[1]:
            raise errors.invalid(way, 'be low, then high', numbers.tolist())
        return way, np.linspace(numbers[0], numbers[1], num_clients or 1)
    return way, numbers.reshape(1) if way == 'rate' else numbers


def _last(others: NDArray[np.float64]) -> NDArray[np.int64]:
    """int[K], the last class that a label of each class can become."""
    possible = others > 0
    last: NDArray[np.int64] = others.shape[1] - 1 - np.argmax(possible[:, ::-1], axis=1)
    return last
