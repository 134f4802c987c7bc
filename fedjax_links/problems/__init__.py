"""Builds federated problems: client data, a loss, and evaluation data.

* `from_arrays` and `from_flax` take arrays and the owner of each example, the client that has it.
  `owners` returns the owners of a problem.
* `generated` makes the data of a client whenever it trains.
* `images`, `text` and `digits` spread a data set over clients. The data set of `digits` is built
  in.
* `quadratic` and `counterexample` have exact answers. `robust_regression` has exact gradients.
* `gaussians` and `gaussian_regression` have a known difficulty, `synthetic` is a published task.
* `label_noise` makes labels wrong. `with_initial_params` starts all runs at the same parameters.

`PROBLEMS` names those that configs can use.
"""

from collections.abc import Callable, Mapping

from fedjax_links import datasets, partition
from fedjax_links.base import LinearObjective, Problem
from fedjax_links.core.registry import Registry
from fedjax_links.problems.arrays import Batch, from_arrays, generated
from fedjax_links.problems.augmentation import label_noise
from fedjax_links.problems.classification import digits, images, owners, text
from fedjax_links.problems.gaussians import gaussian_regression, gaussians, synthetic
from fedjax_links.problems.networks import from_flax
from fedjax_links.problems.robust import robust_regression
from fedjax_links.problems.starting import with_initial_params
from fedjax_links.problems.vectors import counterexample, quadratic

_VECTORS = counterexample, gaussian_regression, quadratic, robust_regression
_CLASSES = digits, gaussians, images, synthetic, text
PROBLEMS: Mapping[str, Callable[..., Problem]] = Registry(
    {factory.__name__: factory for factory in (*_VECTORS, *_CLASSES)}
)

__all__ = [
    'PROBLEMS',
    'Batch',
    'LinearObjective',
    'counterexample',
    'datasets',
    'digits',
    'from_arrays',
    'from_flax',
    'gaussian_regression',
    'gaussians',
    'generated',
    'images',
    'label_noise',
    'owners',
    'partition',
    'quadratic',
    'robust_regression',
    'synthetic',
    'text',
    'with_initial_params',
]
