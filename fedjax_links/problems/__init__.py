"""Federated problems: client data, a loss, and what to evaluate.

`from_arrays` and `from_flax` take anybody's data; `quadratic` has exact answers; `PROBLEMS` names
the ready-made ones.
"""

from fedjax_links.problems.arrays import Batch, from_arrays, from_flax
from fedjax_links.problems.quadratic import quadratic

PROBLEMS = {
    'quadratic': quadratic,
}

__all__ = ['PROBLEMS', 'Batch', 'from_arrays', 'from_flax', 'quadratic']
