"""Federated problems: client data, a loss, and what to evaluate.

`from_arrays` and `from_flax` take anybody's data; `quadratic` has exact answers; `PROBLEMS` names
the ready-made ones.
"""

from fedjax_links.problems.arrays import Batch, from_arrays, from_flax
from fedjax_links.problems.classification import digits, federate, owners
from fedjax_links.problems.quadratic import counterexample, quadratic
from fedjax_links.problems.robust_regression import robust_regression
from fedjax_links.problems.synthetic import synthetic
from fedjax_links.problems.toy import triangle

PROBLEMS = {
    'counterexample': counterexample,
    'digits': digits,
    'quadratic': quadratic,
    'robust_regression': robust_regression,
    'synthetic': synthetic,
    'triangle': triangle,
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
    'robust_regression',
    'synthetic',
    'triangle',
]
