"""The report says which simulations diverged, and in which round."""

import numpy as np
import pytest

from fedjax_links import experiment, report
from fedjax_links.report import layouts
from tests.experiment.configs import values
from tests.report.made import ends, results


@pytest.mark.slow
@pytest.mark.usefixtures('unrendered')
def test_the_report_names_diverged_lanes_and_their_round(tmp_path):
    config = values(
        algorithms={'fedavg': {}, 'fedpbc': {}},
        names=(('fedavg', 'FedAvg'), ('fedpbc', 'FedPBC')),
        grid={'client': {'learning_rate': (0.1, 1e38)}},
        num_seeds=1,
    )
    run = experiment.build(config).run(tmp_path)
    bad = ~run['finite']
    assert set(run['client.learning_rate'][bad]) == {1e38}
    report.write(run)
    text = (tmp_path / 'report.md').read_text()
    (line,) = [line for line in text.splitlines() if 'Diverged' in line]
    first_rounds = run['first_bad_round'][bad].astype(int)
    rounds = dict(zip(run['algorithm'][bad], first_rounds, strict=True))
    assert line == (
        'Diverged (rounds count from 0): '
        f'FedAvg (learning_rate 1e+38), links, seed 0 in round {rounds["fedavg"]}; '
        f'FedPBC (learning_rate 1e+38), links, seed 0 in round {rounds["fedpbc"]}.'
    )
    assert 'diverged' in text


def test_a_long_list_is_cut(tmp_path):
    result = results(
        {'fedavg': ends(0.5)}, diverged=[f'lane {i} in round 3' for i in range(40)]
    )
    layouts.write(tmp_path, result, {})
    text = (tmp_path / 'report.md').read_text()
    assert 'lane 29 in round 3; 10 more.' in text


def test_a_rate_that_diverges_is_not_chosen():
    """Its model has the accuracy of guessing one class, which is a number."""
    tuning = {
        'learning_rates': (1e38, 1e-6),
        'pattern': 'links',
        'num_rounds': 2,
        'num_seeds': 1,
    }
    client = {'local_steps': 2, 'batch_size': 4}
    planned = experiment.build(values(client=client, tuning=tuning, num_seeds=1))
    run = planned.run()
    (accuracy,) = run['server/eval_accuracy'][run['client.learning_rate'] == 1e38]
    assert np.isfinite(accuracy)
    assert set(run['client.learning_rate'][run['stage'] == 'main']) == {1e-6}
