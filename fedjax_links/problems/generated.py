"""Problems whose examples are stored nowhere: each client's are made whenever it trains."""

from collections.abc import Callable, Collection, Mapping

import jax
import jax.numpy as jnp

from fedjax_links.base import Array, Key, Params, Problem, PyTree, Source
from fedjax_links.core import checks, errors
from fedjax_links.problems.arrays import directions, loss_alone
from fedjax_links.problems.partials import Partial

_EVALUATED = 100


def generated(
    examples: Callable[[Key, Array], PyTree],
    *,
    num_clients: int,
    init_params: Callable[[Key], Params],
    loss_fn: Callable[[Params, PyTree], Array],
    seed: int = 0,
    metrics: Callable[[Params, PyTree], Mapping[str, Array]] | None = None,
    eval_data: PyTree | None = None,
    larger_is_better: Collection[str] | None = None,
) -> Problem:
    """A federated problem of any number of clients, whose data are a function of the client.

    Client i has the same examples in every round, ``examples(fold_in(key(seed), i), i)``; they are
    made for the clients that train and then forgotten, so that nothing is kept per client.

    Args:
      examples: ``(key, client id) -> examples``, leaves [m, ...], written for one client.
      num_clients: N.
      init_params: ``key -> params``.
      loss_fn: ``(params, batch) -> []``, mean loss over a batch of such examples.
      seed: of the data, at least 0 and below 2^32.
      metrics: ``(params, eval_data) -> {name: []}``; the loss alone by default.
      eval_data: what ``metrics`` reads; by default the examples of the first 100 clients, and what
        experiments measure there is called ``train_...``.
      larger_is_better: names of the metrics that are better when larger; None: not stated.

    Returns:
      The problem.

    Raises:
      ValueError: if a number is out of range or ``examples`` gives leaves of unequal length.
    """
    checks.static_int('num_clients', num_clients)
    checks.seed('seed', seed)
    key = jax.random.key(seed)
    make = Partial(_make, examples)
    shapes = jax.tree.leaves(jax.eval_shape(make, key, jnp.int32(0)))
    lengths = {leaf.shape[0] if leaf.ndim else 0 for leaf in shapes}
    if len(lengths) != 1 or 0 in lengths:
        given = [list(leaf.shape) for leaf in shapes]
        raise errors.invalid('examples', 'give leaves of one length, at least 1', given)
    own = eval_data is None
    if own:
        clients = jnp.arange(min(num_clients, _EVALUATED), dtype=jnp.int32)
        by_client = jax.vmap(make, in_axes=(None, 0))(key, clients)
        eval_data = jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:]), by_client)
    measure = metrics or Partial(loss_alone, loss_fn)
    params = jax.eval_shape(init_params, key)
    (length,) = lengths
    return Problem(
        data=key,
        owned=Source(make=make, num_clients=num_clients),
        eval_data=eval_data,
        init_params=init_params,
        loss_fn=loss_fn,
        metrics=measure,
        min_examples=length,
        max_examples=length,
        larger_is_better=directions(larger_is_better, measure, params, eval_data),
        held_out=False if own else None,
    )


def _make(examples: Callable[[Key, Array], PyTree], data_key: Key, client: Array) -> PyTree:
    return examples(jax.random.fold_in(data_key, client), client)
