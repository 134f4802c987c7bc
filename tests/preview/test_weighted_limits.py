"""Limits of linear models over links with memory: the lines of `theory`, and the hint to them."""

import numpy as np
import pytest

from fedjax_links import analysis
from fedjax_links.preview import predicted_lines, prediction, theory, weighted_limits
from tests.report import plans

PROBS = (0.2, 0.5, 0.8, 0.3)
PROBLEM = {
    'name': 'gaussians',
    'num_clients': 4,
    'num_classes': 3,
    'bayes_accuracy': 0.6,
    'examples_per_client': 60,
    'alpha': 0.5,
    'seed': 0,
}
RUN = {'client': {'learning_rate': 0.2, 'local_steps': 3}}


def plan(links, algorithms=('fedavg', 'fedavg_known')):
    sections = {label: {} for label in algorithms}
    return plans.plan(links, PROBLEM, algorithms=sections, **RUN)


def markov(probs=PROBS):
    return {'name': 'markov', 'probs': probs, 'up_rate': 0.05}


def test_lines_are_those_of_the_analysis():
    built = plan(markov())
    heading, line = weighted_limits.describe(built, prediction.LONG)
    assert heading.endswith('[without memory]')
    predictor = prediction.make_predictor(built.problem)
    probs = np.array(PROBS)
    texts = []
    for up, down in ((0.05, 0.05 * (1 - probs) / probs), (probs, 1 - probs)):
        model = analysis.weighted_finite_steps(
            *predictor.data,
            up_rate=np.broadcast_to(up, 4),
            down_rate=down,
            multipliers=1 / probs,
            learning_rate=0.2,
            local_steps=3,
            **predictor.options,
        )
        texts.append(predicted_lines.metric_text(predictor.metrics(model)))
    assert line == f'  fedavg_known is expected to end at {texts[0]} [{texts[1]}]'
    assert texts[0] != texts[1]
    assert heading in theory.text(built, plans.record(built, 64))


@pytest.mark.parametrize(
    'links, algorithms',
    [
        ({'name': 'bernoulli', 'probs': PROBS}, ('fedavg_known',)),
        (markov((0.0, 0.5, 0.8, 0.3)), ('fedavg_known',)),
        (markov(), ('fedavg', 'fedpbc')),
        ({'name': 'cyclic', 'probs': PROBS}, ('fedavg_known',)),
    ],
)
def test_other_runs_have_no_lines(links, algorithms):
    built = plan(links, algorithms)
    assert weighted_limits.describe(built, prediction.LONG) == []


def test_many_or_long_labels_keep_to_80_columns(monkeypatch):
    sections = {
        f'fedau_cutoff_{cutoff}': {'name': 'fedau', 'cutoff': cutoff}
        for cutoff in range(10, 80, 10)
    }
    sections['fedavg_known_with_a_long_label_that_says_what_is_particular'] = {
        'name': 'fedavg_known'
    }
    built = plans.plan(markov(), PROBLEM, algorithms=sections, **RUN)
    limits = weighted_limits.describe(built, prediction.LONG)
    assert max(map(len, limits)) <= 80
    monkeypatch.setattr(weighted_limits, '_MAX_WORK', 0)
    hint = weighted_limits.describe(built, prediction.LONG)
    assert max(map(len, hint)) <= 80
    text = ' '.join(line.strip() for line in hint)
    assert text.endswith(f'says what memory does to {", ".join(sections)}')


def test_the_reason_of_a_long_label_keeps_to_80_columns():
    label = 'fedpbc_whose_clients_train_in_rounds_in_which_they_are_active_alone'
    sections = {'fedavg': {}, label: {'name': 'fedpbc', 'compute': 'active'}}
    built = plans.plan(markov(), PROBLEM, algorithms=sections, **RUN)
    lines = theory.text(built, plans.record(built, 64)).splitlines()
    assert max(map(len, lines)) <= 80
    text = ' '.join(line.strip() for line in lines)
    assert f'no end of FedPBC predicted: clients of {label} pause' in text


def test_a_run_hints_at_the_command_with_these_lines():
    sections = {'fedavg': {}, 'fedavg_known': {}}
    config = {'problem': PROBLEM, 'links': markov(), 'algorithms': sections, **RUN}
    hint = '         `theory` says what memory does to fedavg_known'
    assert hint in plans.summary_lines(config)
