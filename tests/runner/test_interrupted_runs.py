"""Interrupted runs end with the bytes of unbroken ones."""

import numpy as np
import pytest

import fedjax_links as fl
from fedjax_links import experiment
from fedjax_links.experiment import Callback
from fedjax_links.runner import save_clock
from fedjax_links.runner.program_cache import Programs
from tests.experiment.configs import last_files_of, tuned
from tests.runner import running


@pytest.mark.parametrize(
    'saving', ['always', pytest.param('never', marks=pytest.mark.slow)]
)
def test_an_interrupted_run_has_the_bytes_of_an_unbroken_one(
    tuned_run, tmp_path, monkeypatch, saving
):
    """Cut in tuning, in the main part, and in the middle of a line.

    Lanes that were cut resume from their last save, or begin again where there is none.
    Only programs are kept from cut to cut, as to trace and compile them takes most of the time.
    """
    monkeypatch.setattr(
        save_clock.SaveClock, 'is_due', lambda clock: saving == 'always'
    )
    planned = experiment.build(tuned())
    programs = Programs(planned.plan)
    cut = tmp_path / 'cut'
    for algorithm, stage, round in (
        ('fedavg', 'tuning', 4),
        ('fedpbc', 'tuning', 8),
        ('fedpbc', 'main', 4),
    ):
        running.run_and_cut(
            planned,
            cut,
            algorithm=algorithm,
            stage=stage,
            round=round,
            programs=programs,
        )
    with (cut / fl.runs.METRICS).open('a') as metrics:
        metrics.write('{"algorithm": "fedpbc", "rou')
    first_rounds = {}

    class Watch(Callback):
        def on_period(self, lane, record):
            first_rounds.setdefault(
                (lane.algorithm, lane.stage, lane.position), record['round']
            )

    results = running.run(planned, cut, [Watch()], programs=programs)
    # A lane that was done is reported once, with its last round.
    assert first_rounds['fedavg', 'main', (0, 0)] == 8
    # The lane that was cut is reported from round 4 on, whether it resumes or begins again.
    assert first_rounds['fedpbc', 'main', (0, 0)] == 4
    assert last_files_of(cut) == last_files_of(tuned_run)
    again = fl.runs.read(cut)
    for name, column in results.columns.items():
        np.testing.assert_array_equal(again[name], column)
