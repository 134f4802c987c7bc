"""Maps without any true difference: how often each of their guarantees fails."""

import numpy as np
import pytest
from scipy import stats

from fedjax_links.core import student
from fedjax_links.report import layouts
from tests.report import made, null_runs
from tests.report.null_runs import Accuracies, Null

GRID = {'x': (1, 2), 'y': (1, 2)}


def claim_rates(null, pages, seed, **options):
    """Measures how often a map makes each claim.

    Returns:
      By claim: ``starred``, pages with a ``**``; ``sided`` and ``starred by itself``, cells whose
      interval excludes zero in words and as a star; ``leading``, cells whose best is clear; and
      ``all cells``, algorithms whose mean over all cells has a star.
    """
    rng = np.random.default_rng(seed)
    claims = []
    for _ in range(pages):
        page = layouts.heat_map(null.source(rng), x='x', y='y', **options)
        claims.append(claims_of_page(*page.tables))
    return {
        claim: float(np.mean([page[claim] for page in claims])) for claim in claims[0]
    }


def claims_of_page(best, differences, numbers):
    """Counts the claims in the three tables of a map."""
    leaders = non_empty_cells(best, first=1)
    cells = non_empty_cells(differences, first=2)
    over_all = [row[-1] for row in numbers.rows if row[-1]]
    sided = 0
    for _, ahead, behind, *_ in numbers.rows:
        sided += int(ahead.split()[0]) + int(behind.split()[0])
    return {
        'starred': any('**' in cell for cell in cells),
        'sided': sided / max(len(cells), 1),
        'starred by itself': null_runs.fraction('*' in cell for cell in cells),
        'leading': null_runs.fraction(not cell.endswith('~') for cell in leaders),
        'all cells': null_runs.fraction('*' in text for text in over_all),
    }


def non_empty_cells(table, first):
    """Lists the cells with text, from a column on."""
    cells = []
    for row in table.rows:
        cells += [cell for cell in row[first:] if cell]
    return cells


FAIR = {
    'five seeds': Null(
        law=Accuracies(10_000, 0.2), num_seeds=5, num_algorithms=3, grid=GRID
    ),
    'two seeds': Null(
        law=Accuracies(100, 0.2), num_seeds=2, num_algorithms=3, grid=GRID
    ),
    'three or more seeds until decided': Null(
        law=Accuracies(100, 0.2), num_seeds=8, min_seeds=3, num_algorithms=3, grid=GRID
    ),
    'tuned': Null(
        law=Accuracies(10_000, 0.2),
        num_seeds=3,
        num_algorithms=2,
        tuning_seeds=2,
        grid=GRID,
    ),
    'lanes that diverge': Null(
        law=Accuracies(100, 0.2),
        num_seeds=4,
        num_algorithms=2,
        diverging=0.3,
        grid=GRID,
    ),
}
RATED = {**GRID, 'rate': (0.1, 0.2, 0.3, 0.4)}
CHOSEN = {
    'from as many rates': Null(
        law=Accuracies(10_000, 0.2), num_seeds=5, num_algorithms=2, grid=RATED
    ),
    'from more rates than the baseline': Null(
        law=Accuracies(10_000, 0.2),
        num_seeds=5,
        num_algorithms=2,
        grid=RATED,
        baseline_lacks=('rate',),
    ),
}


OF_A_RELEASE = pytest.mark.release('test_a_fixed_number_of_seeds')


def runs_of(nulls, default, pages, few):
    """Parameters of a test: all cases with all pages, and one of the default tier with few."""
    slow = (
        pytest.param(name, pages, marks=(pytest.mark.slow, OF_A_RELEASE))
        for name in nulls
    )
    return [pytest.param(default, few), *slow]


@pytest.mark.parametrize('name, pages', runs_of(FAIR, 'two seeds', 1000, 40))
def test_claims_of_a_map_are_rarely_false(name, pages):
    rates = claim_rates(FAIR[name], pages, seed=3)
    assert rates['sided'] == pytest.approx(rates['starred by itself'])
    assert max(rates.values()) <= null_runs.max_false_rate(pages), rates


@pytest.mark.parametrize(
    'name, pages', runs_of(CHOSEN, 'from more rates than the baseline', 1000, 20)
)
def test_the_best_of_many_rates_is_rarely_ahead(name, pages):
    """Rates that are equally good, of which the best by the same seeds counts."""
    rates = claim_rates(CHOSEN[name], pages, seed=4, best_over=('rate',))
    assert max(rates.values()) <= null_runs.max_false_rate(pages), rates


def test_the_best_of_more_rates_is_shown_without_a_claim():
    null = CHOSEN['from more rates than the baseline']
    samples = null.source(np.random.default_rng(0))
    page = layouts.heat_map(samples, x='x', y='y', best_over=('rate',))
    best, differences, numbers = page.tables
    cells = [cell for row in differences.rows for cell in row[2:]]
    assert all(' ± ' in cell and ' [inf]' in cell for cell in cells)
    assert 'the best of more values' in differences.caption
    assert all(cell.endswith('~') for row in best.rows for cell in row[1:])
    assert numbers.rows[0][-1].endswith(' [inf]')


def test_a_true_lead_on_a_map_is_found():
    law = Accuracies(10_000, 0.2)
    null = Null(law=law, num_seeds=5, num_algorithms=3, grid=GRID, gain=0.02)
    page = layouts.heat_map(null.source(np.random.default_rng(0)), x='x', y='y')
    best, differences, numbers = page.tables
    assert all(cell.startswith('other 2 ') for row in best.rows for cell in row[1:])
    assert not any(cell.endswith('~') for row in best.rows for cell in row[1:])
    true = [cell for row in differences.rows if row[0] == 'other 2' for cell in row[2:]]
    assert all('**' in cell for cell in true)
    assert numbers.rows[1][-1].endswith('*')


@pytest.mark.parametrize('num_seeds', range(1, 30))
def test_so_many_that_diverged_are_rarely_chance(num_seeds):
    """The most that chance gives, over all chances of a lane to diverge."""
    chances = np.linspace(0.0, 1.0, 1001)
    for count in range(1, num_seeds + 1):
        rate = (
            2
            * (1 - chances) ** num_seeds
            * stats.binom.sf(count - 1, num_seeds, chances)
        )
        if student.divergence_suffices(count, num_seeds):
            assert rate.max() <= 0.05
    assert student.divergence_suffices(num_seeds, num_seeds) == (num_seeds >= 3)


def test_where_too_few_lanes_of_all_others_diverged_no_one_leads():
    """Of two seeds chance tells nothing; of three it does, if all of the others diverged."""
    for num_seeds, mark in ((2, ' ~'), (3, '')):
        curves = {
            'fedavg': np.full((1, num_seeds, 1), np.nan),
            'mifa': np.full((1, num_seeds, 1), 0.5),
        }
        members = {label: (label, {'x': 1, 'y': 1}) for label in curves}
        page = layouts.heat_map(made.results(curves, members=members), x='x', y='y')
        assert page.tables[0].rows == [['1', f'mifa 50.0{mark}']]
        assert ('too few lanes of all others' in page.tables[0].caption) == bool(mark)


def test_a_caption_speaks_of_marks_that_are_there_alone():
    """Where all lanes diverged, the cell is empty, and no mark tells of too few of them."""
    members = {}
    curves = {}
    for x, values in ((1, (np.nan, np.nan)), (2, (0.3, 0.5))):
        for algorithm, value in zip(('fedavg', 'mifa'), values, strict=True):
            label = f'{algorithm} {x}'
            members[label] = algorithm, {'x': x, 'y': 1}
            curves[label] = np.full((1, 2, 1), value)
    page = layouts.heat_map(made.results(curves, members=members), x='x', y='y')
    assert page.tables[0].rows == [['1', '', 'mifa 50.0 ~']]
    assert 'too few lanes' not in page.tables[0].caption
