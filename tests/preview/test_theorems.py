"""The theorems beside a configured run."""

import pytest

from fedjax_links import experiment
from fedjax_links.preview import configured_links, theorems


def config(links, **problem):
    return {
        'title': 'Theorems',
        'problem': {'name': 'quadratic', 'targets': [[0.0], [4.0], [9.0]], **problem},
        'links': links,
        'client': {'learning_rate': 0.01, 'local_steps': 2},
        'algorithms': {'fedpbc': {}},
        'num_rounds': 40,
        'eval_every': 40,
        'num_seeds': 1,
    }


def screen(links, **problem):
    built = experiment.build(config(links, **problem))
    found = configured_links.of_experiment(built)
    return theorems.text(found, found.record(64))


def test_turns_are_regular_and_some_theorems_cover_them():
    lines = screen({'name': 'regularized', 'cohort_size': 1})
    assert 'with: P = 3' in lines
    assert 'wang2022: covers this run' in lines
    assert 'xiang2024: does not cover this run' in lines
    assert max(map(len, lines.splitlines())) <= 80


def test_problems_without_constants_are_named():
    links = {'name': 'bernoulli', 'probs': [0.5, 0.5, 0.5]}
    lines = screen(links, noise=1.0)
    assert lines.splitlines()[-1].startswith('Theorems: not checked, their constants')


@pytest.mark.parametrize('schedule', ['constant', 'sine'])
def test_rho_of_independent_links_is_exact(schedule):
    options = {'gamma': 0.4, 'period': 8} if schedule == 'sine' else {}
    links = {
        'name': 'bernoulli',
        'probs': [0.5, 0.3, 0.9],
        'schedule': {'name': schedule, **options},
    }
    lines = screen(links)
    assert 'rho exact' in lines
    assert 'NO  no round is empty' in lines
