"""Defines registries and their entries: factories with what the conformance suites need."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

import numpy as np

from fedjax_links.base import Algorithm, Participation
from fedjax_links.core import contracts, errors, reprs
from fedjax_links.core.references import Reference, references_of

RegistryEntry = TypeVar('RegistryEntry')

_FORMER_NAMES = {
    'look_alike': 'synthetic_trace',
    'levels': 'comparison',
    'price': 'cost',
}
"""Names of version 0.1.0 that still work, and what they are called now."""


def current_name(name: Any) -> Any:
    """Returns the present name for an entry's former name; any other name stays as it is."""
    return _FORMER_NAMES.get(name, name) if isinstance(name, str) else name


@reprs.described(reprs.registry_text)
class Registry(dict[str, RegistryEntry]):
    """Maps names to entries. The error for an unknown name says which name is nearest."""

    def __missing__(self, name: str) -> RegistryEntry:
        """Returns the entry with a former name, or raises a KeyError of one line."""
        if current_name(name) in self:
            return self[current_name(name)]
        near = entry_known_as(name, self)
        raise KeyError(str(errors.unknown_name('name', name, self, near=near)))


def entry_known_as(name: object, entries: Mapping[str, Any]) -> str | None:
    """Finds an entry by another name that the literature has for the method.

    Args:
      name: what the user wrote; case and punctuation do not count.
      entries: the entries of a registry.

    Returns:
      The name under which the entry is registered; None if there is no such entry.
    """
    folded = _folded(str(name))
    for registered, entry in entries.items():
        others = getattr(entry, 'also_known_as', ())
        if folded in map(_folded, others):
            return registered
    return None


def _folded(name: str) -> str:
    """Returns the letters and digits of a name, in lower case."""
    return ''.join(filter(str.isalnum, name.casefold()))


def check_client_program(local_train: object) -> None:
    """Raises unless it is a client program."""
    if not callable(getattr(local_train, 'run', None)):
        requirement = (
            'be a client program, such as local_training.local_sgd(0.1, local_steps=5)'
        )
        raise errors.invalid('local_train', requirement, contracts.kind_of(local_train))


class Traffic(NamedTuple):
    """Describes what the clients of an algorithm send, receive and compute.

    Attributes:
      up: how many models a client sends when its uplink delivers.
      down: how many models a client receives.
      peers: how many models a client sends over each edge to a neighbour that is up.
      everyone: whether clients whose upload does not arrive train, too. None for an algorithm with
        the option ``compute``: such clients train if ``compute`` is ``'all'``.
      default: the default of ``compute``, ``'active'`` or ``'all'``.
      awaits_compute: whether a round lasts as long as its local steps. False if a client trains
        before the round in which its update arrives.
      senders: ``(mask bool[T, N], options) -> bool[T, N]``, the clients that send and receive.
        None for all clients whose uplink delivers.
    """

    up: int = 1
    down: int = 1
    peers: int = 0
    everyone: bool | None = False
    default: str = 'active'
    awaits_compute: bool = True
    senders: Callable[[np.ndarray, Mapping[str, Any]], np.ndarray] | None = None


@reprs.described(reprs.call_text)
class AlgorithmEntry(NamedTuple):
    """Describes a registered algorithm; calling the entry calls its factory.

    Attributes:
      factory: ``(local_train, **hyper_parameters) -> Algorithm``, where ``local_train`` is a client
        program: the local training of one client.
      example: values for the factory's required hyper-parameters.
      full_participation_is_fedavg: with every client active in every round, the server's trajectory
        is FedAvg's.
      empty_round_keeps_server: a round without active clients leaves the server model as it is.
      uses_links: only clients whose uplink delivers influence the server.
      trains_on_batches: clients read only the examples that their client program draws.
      client_program: factory of the client program that the algorithm is defined with, called as
        ``(learning_rate, *, local_steps, batch_size, **client_example)``; None for
        `local_training.local_sgd`.
      client_example: values for that factory's further required hyper-parameters.
      traffic: what its clients send, receive and compute.
      also_known_as: names of methods that this algorithm is, or is with other options. The registry
        has no entries under these names: the error for one names this algorithm.
    """

    factory: Callable[..., Algorithm]
    example: Mapping[str, Any] = {}
    full_participation_is_fedavg: bool = True
    empty_round_keeps_server: bool = True
    uses_links: bool = True
    trains_on_batches: bool = True
    client_program: Callable[..., Any] | None = None
    client_example: Mapping[str, Any] = {}
    traffic: Traffic = Traffic()
    also_known_as: tuple[str, ...] = ()

    def __call__(self, *args: object, **kwargs: object) -> Algorithm:
        """Builds the algorithm.

        Raises:
          ValueError: for what is no client program.
        """
        check_client_program(args[0] if args else kwargs.get('local_train'))
        return self.factory(*args, **kwargs)

    @property
    def references(self) -> tuple[Reference, ...]:
        """Returns the sources of the method, or of the client program that it is defined with."""
        return references_of(self.client_program or self.factory)

    @property
    def citation(self) -> str:
        """Returns the BibTeX entries of `references`, one after the other."""
        return '\n\n'.join(reference.bibtex for reference in self.references)


@reprs.described(reprs.call_text)
class ParticipationEntry(NamedTuple):
    """Describes a registered pattern; calling the entry calls its factory.

    Attributes:
      factory: the pattern's factory.
      example: ``num_clients -> Participation``, a typical instance.
      cohort_size: ``num_clients -> int``, how many clients are active in every round of the
        example; None if their number varies.
      prob_is_marginal: whether, in every single round, ``prob`` is the probability over seeds that
        a client of the example is active. False if ``prob`` holds only over time, as for a cycle
        that begins with an inactive phase.
      carries_pattern: whether the carry is the carry of an inner pattern, the argument ``pattern``.
        A carry that differs only by the order in which a cap selects clients counts, too.
      law: the exact law of who takes part, a function from `participation.link_laws.LawInputs` to
        `participation.link_laws.LinkLaw`. None for a pattern that can only be simulated.
    """

    factory: Callable[..., Participation]
    example: Callable[[int], Participation]
    cohort_size: Callable[[int], int] | None = None
    prob_is_marginal: bool = True
    carries_pattern: bool = False
    law: Callable[..., Any] | None = None

    def __call__(self, *args: object, **kwargs: object) -> Participation:
        """Builds the pattern."""
        return self.factory(*args, **kwargs)

    @property
    def references(self) -> tuple[Reference, ...]:
        """Returns the sources of the pattern; empty for one without, such as an outage."""
        return references_of(self.factory)

    @property
    def citation(self) -> str:
        """Returns the BibTeX entries of `references`; empty without a source."""
        return '\n\n'.join(reference.bibtex for reference in self.references)
