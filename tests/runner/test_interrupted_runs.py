"""Interrupted runs end with the bytes of unbroken ones."""

import numpy as np
import pytest

import fedjax_links as fl
from fedjax_links import experiment
from fedjax_links.experiment import Callback
from fedjax_links.runner import save_clock
from tests.experiment.configs import tuned
from tests.runner.running import run_and_cut


@pytest.mark.parametrize(
    'saving', [pytest.param('always', marks=pytest.mark.slow), 'never']
)
def test_an_interrupted_run_has_the_bytes_of_an_unbroken_one(
    tmp_path, monkeypatch, saving
):
    """Cut in tuning, in the main part, and in the middle of a line."""
    monkeypatch.setattr(
        save_clock.SaveClock, 'is_due', lambda clock: saving == 'always'
    )
    planned = experiment.build(tuned())
    planned.run(tmp_path / 'unbroken')
    cut = tmp_path / 'cut'
    run_and_cut(planned, cut, algorithm='fedavg', stage='tuning', round=4)
    run_and_cut(planned, cut, algorithm='fedpbc', stage='tuning', round=8)
    run_and_cut(planned, cut, algorithm='fedpbc', stage='main', round=4)
    with (cut / fl.runs.METRICS).open('a') as metrics:
        metrics.write('{"algorithm": "fedpbc", "rou')
    first_rounds = {}

    class Watch(Callback):
        def on_period(self, lane, record):
            first_rounds.setdefault(
                (lane.algorithm, lane.stage, lane.position), record['round']
            )

    results = planned.run(cut, [Watch()])
    # A lane that was done is reported once, with its last round.
    assert first_rounds['fedavg', 'main', (0, 0)] == 8
    # The lane that was cut is reported from round 4 on, whether it resumes or begins again.
    assert first_rounds['fedpbc', 'main', (0, 0)] == 4
    for name in (fl.runs.METRICS, fl.runs.CONFIG, fl.runs.EXPERIMENT):
        assert (cut / name).read_bytes() == (tmp_path / 'unbroken' / name).read_bytes()
    again = fl.runs.read(cut)
    for name, column in results.columns.items():
        np.testing.assert_array_equal(again[name], column)
