"""An experiment: problem x link patterns x algorithms x grid x seeds, tuned where asked for.

`Experiment` is built from objects, or by `build` from a config; `Experiment.run` runs it.
"""

from fedjax_links.experiment.config import build
from fedjax_links.experiment.definition import Experiment
from fedjax_links.experiment.hooks import Callback, Stop
from fedjax_links.experiment.lanes import Lane
from fedjax_links.experiment.makers import Maker
from fedjax_links.experiment.tuning import Tuning

__all__ = ['Callback', 'Experiment', 'Lane', 'Maker', 'Stop', 'Tuning', 'build']
