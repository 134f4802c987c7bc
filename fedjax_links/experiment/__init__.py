"""Runs experiments: problem x link patterns x algorithms x grid x seeds, with tuning.

`Experiment` is built from objects, or by `build` from a config; `Experiment.run` runs it.
"""

from fedjax_links.experiment.definition import Experiment, build
from fedjax_links.planning.lanes import Lane
from fedjax_links.planning.parametrized import Maker
from fedjax_links.planning.sequential_seeds import UntilDecided
from fedjax_links.planning.tuning import Tuning
from fedjax_links.planning.tuning_uncertainty import tuning_noise
from fedjax_links.runner.hooks import Callback, Stop
from fedjax_links.runner.loop import FailedLanesError
from fedjax_links.runner.progress import Progress

__all__ = [
    'Callback',
    'Experiment',
    'FailedLanesError',
    'Lane',
    'Maker',
    'Progress',
    'Stop',
    'Tuning',
    'UntilDecided',
    'build',
    'tuning_noise',
]
