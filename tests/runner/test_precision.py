"""The precision of matrix products: stated in a config, in its identity, and in its programs."""

import json
import re

import jax
import pytest

from fedjax_links import experiment
from fedjax_links.runner.lane_batch import LaneBatch
from fedjax_links.runner.program_cache import Programs
from tests.experiment.configs import tuned
from tests.runner.made_in_python import in_python, quadratic


def products(planned):
    """The precisions of the products in the program that trains the first algorithm."""
    programs = Programs(planned.plan)
    group = LaneBatch(
        programs, planned.plan.schedule.main(next(iter(planned.algorithms)))[:1]
    )
    text = group.program.advance.lower(*group.advance_args()).as_text()
    return set(re.findall(r'stablehlo\.dot_general.*precision = \[(\w+), \w+\]', text))


@pytest.mark.parametrize(
    'setting, expected', [('highest', 'HIGHEST'), ('high', 'HIGH')]
)
def test_products_have_the_precision_of_the_config(setting, expected):
    planned = experiment.build(tuned(matmul_precision=setting))
    assert products(planned) == {expected}
    assert planned.plan.facts()['numerics']['jax_default_matmul_precision'] == setting


@pytest.mark.slow
def test_by_default_it_is_as_jax_is_set():
    planned = experiment.build(tuned())
    assert products(planned) == {'DEFAULT'}
    with jax.default_matmul_precision('highest'):
        assert products(planned) == {'HIGHEST'}
        facts = planned.plan.facts()
    assert facts['numerics']['jax_default_matmul_precision'] == 'highest'


def test_another_word_is_refused():
    with pytest.raises(
        ValueError, match="`matmul_precision` has no 'hihg'; did you mean 'high'"
    ):
        in_python(matmul_precision='hihg')


def test_a_run_does_not_resume_with_another(quadratic_copy, tmp_path):
    environment = json.loads((quadratic_copy / 'environment.json').read_text())
    assert environment['matmul_precision'] == 'default'
    with pytest.raises(ValueError, match='numerics'):
        quadratic(matmul_precision='high').run(quadratic_copy)
    quadratic(matmul_precision='high').run(tmp_path / 'high')
    environment = json.loads((tmp_path / 'high' / 'environment.json').read_text())
    assert environment['matmul_precision'] == 'high'
