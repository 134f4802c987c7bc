"""What is read from the lines of a run."""

from fedjax_links.results import recorded

FACTS = {
    'algorithms': ['fedavg'],
    'models': {'fedavg': ['server']},
    'grid': {},
    'metric': 'eval_accuracy',
    'num_rounds': 4,
    'eval_every': 2,
    'evaluate_start': False,
    'tuning': {'grid': {'rate': [0.1, 0.2]}, 'model': None},
}


def test_a_run_without_lines_has_no_final_metrics():
    for stage in (recorded.MAIN, recorded.TIE):
        assert recorded.final_metrics({}, FACTS, 'fedavg', stage=stage) == {}
