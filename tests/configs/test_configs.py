"""Every shipped config, at both of its sizes, says what it runs and builds."""

import re

import pytest

from fedjax_links import comparison, experiment, problems, sections, sizes
from fedjax_links.cli import comparing, training
from fedjax_links.presets import xiang2024
from fedjax_links.report import figures
from tests.configs import shipped

VARIANTS = shipped.variants()


def name(variant):
    path, argument, size = variant
    return '-'.join([path.stem, *([argument] if argument else []), size])


@pytest.mark.parametrize('variant', VARIANTS, ids=name)
def test_every_config_builds_and_says_what_it_runs(variant, monkeypatch):
    shipped.use_stand_ins(monkeypatch)
    values = shipped.values(*variant)
    if 'figure' in values:
        assert figures.parse(values).caption
        return
    if 'patterns' in values:
        plan = comparison.build(values)
        comparing.check(plan)
        assert plan.config.title in comparing.describe(plan)
        return
    config = experiment.parse(values)
    plan = experiment.build(config)
    assert plan.algorithms.keys() == config.algorithms.keys()
    assert plan.participation.num_clients == plan.problem.num_clients
    assert config.title in training.describe(plan)


@pytest.mark.parametrize('path', shipped.PATHS, ids=lambda path: path.stem)
def test_the_header_says_how_to_run_it_and_how_long_it_takes(path):
    header = shipped.module(path).__doc__
    assert re.search(rf'--config=configs/{path.name}(:\w+)?[ \n]', header)
    assert re.search(r'second|minute|hour', header)
    config = shipped.values(path, None, None)
    assert ('--quick' in header) == (sizes.QUICK in config)
    if path.stem.startswith(('sun', 'wang', 'xiang')):
        assert sizes.QUICK in config
        assert re.search(r'[Dd]eviation', header)
        assert re.search(r'[Dd]eviation', config['caption'])
        assert 'paper' in header


def test_the_list_of_figures_and_tables_names_every_config():
    listed = (shipped.FOLDER.parent / 'docs' / 'papers.md').read_text()
    named = set(re.findall(r'\| (\w+) (?:\(.*?\) )?\| (?:figure|sweep) \|', listed))
    of_papers = {p.stem for p in shipped.PATHS if p.stem.startswith(('sun', 'wang', 'xiang'))}
    assert named == of_papers
    for name, arguments in shipped.ARGUMENTS.items():
        (row,) = (line for line in listed.splitlines() if f'| {name} ' in line)
        assert all(f'`:{argument}`' in row for argument in arguments)
        assert '| sweep |' in row


def test_the_released_links_differ_where_the_released_code_does():
    problem = problems.digits(num_clients=10, alpha=0.5)
    paper, released = xiang2024.patterns(), xiang2024.patterns(as_released=True)
    differ = {label for label in paper if paper[label] != released[label]}
    assert differ == {'markov_sine', 'cyclic_reset'}
    for section in released.values():
        assert sections.links(section, problem)[0].num_clients == 10
