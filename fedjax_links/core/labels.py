"""Reads the classes of a problem's examples."""

import numpy as np

from fedjax_links.base import ExampleGenerator, Problem


def class_labels(problem: Problem) -> np.ndarray | None:
    """Returns the class of each stored example; None where examples have no single class.

    Examples have no single class if there are no labels, or if labels are real numbers or several
    tokens. The same holds if an `ExampleGenerator` makes the examples.

    Args:
      problem: the problem, or an object with the same ``data`` and ``owned``.

    Returns:
      int[E], or None.
    """
    labels = getattr(problem.data, 'labels', None)
    if labels is None or isinstance(problem.owned, ExampleGenerator):
        return None
    classes = np.asarray(labels)
    if classes.ndim != 1 or not np.issubdtype(classes.dtype, np.integer):
        return None
    return classes
