"""Imports the packages of the report while lanes run, so that the report need not wait.

A lane is one algorithm, pattern, grid point and seed.
"""

import importlib

from fedjax_links.core.records import MetricsRow
from fedjax_links.planning.lanes import Lane
from fedjax_links.runner.hooks import Callback

_PACKAGES = ('matplotlib.figure', 'xarray')


class ReportImports(Callback):
    """Imports packages after the first period (rounds up to an evaluation), while others run.

    The imports take place in the thread that runs the lanes, as two threads that load extension
    modules can deadlock. A module that runs Python while it loads, as `matplotlib.ft2font` does,
    may release the interpreter's lock. The thread that takes the interpreter's lock may wait for
    the loader's lock.
    """

    def on_period(self, lane: Lane, record: MetricsRow) -> None:
        """Imports the packages that are not imported yet."""
        for name in _PACKAGES:
            importlib.import_module(name)
