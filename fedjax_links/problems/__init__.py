"""Federated problems: client data, a loss, and what to evaluate.

`from_arrays` and `from_flax` take anybody's data; `quadratic` has exact answers; `PROBLEMS` names
the ready-made ones.
"""

from fedjax_links.problems.arrays import Batch, from_arrays, from_flax
from fedjax_links.problems.classification import digits, federate, owners
from fedjax_links.problems.quadratic import counterexample, quadratic

PROBLEMS = {
    'counterexample': counterexample,
    'digits': digits,
    'quadratic': quadratic,
}

__all__ = [
    'PROBLEMS',
    'Batch',
    'counterexample',
    'digits',
    'federate',
    'from_arrays',
    'from_flax',
    'owners',
    'quadratic',
]
