"""Captions of papers' configs tell the deviations that the configs' fields make, and no others."""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from fedjax_links.config import captions
from tests.configs import shipped


class Disclosure(NamedTuple):
    """A deviation.

    Attributes:
      papers: the prefix of the names of configs that can have it.
      happens: a function that says by a config's values whether the config has it.
      pattern: a regular expression that matches the caption of exactly the configs that have it.
    """

    papers: str
    happens: Callable[[dict], bool]
    pattern: str


def client(values: dict, field: str) -> Any:
    return values.get('client', {}).get(field)


def patterns(values: dict) -> list[dict]:
    return [*values.get('patterns', {}).values()]


def schedules(values: dict) -> list[dict]:
    results = [pattern.get('schedule', {}) for pattern in patterns(values)]
    return [schedule for schedule in results if schedule.get('name') == 'sine']


def crops(values: dict) -> bool:
    return any('crop' in str(name) for name in values['problem'].get('augment', ()))


def betas(values: dict) -> set:
    algorithms = values.get('algorithms', {}).values()
    return {algorithm['beta'] for algorithm in algorithms if 'beta' in algorithm}


def tail(values: dict) -> float:
    """Rounds that the table of final metrics averages over; 0 if the config does not say."""
    reports = values.get('reports', {}).values()
    fractions = [report['tail'] for report in reports if 'tail' in report]
    return round(min(fractions, default=0) * values.get('num_rounds', 0))


def band(values: dict) -> str | None:
    return values.get('reports', {}).get('curves', {}).get('band')


def is_tuned_off_the_printed_list(values: dict) -> bool:
    return 0.002 in values['tuning']['learning_rates']


DISCLOSURES = {
    'a sample for each step': Disclosure(
        'xiang',
        lambda v: client(v, 'resample') == 'step',
        r'a minibatch (of 16 )?per step, drawn with replacement, where the listing draws',
    ),
    'a sample for each round': Disclosure(
        'xiang',
        lambda v: client(v, 'resample') == 'round',
        'a minibatch .{,8}per round',
    ),
    'batch of the released code': Disclosure(
        'xiang2024',
        lambda v: client(v, 'batch_size') == 16,
        r'minibatch of 16 .*no size',
    ),
    'batch of the notebook': Disclosure(
        'sun', lambda v: client(v, 'batch_size') == 8, 'minibatches of 8 with replacem'
    ),
    'drawn with replacement': Disclosure(
        'wang', lambda v: client(v, 'batch_size') == 16, 'minibatches with replacement'
    ),
    'gamma': Disclosure(
        'xiang2024',
        lambda v: 'client' in v and {s['gamma'] for s in schedules(v)} == {0.4},
        'gamma is 0.4, as in the released code',
    ),
    'labels that clients own': Disclosure(
        'xiang2024',
        lambda v: any('label_dependent' in str(p.get('probs')) for p in patterns(v)),
        'links follow the labels that clients own',
    ),
    'whole rounds of cycles': Disclosure(
        'xiang2024',
        lambda v: 'client' in v and any(p['name'] == 'cyclic' for p in patterns(v)),
        'cyclic links begin at whole rounds',
    ),
    'padding': Disclosure('xiang2024', lambda v: crops(v), 'padded by 4'),
    'beta of F3AST': Disclosure(
        'xiang2024',
        lambda v: betas(v) == {0.01},
        "F3AST's beta is 0.01, of the paper's",
    ),
    'ten evaluations': Disclosure(
        'xiang2024',
        lambda v: tail(v) == 100 and v['eval_every'] == 10,
        'the last 100 rounds are seen every 10;',
    ),
    'length of the warm-up': Disclosure(
        'wang',
        lambda v: 'rounds' in (client(v, 'decay') or {}),
        r'the initial rate holds for [24],000 rounds, our choice',
    ),
    'band': Disclosure(
        'wang',
        lambda v: band(v) == 'deviation',
        'band: standard deviation over this window and all seeds',
    ),
    'other rates': Disclosure(
        'xiang2023_figure3',
        is_tuned_off_the_printed_list,
        r'0\.002, .* in place of 0\.001 to 0\.5 as printed',
    ),
}

VARIANTS = [
    (path, argument)
    for path, argument, size in shipped.variants()
    if size == 'full' and path.stem.startswith(('sun', 'wang', 'xiang'))
]


def caption_of(values: dict) -> str:
    return captions.fill_in(values['caption'], values)


@pytest.mark.parametrize('name', DISCLOSURES)
def test_a_caption_tells_a_deviation_if_fields_make_it(name):
    papers, happens, pattern = DISCLOSURES[name]
    seen = set()
    for path, argument in VARIANTS:
        values = shipped.values(path, argument, 'full')
        if not path.stem.startswith(papers) or 'problem' not in values:
            continue
        is_disclosed = re.search(pattern, caption_of(values)) is not None
        assert is_disclosed == happens(values), (path.stem, argument)
        seen.add(is_disclosed)
    # No config that ships draws once a round, only one whose field is set: see below.
    assert True in seen or name == 'a sample for each round'


@pytest.mark.parametrize('path, argument', VARIANTS)
def test_a_caption_begins_no_sentence_after_a_semicolon(path, argument):
    caption = caption_of(shipped.values(path, argument, 'full'))
    names = {'Debiasing'}
    assert set(re.findall(r'; ([A-Z][a-z]+)\b', caption)) <= names


@pytest.mark.parametrize('size', ['full', 'quick'])
@pytest.mark.parametrize('name', ['wang2022_figure_d1', 'wang2022_initial_rates'])
def test_a_caption_says_which_rounds_of_a_cycle_are_evaluated(name, size):
    values = shipped.values(shipped.FOLDER / f'{name}.py', 'gaussians', size)
    cohort_size = values['patterns']['regularised']['cohort_size']
    cycle = values['problem']['num_clients'] // cohort_size
    seen = {values['eval_every'] * period % cycle for period in range(1, cycle + 1)}
    full, _, quick = caption_of(values).partition(' With --quick: ')
    assert 'so that all of a cycle is seen' in full
    assert 'evaluations at ends of cycles' in quick
    assert seen == (set(range(cycle)) if size == 'full' else {0})


def test_a_caption_follows_the_flag_that_draws_once_a_round():
    for name, argument in (
        ('xiang2023_figure3', None),
        ('xiang2024_table1', 'svhn'),
        ('xiang2024_table2', 'gaussians'),
    ):
        values = shipped.values(shipped.FOLDER / f'{name}.py', argument, 'full')
        values['client']['resample'] = 'round'
        pattern = DISCLOSURES['a sample for each round'].pattern
        assert re.search(pattern, caption_of(values))


def test_the_printed_rates_are_those_of_the_paper():
    """The paper's list is "0.1, 0.5, 0.01, ..., 0.001, 0.005"; the dots can only be 0.05."""
    path = shipped.FOLDER / 'xiang2023_figure3.py'
    tuning = shipped.values(path, 'printed_rates', 'full')['tuning']
    expected = {digit * 10.0**power for digit in (1, 5) for power in (-1, -2, -3)}
    assert sorted(tuning['learning_rates']) == pytest.approx(sorted(expected))
    assert tuning['grow'] == 0
