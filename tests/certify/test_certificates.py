"""Certificates: what computes as it says holds, and what does not is named."""

import json
import subprocess
import sys

import jax
import numpy as np
import pytest

from fedjax_links.algorithms import ALGORITHMS
from fedjax_links.base import LinkSample
from fedjax_links.certify import certificates, float64_reference
from fedjax_links.certify.certificates import ProgramVerdict
from fedjax_links.config import resolver
from fedjax_links.machines import environment
from fedjax_links.participation import PARTICIPATION
from fedjax_links.problems.classification import MODELS
from tests import ROOT, refusals
from tests.certify import scaled
from tests.experiment.configs import values
from tests.experiment.several import environment as users_environment

CONFIG = values(
    problem={'name': 'tests.certify.scaled:scaled_digits', 'num_clients': 6},
    tuning={'learning_rates': (0.1, 0.2), 'num_rounds': 4},
    client={'local_steps': 2, 'batch_size': 4},
)


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    """Certificates of tests are not the user's."""
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'cache'))


@pytest.mark.slow
def test_a_dot_that_drops_the_factor_of_its_bias_is_found(monkeypatch, tmp_path):
    results = {verdict.program: verdict for verdict in certificates.certify(CONFIG)}
    assert all(verdict.holds for verdict in results.values())
    rounds = results['fedavg, links']
    # Rounding, and not zero by comparing nothing.
    assert 0 < rounds.error < rounds.bound / 10
    monkeypatch.setattr(scaled, 'layer', scaled.faulty_layer)
    results = {verdict.program: verdict for verdict in certificates.certify(CONFIG)}
    off = [name for name, verdict in results.items() if not verdict.holds]
    assert off == ['fedavg, links']
    assert results['fedavg, links'].error > 0.1
    assert results['fedavg, links'].where.startswith('.server')
    assert not certificates.keep(results.values(), tmp_path)
    saved = json.loads((tmp_path / certificates.FILE).read_text())
    assert [row['program'] for row in saved['programs'] if not row['holds']] == off
    assert saved['fingerprint'] == json.loads(json.dumps(environment.fingerprint()))


def test_links_of_other_draws_are_found():
    exact = {'.mask': np.array([True, False]), '.prob': np.array([0.5, np.nan])}

    def compare(mask, prob):
        links = LinkSample(mask=np.array(mask), prob=np.array(prob, np.float32))
        return certificates._compare_links('links', links, exact)

    half = 0.5  # of the values differ
    equal = compare([True, False], [0.5, np.nan])
    assert equal == ProgramVerdict('links', 0.0, 0.0, '')
    other_mask = compare([True, True], [0.5, np.nan])
    assert other_mask == ProgramVerdict('links', half, 0.0, '.mask')
    other_prob = compare([True, False], [0.4, np.nan])
    assert other_prob == ProgramVerdict('links', half, 0.0, '.prob')


@pytest.mark.slow
@pytest.mark.parametrize('rate, holds', [(0.1, True), (0.11, False)])
def test_theory_finds_another_mean(monkeypatch, rate, holds):
    make = ALGORITHMS['fedavg']

    def off(program):
        return make(certificates.local_training.local_sgd(rate, local_steps=3))

    changed = {**ALGORITHMS, 'fedavg': off}
    monkeypatch.setattr(certificates.algorithms, 'ALGORITHMS', changed)
    fedavg, fedpbc = certificates._certify_means()
    assert (fedavg.holds, fedpbc.holds) == (holds, True)


def test_what_is_not_finite_holds_nowhere():
    before = {"['w']": np.zeros(2)}
    after = {"['w']": np.ones(2)}
    assert certificates._errors({'w': np.array([1.0, np.nan])}, before, after) == {
        "['w']": np.inf
    }
    assert certificates._errors({'w': np.ones(2)}, after, after) == {"['w']": 0}
    # A leaf that must be zero, without a warning of the division.
    with np.errstate(divide='raise'):
        errors = certificates._errors({'w': np.ones(2)}, before, before)
    assert errors == {"['w']": np.inf}
    assert not ProgramVerdict('a', np.inf, 1e-4, '').holds
    assert not ProgramVerdict('a', np.nan, 1e-4, '').holds


def test_what_rounding_leaves_is_compared_with_the_largest_leaf():
    before = {"['excess']": np.zeros(2), "['server']": np.ones(2)}
    after = {"['excess']": np.array([0.0, 1e-18]), "['server']": np.array([3.0, 4.0])}
    here = {'excess': np.array([0.0, 5e-9]), 'server': np.array([3.0, 4.0])}
    errors = certificates._errors(here, before, after)
    assert errors == {"['excess']": pytest.approx(1e-9), "['server']": 0}
    # What did not move, and is small beside the others, has a size of its own.
    small = {"['excess']": np.full(2, 1e-6), "['server']": np.array([3.0, 4.0])}
    errors = certificates._errors(here, small, small)
    assert errors["['excess']"] == pytest.approx(1 / certificates._SMALL, rel=0.01)


@pytest.mark.parametrize('num_right', [2, 36, 330])
@pytest.mark.parametrize('num_changed', [0, 2, 5])
def test_two_of_many_examples_may_change_their_class(num_right, num_changed):
    exact = {"['server']['eval_accuracy']": np.array(num_right / 360)}
    here = {'server/eval_accuracy': np.float64((num_right + num_changed) / 360)}
    (error,) = certificates._errors_of_evals(here, exact).values()
    assert (error <= certificates._BOUND) == (num_changed <= 2)


@pytest.mark.slow
def test_a_process_that_writes_many_warnings_ends(tmp_path):
    """Their text fills a pipe that nobody reads."""
    (tmp_path / 'loud.py').write_text(
        'import sys\n'
        'from tests.certify.scaled import scaled_digits as make\n'
        "sys.stderr.write('a warning ' * 30_000)\n"
    )
    config = {**CONFIG, 'problem': {'name': 'loud:make', 'num_clients': 6}}
    with resolver.importable(tmp_path):
        process = float64_reference.begin(tmp_path, config, [], [])
    try:
        assert process.wait(timeout=200) == 0
    finally:
        process.kill()
        process.wait()
    assert 'a warning' in (tmp_path / float64_reference.ERRORS).read_text()


@pytest.mark.slow
def test_a_compensated_sum_holds():
    client = {'learning_rate': 0.1, 'local_steps': 2}
    settings = values(algorithms={'area': {}}, client=client)
    verdicts = list(certificates.certify(settings))
    assert 'area, links' in [verdict.program for verdict in verdicts]
    assert all(verdict.holds for verdict in verdicts), verdicts


def test_what_was_measured_can_be_farthest_off():
    exact = {"['server']['eval_loss']": np.array(1.0)}
    result = certificates._errors_of_evals({'server/eval_loss': np.float64(1.1)}, exact)
    assert result == {
        'server/eval_loss': pytest.approx(0.1 / (1 + certificates._SMALL))
    }
    assert certificates.keep(
        [ProgramVerdict('a', result['server/eval_loss'], 0.2, 'server/eval_loss')]
    )


def test_the_standard_list_has_every_rule_pattern_and_model():
    results = {
        name: float64_reference.experiment_of(name)
        for name in float64_reference.STANDARD
    }
    assert list(results['algorithms'].algorithms) == list(ALGORITHMS)
    assert list(results['patterns'].patterns) == list(PARTICIPATION)
    assert set(MODELS) <= {*results, 'softmax'}
    for name, experiment in results.items():
        kinds = {
            lane.algorithm
            for lane in float64_reference.lanes_of(
                float64_reference.shortened(experiment)
            )
        }
        assert kinds == set(experiment.algorithms), name


def test_a_first_run_says_once_that_there_is_no_certificate():
    message = certificates.note()
    assert 'certify' in message
    assert jax.devices()[0].device_kind in message
    assert certificates.note() is None


def test_a_certificate_is_of_a_device(monkeypatch):
    assert certificates.keep([ProgramVerdict('a', 0.0, 1e-4, '')])
    assert certificates.note() is None
    fingerprint = environment.fingerprint()
    monkeypatch.setattr(
        environment, 'fingerprint', lambda: {**fingerprint, 'jaxlib': '99'}
    )
    assert certificates.note() is not None


@pytest.mark.parametrize(
    'backend, version, count',
    [('gpu', '0.10.2', 1), ('gpu', '0.11.1', 0), ('cpu', '0.10.2', 0)],
)
def test_versions_with_known_faults_are_warned_of_on_a_gpu(
    monkeypatch, backend, version, count
):
    monkeypatch.setattr(jax, 'default_backend', lambda: backend)
    monkeypatch.setattr(environment.metadata, 'version', lambda name: version)
    assert len(environment.warnings()) == count


@pytest.mark.slow
@pytest.mark.release('test_a_newer_python_with_its_newest_jax')
def test_this_machine_is_certified(tmp_path):
    command = [sys.executable, '-m', 'fedjax_links', 'certify', f'--workdir={tmp_path}']
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env=users_environment()
    )
    assert done.returncode == 0, done.stdout + done.stderr
    saved = json.loads((tmp_path / certificates.FILE).read_text())['programs']
    assert done.stdout.splitlines()[-1] == f'{len(saved)} of {len(saved)} programs hold'
    named = {row['program'].partition(',')[0] for row in saved}
    assert set(ALGORITHMS) <= named
    assert {f'links of {name}' for name in PARTICIPATION} <= named


def test_a_standard_experiment_has_a_name():
    former = float64_reference.experiment_of('rules')
    assert former.title == float64_reference.experiment_of('algorithms').title
    with refusals.names('source', "no 'algoritms'", "mean 'algorithms'"):
        float64_reference.experiment_of('algoritms')
