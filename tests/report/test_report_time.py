"""The time of the report that a dry run counts."""

import pytest

from fedjax_links import experiment
from fedjax_links.machines.compile_clock import CompileClock
from fedjax_links.report.report_time import ReportTimer
from tests.experiment.configs import tuned

CLIENT = {'learning_rate': 0.1, 'local_steps': 2, 'batch_size': 4}


@pytest.mark.parametrize(
    'seeds, num_lanes',
    [
        ({'num_seeds': 3}, 6),
        ({'num_seeds': None, 'seeds': {'until': 'decided', 'least': 2, 'most': 9}}, 4),
    ],
)
def test_clients_of_lanes_that_are_sure_to_run_are_counted(
    seeds, num_lanes, monkeypatch
):
    """A second for the metrics of each lane, and for the losses at one seed of both patterns."""
    config = tuned(
        tuning=None,
        client=CLIENT,
        grid={'client': {'local_steps': [1, 3]}},
        first_seed=None,
        **seeds,
    )
    planned = experiment.build({k: v for k, v in config.items() if v is not None})
    monkeypatch.setattr(ReportTimer, '_measure', lambda *arguments, **options: 1.0)
    timer = ReportTimer(planned, CompileClock())
    timer.time_clients(None, planned.plan.lanes_at_first('fedavg'))
    assert timer.seconds == num_lanes + 2
    assert timer.compiling == 0
