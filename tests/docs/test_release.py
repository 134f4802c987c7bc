"""What is released, and what checks it: versions, workflows, tests that wait for a release."""

import re
import tomllib

import pytest

import fedjax_links
from tests import ROOT

PROJECT = tomllib.loads((ROOT / 'pyproject.toml').read_text())['project']
WORKFLOWS = ROOT / '.github' / 'workflows'


def workflow(name):
    """Reads a workflow; YAML 1.1 takes its key `on` for a truth value."""
    yaml = pytest.importorskip('yaml')
    return yaml.safe_load((WORKFLOWS / f'{name}.yml').read_text())


def test_all_say_the_same_version():
    heading = re.search(
        r'^## (\S+) \((\S+)\)$', (ROOT / 'CHANGELOG.md').read_text(), re.MULTILINE
    )
    citation = (ROOT / 'CITATION.cff').read_text()
    version = re.search(r'^version: (\S+)$', citation, re.MULTILINE)[1]
    dates = re.findall(r'^date-released: (\d{4}-\d\d-\d\d)$', citation, re.MULTILINE)
    date = dates[0] if dates else 'unreleased'
    assert heading.groups() == (version, date)
    assert fedjax_links.__version__ == version


def test_the_workflow_tries_every_python_that_the_package_names():
    named = [line.split(' :: ')[-1] for line in PROJECT['classifiers']]
    pythons = [name for name in named if re.fullmatch(r'3\.\d+', name)]
    jobs = workflow('ci')['jobs']
    for job in ('tests', 'wheels'):
        assert jobs[job]['strategy']['matrix']['python'] == pythons
        assert not jobs[job]['strategy']['fail-fast']
    assert PROJECT['requires-python'] == f'>={pythons[0]}'
    assert jobs['tests']['strategy']['matrix']['dependencies'] == ['oldest', 'newest']


@pytest.mark.parametrize(
    'path', sorted(WORKFLOWS.glob('*.yml')), ids=lambda path: path.stem
)
def test_no_job_hides_a_failure_or_needs_a_secret(path):
    text = path.read_text()
    assert not re.search(r'continue-on-error|\|\| true|secrets\.', text)
    for job in workflow(path.stem)['jobs'].values():
        assert 'uses' in job or job['steps']


def test_a_tag_is_published_by_trust_once_all_tests_have_passed():
    jobs = workflow('release')['jobs']
    assert jobs['publish']['needs'] == ['tests', 'build']
    assert jobs['publish']['permissions'] == {'id-token': 'write'}
    assert jobs['tests']['uses'] == './.github/workflows/ci.yml'


def test_tests_of_releases_are_covered_by_more_frequent_tests():
    sources = [path.read_text() for path in (ROOT / 'tests').rglob('test_*.py')]
    known = {
        name
        for text in sources
        for name in re.findall(r'^def (test_\w+)', text, re.MULTILINE)
    }
    mark = r"(?:mark\.release\(|another\(|covered_by=)\s*'(\w+)'"
    covering = {name for text in sources for name in re.findall(mark, text)}
    assert covering
    assert covering <= known
