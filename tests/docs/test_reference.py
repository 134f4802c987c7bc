"""Tables of fields, flags and names: they are whole, and what they say is so."""

import importlib
import re
import sys

import jax
import numpy as np
import pytest

import fedjax_links.__main__ as front
from fedjax_links import experiment, report
from fedjax_links.config import schema
from fedjax_links.core import errors, tree
from fedjax_links.core.fields import REQUIRED
from fedjax_links.results.clients import CLIENTS
from fedjax_links.storage import run_files
from tests.cli import command
from tests.docs.pages import DOCS, STUDIES

sys.path.append(str(DOCS))
from generate import commands, fields, options, registries, studies

KEPT_BY_EXPERIMENTS = {
    'metric',
    'baseline',
    'direction',
    'names',
    'reports',
    'log',
    'grid_mode',
    'title',
}
"""Fields that an experiment has unchanged as attributes."""
STAND_FOR = {'patterns': 'links'}
"""Fields that replace another one."""


def with_field(name, value):
    """Returns the page's config with one more field."""
    config = {**fields.BASE, name: value}
    config.pop(STAND_FOR.get(name), None)
    if name == 'tuning':
        config['client'] = {
            k: v for k, v in config['client'].items() if k != 'learning_rate'
        }
    return config


def test_every_field_of_a_config_has_its_row():
    rows = fields.top()
    assert {row.name for row in rows} == set(schema.EXPERIMENT) == set(fields.EXAMPLES)
    assert all(row.meaning and row.kind for row in rows)
    required = {row.name for row in rows if row.default == options.REQUIRED}
    assert required == {'title', 'problem', 'algorithms', 'num_rounds', 'eval_every'}
    declared = schema.EXPERIMENT.values()
    assert required == {field.name for field in declared if field.default is REQUIRED}


@pytest.fixture
def pretrained(tmp_path, monkeypatch):
    """A folder with parameters of the page's model."""
    monkeypatch.chdir(tmp_path)
    built = experiment.build(fields.BASE).problem_at('links', {}, 0)
    np.savez('pretrained.npz', **tree.by_name(built.init_params(jax.random.key(0))))


def test_every_file_of_a_run_has_its_row():
    runs = (DOCS / 'runs.md').read_text()
    section = runs.split('\n## Files in a run folder\n')[1].split('\n## ')[0]
    folders = {f'{run_files.CLAIMS}/', f'{run_files.FAILURES}/'}
    locks = {run_files.LOCK, run_files.OPENING}
    for name in {*run_files.WRITTEN_BY_RUNS, CLIENTS} | folders | locks:
        assert f'`{name}' in section, name


@pytest.mark.parametrize('name', fields.EXAMPLES)
def test_the_example_of_a_field_is_built(name, request):
    if name == 'initial_params':
        request.getfixturevalue('pretrained')
    config = with_field(name, fields.EXAMPLES[name])
    built = experiment.build(config)
    report.check(built)
    assert built.config[name] == fields.EXAMPLES[name]
    if name in KEPT_BY_EXPERIMENTS:
        assert getattr(built, name) == fields.EXAMPLES[name]
    with pytest.raises(errors.InvalidError, match=f'did you mean {name!r}'):
        experiment.build({**config, f'{name}x': 1})


def test_the_example_of_a_caption_is_filled_in():
    built = experiment.build(with_field('caption', fields.EXAMPLES['caption']))
    assert built.caption == 'At 40 rounds; the paper has 2,000.'


def test_defaults_are_those_of_what_is_built():
    built = experiment.build(fields.BASE)
    rows = {
        row.name: row.default
        for row in fields.top()
        if row.default not in ('', 'required')
    }
    seeds = {'num_seeds': len(built.seeds), 'first_seed': built.seeds[0]}
    assert seeds.keys() <= rows.keys()
    for name, shown in rows.items():
        value = seeds[name] if name in seeds else getattr(built, name)
        assert shown == f'``{value!r}``', name


@pytest.mark.parametrize(
    'section, option',
    [(section, o.name) for section, (rows, _) in fields.nested().items() for o in rows],
)
def test_the_example_of_an_option_is_built(section, option):
    rows, examples = fields.nested()[section]
    assert {o.name for o in rows} == set(examples)
    required = {
        'client': fields.BASE['client'],
        'tuning': {'learning_rates': [0.05, 0.1]},
        'seeds': {'until': 'decided'},
    }[section]
    if option == 'grid':
        required = {}
    if option == 'local_epochs':
        required = {
            name: value for name, value in required.items() if name != 'local_steps'
        }
    value = {**required, option: examples[option]}
    built = experiment.build(with_field(section, value))
    assert built.config[section] == value
    with pytest.raises(errors.InvalidError):
        experiment.build(with_field(section, {**value, f'{option}x': 1}))


def test_listed_options_of_tuning_and_seeds_are_config_fields():
    for section in ('tuning', 'seeds'):
        rows, _ = fields.nested()[section]
        with pytest.raises(errors.InvalidError) as refused:
            experiment.build(with_field(section, {'zzzzzz': 1}))
        listed = set(
            re.findall(r'(\w+)', str(refused.value).partition('valid names:')[2])
        )
        assert listed == {o.name for o in rows}


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A working folder with a log of availability."""
    monkeypatch.chdir(tmp_path)
    rows = [f'phone{k},{hour},{hour + 2}' for k in range(10) for hour in (k, k + 12)]
    (tmp_path / 'phones.csv').write_text('\n'.join(['client,start,end', *rows, '']))


@pytest.mark.parametrize(
    'title', [t for t, page in registries.REGISTRY_PAGES.items() if page.example]
)
def test_the_example_of_a_table_is_built(title, files):
    page = registries.REGISTRY_PAGES[title]
    config = {**fields.BASE, **page.example}
    if title == 'links':
        # Its example plays the links of this run.
        short = {'num_rounds': 2, 'eval_every': 2, 'algorithms': {'fedavg': {}}}
        experiment.build({**fields.BASE, **short, 'log': ['links']}).run('runs/first')
    built = experiment.build(config)
    report.check(built)
    text = repr(page.example)
    assert any(f"'{name}'" in text for name in registries.tables()[title])


def test_every_table_that_the_command_line_lists_has_its_page(tmp_path):
    registries.write(tmp_path)
    listed = front.tables()
    assert set(listed) - {'log'} == set(registries.tables()) - {'losses'}
    for title, names in listed.items():
        if title in registries.REGISTRY_PAGES:
            page = (tmp_path / f'{registries.slug(title)}.rst').read_text()
            for name in names:
                assert f'.. _{registries.anchor(title, name)}:' in page
    assert set(registries.REGISTRY_PAGES) | set(registries.ELSEWHERE) == set(
        registries.tables()
    )


@pytest.mark.parametrize('title', registries.REGISTRY_PAGES)
def test_every_option_has_its_meaning(title):
    page = registries.REGISTRY_PAGES[title]
    for name, factory in registries.tables()[title].items():
        if title not in ('losses', 'optimizers'):
            for option in options.of(factory, page.supplied):
                assert option.meaning, f'{name}: {option.name}'


@pytest.mark.parametrize('name', front.commands())
def test_the_flags_of_a_command_are_those_that_its_help_lists(name):
    listed = command.run(name, '--help').stdout
    module = importlib.import_module(f'fedjax_links.cli.{name}')
    rows = {row.name: row for row in commands.defined(module)}
    shown = set(re.findall(r'^  --(?:\[no\])?(\w+):', listed, flags=re.M)) - {
        'config_file'
    }
    assert {row.removeprefix('--') for row in rows} == shown
    assert all(row.meaning for row in rows.values())


def test_words_of_a_command_keep_their_hyphens():
    text = (
        'Reads.\n\npython -m fedjax_links report --workdir=runs/a\n\nWith --cost more.'
    )
    result = commands.in_paragraphs(text)
    assert (
        '.. code-block:: bash\n\n   python -m fedjax_links report --workdir=runs/a'
        in result
    )
    assert 'With ``--cost`` more.' in result


def test_a_docstring_is_read_as_options():
    def factory(size, *, rate=0.5, **rest):
        """Makes.

        Args:
          size: N. At
            most ten.
          rate: a share.
          **rest: passed on.

        Returns:
          nothing: of it.
        """

    results = {o.name: o for o in options.of(factory, supplied=['size'])}
    assert results.keys() == {'rate', '**rest'}
    assert results['rate'][2:] == ('``0.5``', 'A share.')
    assert results['**rest'].meaning == 'Passed on.'
    assert options.documented(factory)['size'] == r'\N. At most ten.'
    assert options.before_arguments(factory) == 'Makes.\n'


@pytest.mark.parametrize(
    'page', sorted(STUDIES.glob('*.md')), ids=lambda page: page.stem
)
def test_a_study_says_when_it_was_measured_and_how_strong_it_is(page):
    result = studies.read(page)
    assert re.fullmatch(r'\d{1,2} (October|November|December) 20\d\d', result.date)
    assert result.strength in studies.STRENGTHS


def test_a_study_without_date_or_strength_is_refused(tmp_path):
    page = tmp_path / 'wave.md'
    for line in ('Text.', '*25 November 2026. Evidence: sure, it was seen.*'):
        page.write_text(f'# Waves\n\n{line}\n')
        with pytest.raises(
            ValueError, match=r'wave\.md needs a line of date and evidence'
        ):
            studies.read(page)


def test_the_index_of_studies_lists_each_and_folds_records(tmp_path):
    studies.write(STUDIES, tmp_path / 'made')
    index = (tmp_path / 'made' / 'index.md').read_text()
    for page in STUDIES.glob('*.md'):
        assert re.search(
            rf'^\| \[.*\]\({page.stem}\.md\) \| \d+ \w+ 20\d\d \| \w+: ', index, re.M
        )
        assert f'\n{page.stem}\n' in index
    assert index.count('\nrecords/') == 1
    records = (tmp_path / 'made' / 'records' / 'index.md').read_text()
    reports = [*(tmp_path / 'made').rglob('report.md')]
    assert len(reports) > 10
    assert records.count('/report)') == 0
    assert records.count('/report.md)') == len(reports)
    assert all(report.read_text().startswith('# Record: ') for report in reports)
