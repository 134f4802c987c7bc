"""Anybody's data as arrays with owners, for `from_arrays` and `from_flax`.

No library is imported here: a data set brings its own.
"""

from fedjax_links.problems.adapters.examples import Examples
from fedjax_links.problems.adapters.hugging_face import from_hugging_face
from fedjax_links.problems.adapters.leaf import from_leaf
from fedjax_links.problems.adapters.pandas_frame import from_pandas
from fedjax_links.problems.adapters.torch_dataset import from_torch

__all__ = ['Examples', 'from_hugging_face', 'from_leaf', 'from_pandas', 'from_torch']
