"""Runs and forks experiments with what `Experiment` leaves to its plan's runner."""

import pytest

from fedjax_links import experiment
from fedjax_links.experiment import Callback, forking
from fedjax_links.runner import hooks, loop


def run(planned, folder=None, callbacks=(), **options):
    """Runs an experiment as `loop.run` runs its plan.

    Args:
      planned: the experiment.
      folder: as in `Experiment.run`.
      callbacks: as in `Experiment.run`.
      **options: of `loop.run`.
    """
    listeners = hooks.Listeners(callbacks, experiment=planned)
    return loop.run(planned.plan, folder, listeners, **options)


def fork(planned, folder, at_round, **options):
    """Returns the states with which an experiment begins after a round of a run.

    Args:
      planned: the experiment.
      folder: of the run.
      at_round: the round.
      **options: of `forking.Fork`.
    """
    return forking.Fork(
        planned.plan, folder, at_round, build=experiment.build, **options
    )


def start(planned, folder):
    """Describes an experiment in a folder as a run does, and stops before anything runs."""

    class StopAtStart(Callback):
        def on_start(self, experiment):
            raise hooks.Stop

    with pytest.raises(hooks.Stop):
        planned.run(folder, [StopAtStart()])


def run_and_cut(planned, folder, *, algorithm, stage, round, programs=None):
    """Runs until a lane of an algorithm completed a round, and stops like a power cut.

    Args:
      planned: the experiment.
      folder: of the run.
      algorithm: label of the lane.
      stage: of the lane.
      round: the last that it completes.
      programs: those of the plan, if they exist already.
    """

    class PowerCutError(Exception):
        pass

    class Cut(Callback):
        def on_period(self, lane, record):
            if (lane.algorithm, lane.stage, record['round']) == (
                algorithm,
                stage,
                round,
            ):
                raise PowerCutError

    with pytest.raises(PowerCutError):
        run(planned, folder, [Cut()], programs=programs)
