"""Problems that begin at given parameters, such as a model that was trained before."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links.base import Array, Key, Params, Problem
from fedjax_links.core import errors, tree


@dataclasses.dataclass(frozen=True, eq=False)
class _Given:
    """``key -> params`` that are the same for any key.

    Attributes:
      params: as they were given.
      names: of the leaves, in the order of ``structure``.
      structure: of the problem's own parameters.
      dtypes: likewise, of every leaf.
    """

    params: Params
    names: tuple[str, ...]
    structure: Any
    dtypes: tuple[np.dtype, ...]

    def __call__(self, key: Key) -> Params:
        del key
        leaves = tree.by_name(self.params)
        cast = [
            jnp.asarray(leaves[k], t)
            for k, t in zip(self.names, self.dtypes, strict=True)
        ]
        return jax.tree.unflatten(self.structure, cast)

    def __eq__(self, other: object) -> bool:
        """Problems with the same parameters share their programs."""
        if not isinstance(other, _Given):
            return NotImplemented
        alike = (self.structure, self.dtypes) == (other.structure, other.dtypes)
        return self.params is other.params and alike

    def __hash__(self) -> int:
        """Of what is compared."""
        return hash((id(self.params), self.dtypes))


def with_initial_params(problem: Problem, params: Params) -> Problem:
    """Lets every run of a problem begin at given parameters, whatever its key.

    Args:
      problem: the problem; data, loss and metrics stay.
      params: as the problem's own, leaf by leaf, by name and shape; floating-point numbers of any
        precision. `runs.model` returns those of a run; a mapping of ``'Dense_0.kernel'`` and the
        like will do.

    Returns:
      The problem.

    Raises:
      ValueError: naming the first leaf that is missing, unknown or of another shape.

    Example:
      >>> import fedjax_links as fl, jax
      >>> from fedjax_links import local_training, participation, problems
      >>> rule = fl.ALGORITHMS['fedavg'](local_training.local_sgd(0.1, local_steps=5))
      >>> given = jax.random.key(0), rule, participation.always(2)
      >>> first = fl.simulate(*given, problems.quadratic([[0.0], [1.0]]), num_rounds=8)
      >>> other = problems.quadratic([[1.0], [3.0]])
      >>> other = problems.with_initial_params(other, first.state.algorithm.server)
      >>> print(f'{float(other.init_params(jax.random.key(0))[0]):.3f}')
      0.493
    """
    own = jax.eval_shape(problem.init_params, jax.random.key(0))
    wanted, found = tree.by_name(own), tree.by_name(params)
    for name in wanted:
        if name not in found:
            raise errors.invalid('params', f'have the leaf {name!r}', ', '.join(found))
        _check_leaf(name, wanted[name], found[name])
    for name in found:
        if name not in wanted:
            raise errors.unknown_name('params', name, wanted)
    dtypes = tuple(leaf.dtype for leaf in wanted.values())
    given = _Given(params, tuple(wanted), jax.tree.structure(own), dtypes)
    return dataclasses.replace(problem, init_params=given)


def _check_leaf(name: str, wanted: Any, found: Array | np.ndarray) -> None:
    """Raises unless a leaf can be taken in place of another."""
    shape, dtype = np.shape(found), jnp.result_type(found)
    kinds = [jnp.issubdtype(of, jnp.floating) for of in (dtype, wanted.dtype)]
    if shape != wanted.shape or kinds[0] != kinds[1]:
        requirement = f'hold {wanted.dtype}{list(wanted.shape)} at {name!r}'
        raise errors.invalid('params', requirement, f'{dtype}{list(shape)}')
