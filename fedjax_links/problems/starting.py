"""Starts problems at fixed parameters, such as a trained model's."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links.base import Array, Key, Params, Problem
from fedjax_links.core import checks, contracts, errors, tree


@dataclasses.dataclass(frozen=True, eq=False)
class _FixedParams:
    """Returns the same parameters for any key.

    Attributes:
      params: the parameters, leaves by name.
      shapes: shapes of the problem's parameters. What is returned has their structure and dtypes.
    """

    params: Params
    shapes: Params

    def __call__(self, key: Key) -> Params:
        del key
        by_name = tree.by_name(self.params)
        leaves = [
            jnp.asarray(by_name[name], leaf.dtype)
            for name, leaf in tree.by_name(self.shapes).items()
        ]
        return jax.tree.unflatten(jax.tree.structure(self.shapes), leaves)

    def __eq__(self, other: object) -> bool:
        """Compares the identity of ``params``: problems with the same object share programs."""
        if not isinstance(other, _FixedParams):
            return NotImplemented
        has_same_params = self.params is other.params
        return has_same_params and (
            jax.tree.flatten(self.shapes) == jax.tree.flatten(other.shapes)
        )

    def __hash__(self) -> int:
        """Hashes what is compared."""
        return hash((id(self.params), jax.tree.structure(self.shapes)))


def with_initial_params(problem: Problem, params: Params) -> Problem:
    """Starts all runs of a problem at the same parameters, whatever their keys.

    Args:
      problem: the problem; data, loss and metrics stay.
      params: leaves with the names and shapes of the problem's parameters, in floating-point
        numbers of any precision. `runs.model` returns those of a run; a mapping of
        ``'Dense_0.kernel'`` and the like will do.

    Returns:
      The problem.

    Raises:
      ValueError: naming the first leaf that is missing, unknown, of another shape, or not finite
        (as after a run that diverged).

    Example:
      >>> import fedjax_links as fl, jax
      >>> from fedjax_links import local_training, participation, problems
      >>> fedavg = fl.ALGORITHMS['fedavg'](local_training.local_sgd(0.1, local_steps=5))
      >>> pattern = participation.always(2)
      >>> problem = problems.quadratic([[0.0], [1.0]])
      >>> first = fl.simulate(jax.random.key(0), fedavg, pattern, problem, num_rounds=8)
      >>> other = problems.quadratic([[1.0], [3.0]])
      >>> other = problems.with_initial_params(other, first.state.algorithm.server)
      >>> print(f'{float(other.init_params(jax.random.key(0))[0]):.3f}')
      0.493
    """
    contracts.check_problem(problem)
    shapes = jax.eval_shape(problem.init_params, jax.random.key(0))
    expected = tree.by_name(shapes)
    leaves = tree.by_name(params)
    names = ', '.join(filter(None, leaves))
    got = f'leaves {names}' if names else errors.text_of(params)
    for name in expected:
        if name not in leaves:
            requirement = f'have the leaf {name!r}' if name else 'be one array'
            raise errors.invalid('params', requirement, got)
        _check_leaf(name, expected[name], leaves[name])
    for name in leaves:
        if name not in expected:
            raise errors.unknown_name('params', name, expected)
    return dataclasses.replace(problem, init_params=_FixedParams(params, shapes))


def _check_leaf(
    name: str, expected: jax.ShapeDtypeStruct | Array, leaf: Array | np.ndarray
) -> None:
    """Checks that a leaf has the shape and kind of numbers of the problem's leaf."""
    # Parameters that are one array have no name.
    where = f' at {name!r}' if name else ''
    requirement = f'hold {expected.dtype}{list(expected.shape)}{where}'
    if isinstance(leaf, str | bytes):
        raise errors.invalid('params', requirement, errors.text_of(leaf))
    try:
        shape = np.shape(leaf)
        dtype = jnp.result_type(leaf)
    except (TypeError, ValueError):  # A function, for instance.
        raise errors.invalid('params', requirement, errors.text_of(leaf)) from None
    is_float = jnp.issubdtype(dtype, jnp.floating)
    expects_float = jnp.issubdtype(expected.dtype, jnp.floating)
    if shape != expected.shape or is_float != expects_float:
        raise errors.invalid('params', requirement, f'{dtype}{list(shape)}')
    if checks.is_concrete(leaf) and is_float:
        with np.errstate(over='ignore'):
            numbers = np.asarray(leaf).astype(expected.dtype)
        if not np.isfinite(numbers).all():
            first = numbers[~np.isfinite(numbers)][0]
            raise errors.invalid('params', f'be finite{where}', first)
