"""What is known before a run starts."""

import re

import jax
import pytest

from fedjax_links import algorithms, experiment
from fedjax_links.core import errors, memory
from fedjax_links.experiment.looking import preflight
from fedjax_links.runner import groups
from tests.experiment.configs import tuned
from tests.runner.test_loop import in_python


def test_a_dry_run_says_what_will_run_and_what_it_needs(monkeypatch):
    monkeypatch.setattr(preflight, '_TIMED_SECONDS', 0.0)  # one period of each program
    planned = experiment.build(tuned())
    lines = list(preflight.dry_run(planned))
    text = '\n'.join(lines)
    assert 'config   num_rounds = 8' in text
    assert 'fedpbc           4 lanes of tuning and 4 lanes in 2 programs; a lane keeps' in text
    # Softmax regression on 64 pixels has 650 parameters; every one of 8 clients keeps them.
    assert 'server 2.5 KiB, clients 20.3 KiB' in text
    assert len(re.findall(r'compiled in [\d.]+ s; [\d,]+ rounds/s', text)) == 2
    assert lines[-1].startswith('time     about ')


def broken(local_train):
    """FedAvg whose state changes its shape in the first round."""
    plain = algorithms.fedavg(local_train)

    def round_step(state, ctx, problem):
        state, metrics = plain.round_step(state, ctx, problem)
        return jax.tree.map(lambda a: a[None], state), metrics

    return plain._replace(round_step=round_step)


def test_an_algorithm_that_cannot_run_is_named_before_anything_compiles():
    config = tuned(algorithms={'mine': {'name': f'{__name__}:broken'}, 'fedavg': {}})
    planned = experiment.build(config)
    message = r'`config\.algorithms\.mine` must run on pattern bernoulli, got TypeError: '
    with pytest.raises(errors.InvalidError, match=message):
        planned.check()


def test_a_bug_of_the_package_stays_what_it_is(monkeypatch):
    planned = experiment.build(tuned())
    monkeypatch.setattr(groups.Group, 'inputs', lambda self: 1 + 'x')
    with pytest.raises(TypeError) as caught:
        planned.check()
    assert caught.value.__notes__ == ['config.algorithms.fedavg on pattern bernoulli']


def test_what_cannot_fit_is_refused(monkeypatch):
    planned = in_python()
    planned.check()
    monkeypatch.setattr(memory, 'available_bytes', lambda: 100)
    with pytest.raises(ValueError, match=r'must fit into memory: fedpbc needs .* would fit\.'):
        planned.check()
