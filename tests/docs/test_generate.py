"""What the site is made of: every name has its page, tables show what was found, links lead on."""

import inspect
import json
import re
import sys

import pytest

import fedjax_links.__main__ as front
from fedjax_links.algorithms import ALGORITHMS
from fedjax_links.clients.programs import ClientProgram
from fedjax_links.core.references import Reference
from fedjax_links.local_training import Train
from fedjax_links.participation import PARTICIPATION
from fedjax_links.testing import AlgorithmFacts
from tests import ROOT
from tests.docs import pages
from tests.docs.pages import DOCS, STUDIES

sys.path.append(str(DOCS))
import generate
from generate import api, examples, llms, methods, patterns, registries, text

COMMANDS = (DOCS / 'commands.md').read_text()
HAND_WRITTEN = [*DOCS.glob('*.md'), *DOCS.glob('howto/*.md'), *STUDIES.glob('*.md')]


@pytest.mark.parametrize('name', ALGORITHMS)
def test_a_page_shows_the_round_of_its_algorithm(name):
    source = text.inner_functions(ALGORITHMS[name].factory, 'round_step')
    assert source.startswith('def round_step(')
    compile(source, name, 'exec')


@pytest.mark.parametrize('name', PARTICIPATION)
def test_a_page_shows_the_sampler_of_its_pattern(name):
    source = patterns.sampler(PARTICIPATION[name])
    assert source.startswith('def sample(')


def test_a_row_says_what_was_found():
    facts = AlgorithmFacts(True, 4, 2, 1, 'selected', 'end', True, True)
    cells = methods.row(ALGORITHMS['mifa'], facts)
    assert cells == (
        'Gu et al.',
        '2021',
        'yes',
        '4 + 2 N',
        '1',
        'active clients that are selected',
        'after they train, and other clients too',
        'may change the model',
    )
    assert methods.row(ALGORITHMS['mifa'], facts._replace(client_numbers=0))[4] == '0'
    assert methods.memory(facts._replace(client_models=0)) == '4'
    assert methods.memory(facts._replace(client_models=1)) == '4 + N'


def test_public_modules_are_those_that_the_package_offers():
    result = api.public_modules()
    assert {
        'algorithms',
        'analysis',
        'simulation',
        'testing',
        'core.references',
    } <= set(result)
    assert 'Experiment' not in result


def test_readers_of_logs_have_a_page(tmp_path):
    assert 'participation.traces.trace_formats' in api.public_modules()
    api.write(tmp_path)
    assert (
        ':members:' in (tmp_path / 'participation.traces.trace_formats.rst').read_text()
    )
    index = (tmp_path / 'index.rst').read_text()
    name = 'participation.traces.trace_formats'
    assert f':doc:`fedjax_links.{name} <{name}>`' in index
    assert f'generated/api/{name}.rst' in (DOCS / 'availability.md').read_text()


def test_a_page_shows_what_a_clients_training_takes(tmp_path):
    """Train says it in its call, which Sphinx leaves out unless told."""
    adjustments = {'lr_scale', 'correction', 'proximal', 'keep_gradient'}
    taken = inspect.signature(Train.__call__).parameters.values()
    assert {p.name for p in taken if p.kind is p.KEYWORD_ONLY} == adjustments
    for adjustment in adjustments:
        assert f'          {adjustment}: ' in Train.__call__.__doc__
        assert f'``{adjustment}``' in Train.__doc__
        assert f'{adjustment}=' in ClientProgram.__doc__
    for name in ('local_training', 'client_programs'):
        api._write_page(tmp_path / 'page.rst', name)
        assert '   :special-members: __call__\n' in (tmp_path / 'page.rst').read_text()


def test_words_of_a_docstring_stay_words():
    lines = [
        'Draws.',
        '',
        'Args:',
        '  num_clients: N.',
        '  size: b. At most N.',
        'Returns:',
        '  bool[N]: who is there.',
    ]
    generate.keep_words(None, 'function', '', None, None, lines)
    assert lines[3:5] == [r'  num_clients: \N.', r'  size: \b. At most N.']
    assert lines[6] == '  bool[N] \N{EN DASH} who is there.'
    alone = ['N.']
    generate.keep_words(None, 'property', '', None, None, alone)
    assert alone == [r'\N.']


def test_a_table_has_a_row_each():
    assert text.table(('a', 'b'), [('1', '')]).splitlines()[3:] == [
        '   * - a',
        '     - b',
        '   * - 1',
        '     -',
    ]


def test_sources_are_named_and_quoted():
    paper = Reference(
        '@misc{doe2020title,\n  title = {{A Title}},\n  author = {Jane Doe},\n'
        '  year = {2020},\n  eprint = {1.2},\n}'
    )
    assert text.in_prose(paper) == 'Jane Doe. A Title. 2020, arXiv:1.2.'
    assert '@misc{doe2020title,' in text.sources((paper,), 'x.citation')
    assert text.sources((), 'x.citation') == ''


def test_notebooks_and_scripts_become_pages(tmp_path):
    cells = [
        {'cell_type': 'markdown', 'source': ['# Links\n', 'A draw.']},
        {
            'cell_type': 'code',
            'source': ['1 + 1'],
            'outputs': [
                {'data': {'text/plain': ['2']}},
                {'data': {'image/png': 'aGk='}},
            ],
        },
    ]
    source = tmp_path / 'examples'
    built = tmp_path / 'made'
    source.mkdir()
    (source / 'links.ipynb').write_text(json.dumps({'cells': cells}))
    (source / 'run.py').write_text('print(1)\n')
    examples.write(source, built)
    page = (built / 'links.md').read_text()
    assert page.startswith('# Links\nA draw.\n')
    assert '```python\n1 + 1\n```' in page
    assert '```text\n2\n```' in page
    assert (built / 'links_1_1.png').read_bytes() == b'hi'
    assert '```{toctree}\nlinks\nrun\n```' in (built / 'index.md').read_text()


def test_a_notebook_stands_for_its_script_and_links_to_pages(tmp_path):
    source = tmp_path / 'examples'
    built = tmp_path / 'docs' / 'generated' / 'made'
    source.mkdir()
    text = '# Links\n\nSee [limits](../docs/theory.md) and [rules](rules.py).'
    cells = [{'cell_type': 'markdown', 'source': [text]}]
    (source / 'links.ipynb').write_text(json.dumps({'cells': cells}))
    for name in ('links', 'rules', 'build'):
        (source / f'{name}.py').write_text('x = 1\n')
    (source / 'README.md').write_text('# All\n\n[Links](links.ipynb)\n')
    built.parent.mkdir(parents=True)
    examples.write(source, built)
    assert sorted(p.name for p in built.iterdir()) == [
        'index.md',
        'links.md',
        'rules.md',
    ]
    page = (built / 'links.md').read_text()
    assert 'See [limits](../../theory.md) and [rules](rules.md).' in page
    assert '{download}`notebook <../../../examples/links.ipynb>`' in page
    assert '{download}`script <../../../examples/links.py>`' in page
    assert (built / 'index.md').read_text().startswith('# All\n\n[Links](links.md)\n')


@pytest.mark.parametrize(
    'link, among_the_pages',
    [
        ('](../studies/map.md#links)', '](generated/studies/map.md#links)'),
        ('](../../studies/map.md)', '](../generated/studies/map.md)'),
        ('](../docs/papers.md)', '](../../papers.md)'),
        ('](../configs/map.py)', '](generated/config/shipped/map.rst)'),
        ('](../../configs/map.py)', '](../generated/config/shipped/map.rst)'),
        ('](records/maps/space/report.md)', '](records/maps/space/report.md)'),
    ],
)
def test_links_to_and_from_files_are_those_between_pages(link, among_the_pages):
    source = [f'See [there{link} and ../studies/map.md.']
    generate.link_files(None, 'page', source)
    assert source == [f'See [there{among_the_pages} and ../studies/map.md.']


def test_the_index_for_models_takes_the_first_sentence():
    core = pytest.importorskip('docutils.core')
    page = """
Title
=====

*28 November 2026. Evidence: fair, five seeds.*

======  ======
a cell  a cell
======  ======

.. image:: curves.png

Runs FedPBC: Xiang et al. 2024 average the active clients. It has no bias.
"""
    sentence = llms.first_sentence(core.publish_doctree(page))
    assert sentence == 'Runs FedPBC: Xiang et al. 2024 average the active clients'
    assert llms.first_sentence(core.publish_doctree('Title\n=====\n')) == ''


def test_without_examples_there_is_an_index_still(tmp_path):
    examples.write(tmp_path / 'absent', tmp_path / 'made')
    assert 'none so far' in (tmp_path / 'made' / 'index.md').read_text()


@pytest.mark.parametrize('page', pages.WRITTEN, ids=pages.path)
def test_links_between_files_lead_somewhere(page):
    """Where the repository is hosted too; Sphinx checks those to pages that a build makes."""
    prose = re.sub(r'```.*?```|`[^`\n]*`', '', page.read_text(), flags=re.DOTALL)
    for target in re.findall(r'\]\(([^)]+)\)', prose):
        path = target.partition('#')[0]
        if path and ':' not in path and 'generated/' not in path:
            assert (page.parent / path).exists(), target


def contents(page):
    """Yields what the tables of contents of a page list, relative to docs/."""
    tables = re.findall(r'```{toctree}\n(.*?)```', page.read_text(), flags=re.DOTALL)
    for line in ''.join(tables).splitlines():
        if line and line[0] != ':':
            name = re.sub(r'.*<(.*)>', r'\1', line)
            yield (page.parent / name).resolve().relative_to(DOCS).as_posix()


def test_every_page_has_its_line_in_the_contents():
    listed = {name for page in HAND_WRITTEN for name in contents(page)}
    paths = {path for path in HAND_WRITTEN if path.is_relative_to(DOCS)}
    names = {str(path.relative_to(DOCS).with_suffix('')) for path in paths}
    # The index of the studies lists the last two.
    assert names - listed == {'index', 'choosing', 'papers'}


def test_the_start_page_lists_at_most_twelve_others():
    assert 8 <= len([*contents(DOCS / 'index.md')]) <= 12


def test_features_come_first():
    assert next(contents(DOCS / 'index.md')) == 'features'


def test_every_command_has_its_row():
    rows = re.findall(
        r'^\| \[`(\w+)`\]\(generated/commands/(\w+)\.rst\)', COMMANDS, flags=re.M
    )
    assert sorted(rows) == sorted((name, name) for name in front.commands())


@pytest.mark.parametrize('page', HAND_WRITTEN, ids=lambda page: page.stem)
def test_lines_of_python_fit_the_page(page):
    for source in pages.code(page.read_text(), 'python'):
        assert all(len(line) <= 100 for line in source.splitlines())


def test_the_site_is_published_as_ci_builds_it():
    build = 'python -m sphinx -W --keep-going -q -b html docs docs/_build/html'
    workflow = (ROOT / '.github' / 'workflows' / 'site.yml').read_text()
    assert build in (ROOT / '.ci' / 'run').read_text()
    assert f'run: {build}\n' in workflow
    assert f'path: {build.split()[-1]}\n' in workflow


def test_pages_of_names_show_public_names_and_plain_types(tmp_path):
    """A reader can use each name under "In Python", and every type has a word."""
    registries.write(tmp_path)
    pages_of_names = [path.read_text() for path in tmp_path.glob('**/*.rst')]
    assert len(pages_of_names) > 15
    for page in pages_of_names:
        assert not re.search(r'In Python: `[\w.]*\._', page)
        assert not re.search(r'\ba (Any|Callable)\b', page)
    assert any('In Python: `fedjax_links.' in page for page in pages_of_names)
