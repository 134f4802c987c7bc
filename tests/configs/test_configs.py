"""Every shipped config, at both of its sizes, says what it runs and builds."""

import itertools
import math
import re

import pytest

from fedjax_links import experiment, problems, report
from fedjax_links.config import link_sections, nested, resolver
from fedjax_links.core import student
from fedjax_links.pages import figure
from fedjax_links.papers import common
from fedjax_links.papers.xiang2024 import presets
from tests.configs import shipped
from tests.refusals import refuses
from tests.tiers import cases

VARIANTS = shipped.variants()


def name(variant):
    path, argument, size = variant
    return '-'.join([path.stem, *([argument] if argument else []), size])


def variants_by_tier():
    """Makes parameters: of each config one variant by default, one slow, all for a release."""
    covered = pytest.mark.release('test_every_config_builds_and_says_what_it_runs')
    by_path = {}
    for variant in VARIANTS:
        by_path.setdefault(variant[0], []).append(variant)
    parameters = []
    for variant in VARIANTS:
        siblings = by_path[variant[0]]
        if variant is siblings[-1]:
            marks = []
        elif variant is siblings[0]:
            marks = [pytest.mark.slow]
        else:
            marks = [pytest.mark.slow, covered]
        parameters.append(pytest.param(variant, id=name(variant), marks=marks))
    return parameters


@pytest.mark.parametrize('variant', variants_by_tier())
def test_every_config_builds_and_says_what_it_runs(variant, monkeypatch):
    shipped.use_stand_ins(monkeypatch)
    values = shipped.values(*variant)
    if 'figure' in values:
        with resolver.importable(shipped.FOLDER):
            figure.check(values)
        assert values['caption']
        return
    planned = experiment.build(values)
    report.check(planned)
    assert values['title'] in planned.describe()


def test_no_run_is_too_short_for_its_algorithms_or_verdicts():
    """Windows of rounds end within the run, and seeds until decided are enough to decide."""
    seen = 0
    for path, argument, size in VARIANTS:
        values = shipped.values(path, argument, size)
        for section in values.get('algorithms', {}).values():
            if isinstance(section, dict) and 'period' in section:
                window = section['period']
                assert window <= values['num_rounds'], (path.stem, argument, size)
                seen += 1
        seeds = values.get('seeds')
        if isinstance(seeds, dict) and 'until' in seeds:
            assert math.isfinite(
                student.largest_t(seeds['most'], seeds.get('level', 0.95))
            )
            seen += 1
    assert seen > 10


def without(section, fields):
    """A section without some fields, at any depth."""
    if not isinstance(section, dict):
        return section
    return {k: without(v, fields) for k, v in section.items() if k not in fields}


@pytest.mark.parametrize(
    'name, like', cases(shipped.SMALL.items(), [*shipped.SMALL.items()][::4])
)
def test_small_versions_keep_all_but_data_and_see_all_of_a_cycle(name, like):
    path = shipped.FOLDER / f'{name}.py'
    small = shipped.values(path, 'gaussians', 'full')
    large = shipped.values(path, like, 'full')
    # Small versions of Xiang et al. are tuned by themselves, since rates of images do not suit
    # Gaussian classes. So their rates may differ.
    tuned = name.startswith('xiang')
    rates = {'learning_rate', 'server_lr'} if tuned else {'learning_rate'}
    for field in ('patterns', 'algorithms', 'client'):
        assert without(small[field], rates) == without(large[field], rates)
    if tuned:
        fields = {'learning_rates', 'num_seeds', 'ties', 'model'}
        assert small['tuning'].keys() - fields <= {'num_rounds'}
        # Table 2 tunes for its first levels, which come within 450 rounds.
        assert small['tuning'].get('num_rounds', 450) == 450
        assert small['tuning']['num_seeds'] >= 3
        assert 'tuned on every pattern' in small['caption']
    else:
        small_tuning = small.get('tuning', {})
        large_tuning = large.get('tuning', {})
        for field in ('learning_rates', 'server_lrs', 'pattern', 'num_seeds'):
            assert small_tuning.get(field) == large_tuning.get(field)
    default = {'partition': 'dirichlet'}
    small_problem = {**default, **small['problem']}
    large_problem = {**default, **large['problem']}
    for field in ('num_clients', 'partition', 'similarity'):
        assert small_problem.get(field) == large_problem.get(field)
    if small['num_rounds'] != pytest.approx(large['num_rounds'], rel=0.011):
        # It is tuned at every value of the grid. To afford that, it has fewer rounds.
        assert name == 'xiang2024_figure9'
        assert f'in place of {large["num_rounds"]:,}' in small['caption']
    assert small['num_seeds'] >= large['num_seeds']
    assert small['redraw'] == 'by_seed'
    assert 'Gaussian classes' in small['title']
    assert 'in place of images' in small['caption']
    assert not re.search('^warning', experiment.build(small).describe(), re.MULTILINE)


@pytest.mark.parametrize('path', shipped.PATHS, ids=lambda path: path.stem)
def test_the_header_says_how_to_run_it_and_how_long_it_takes(path):
    header = shipped.module(path).__doc__
    config = shipped.values(path, None, None)
    command = f'python -m fedjax_links {"figure" if "figure" in config else "simulate"}'
    assert header.split('\n')[2].startswith(f'  {command} --config=configs/{path.name}')
    assert re.search(rf'--config=configs/{path.name}(:\w+)?[ \n]', header)
    assert re.search(r'second|minute|hour', header)
    assert ('--quick' in header) == (nested.QUICK in config)
    if path.stem.startswith(('sun', 'wang', 'xiang')):
        assert nested.QUICK in config
        assert re.search(r'[Dd]eviation', header)
        assert re.search(r'[Dd]eviation', config['caption'])
        assert 'paper' in header


def test_the_list_of_figures_and_tables_names_every_config():
    listed = (shipped.FOLDER.parent / 'docs' / 'papers.md').read_text()
    listed = re.sub(r'\| \[(\w+)\]\(\.\./configs/\1\.py\)', r'| \1', listed)
    named = set(re.findall(r'\| (\w+) (?:\(.*?\) )?\| (?:figure|simulate) \|', listed))
    paper_configs = {
        p.stem for p in shipped.PATHS if p.stem.startswith(('sun', 'wang', 'xiang'))
    }
    assert named == paper_configs
    lines = listed.partition('\n## Claims')[0].splitlines()
    for name in sorted(paper_configs):
        (row,) = (line for line in lines if f'| {name} ' in line)
        config = shipped.values(shipped.FOLDER / f'{name}.py', None, None)
        command = 'figure' if 'figure' in config else 'simulate'
        assert f'| {command} |' in row
        words = list(itertools.chain(*shipped.ARGUMENTS.get(name, ())))
        if name in shipped.SHORT:
            words.append('short')
        for word in words:
            assert f'`{word}`' in row, (name, word)


def test_the_guide_names_every_config_and_its_words():
    guide = (shipped.FOLDER / 'README.md').read_text()
    rows = {
        row[1]: row[0]
        for row in re.finditer(r'^\| (\w+) \|.*$', guide, flags=re.MULTILINE)
    }
    assert rows.keys() - {'file'} == {path.stem for path in shipped.PATHS}
    for name, groups in shipped.ARGUMENTS.items():
        for word in itertools.chain(*groups):
            assert f'`{word}`' in rows[name], (name, word)
    assert all('`short`' in rows[name] for name in shipped.SHORT)


WITH_RELEASED_CODE = [name for name, (*_, codes) in shipped.ARGUMENTS.items() if codes]


def released_parts(section):
    """Names of released variants anywhere in a config."""
    if not isinstance(section, dict):
        return set()
    results = set().union(*map(released_parts, section.values()))
    name = str(section.get('name'))
    if '.released:' in name:
        results.add(name.partition(':')[2])
    return results


@pytest.mark.parametrize('name', WITH_RELEASED_CODE)
def test_a_word_asks_for_released_code_and_captions_name_it(name):
    *subjects, codes = shipped.ARGUMENTS[name]
    path = shipped.FOLDER / f'{name}.py'
    words = ','.join([*subjects[0][:1], 'as_released'])
    assert f':{words}' in shipped.module(path).__doc__
    paper = shipped.values(path, None, None)
    assert not released_parts(paper)
    assert 'As in the released code, and not' not in paper['caption']
    for code in codes:
        released = shipped.values(path, code, None)
        result = released_parts(released)
        assert result
        assert released['caption'] != paper['caption']
        assert re.search(
            r'[Aa]s in the released code(, and| and|, Deb)', released['caption']
        )
        assert ('fedpbc_doubled_steps' in result) == (code == 'first_commit')
        assert ('FedPBC with twice' in released['caption']) == (code == 'first_commit')
        assert ('memoryless_markov' in result) == (
            'links without memory' in released['caption']
        )
        assert ('f3ast_positions_as_ids' in result) == (
            'F3AST with positions' in released['caption']
        )


def test_the_released_links_differ_where_the_released_code_does():
    problem = problems.digits(num_clients=10, alpha=0.5)
    paper = presets.patterns('paper')
    released = presets.patterns('as_released')
    differ = {label for label in paper if paper[label] != released[label]}
    assert differ == {'markov_sine', 'cyclic_reset'}
    for section in released.values():
        assert link_sections.bind_links(section, problem).build().num_clients == 10


WORDS = (presets.PRINTED_DATASETS, presets.CODES)


@pytest.mark.parametrize(
    'argument, dataset, code',
    [
        ('svhn,', 'svhn', 'paper'),
        ('svhn, ', 'svhn', 'paper'),
        ('as_released, svhn', 'svhn', 'as_released'),
        ('paper,cinic10', 'cinic10', 'paper'),
    ],
)
def test_words_after_the_colon_come_in_any_order(argument, dataset, code):
    assert list(common.chosen(argument, *WORDS)) == [dataset, code]


@pytest.mark.parametrize(
    'argument, message',
    [
        ('svnh', "`config` has no 'svnh'; did you mean 'svhn'?"),
        (
            'cifar10,as_relased',
            "`config` has no 'as_relased'; did you mean 'as_released'?",
        ),
        (
            'svhn,cifar10',
            '`config` must name one of svhn, cifar10, cinic10, got svhn, cifar10.',
        ),
        (
            'x',
            "`config` has no 'x'; valid names: as_released, cifar10, cinic10, first_commit, paper, "
            'svhn.',
        ),
    ],
)
def test_unknown_or_surplus_words_after_the_colon_are_refused(argument, message):
    with refuses(message):
        common.chosen(argument, *WORDS)
