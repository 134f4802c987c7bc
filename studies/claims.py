"""Prints what the papers say of their experiments, beside the runs of the repository.

python -m studies.claims

First come the rows of `studies.computed`, then a table of claims. Its numbers are computed from the
archives of the runs in ``studies/records/papers``. The claims are in `studies.paper_claims`.

A claim is a list of pairs of runs. The paper says that the first of a pair is ahead, or that both
are equally good. The two sides have the same seeds. A number is the mean difference over seeds
with its 95 % interval (Student t), positive where the first is ahead. A verdict counts the pairs:
`studies.claim.Outcome.verdict`.
"""

from collections.abc import Iterator

from studies import claimed_rates, computed
from studies.claim import Judged, judged, rows, summary
from studies.paper_claims import sun2025, wang2022, xiang2023, xiang2024

MINUTES = {
    'sun2025_figure2': '1',
    'sun2025_figure3_gaussians': '6',
    'sun2025_figure3_mnist_short': '4 GPU',
    'sun2025_table1_gaussians': '3',
    'wang2022_figure1_gaussians': '15',
    'wang2022_figure2_gaussians': '30',
    'wang2022_figure_d1_fashion_mnist_short': '54',
    'wang2022_figure_d1_gaussians': '1',
    'wang2022_figure_d2_gaussians': '46',
    'wang2022_figure_d3_gaussians': '26',
    'wang2022_initial_rates_gaussians': '1',
    'wang2022_table_d1_gaussians': '14',
    'xiang2023_figure3': '15',
    'xiang2024_table1_gaussians': '21',
    'xiang2024_table1_gaussians_betas': '1',
    'xiang2024_table1_gaussians_samples': '1',
    'xiang2024_table2_gaussians': '10',
    **{
        f'xiang2024_figure9_{parameter}_gaussians': '5'
        for parameter in xiang2024.VALUES
    },
}
"""About how many minutes a run took: on two CPU cores, or on an H100 where it says GPU."""

CLAIMS = (
    *xiang2023.claims(),
    *xiang2024.claims(),
    *xiang2024.short_runs(),
    *wang2022.claims(),
    *sun2025.claims(),
)

TABLE_D1 = 'wang2022_table_d1_gaussians'
"""The archive of the search for local rates."""
PRINTED = {'wait_minibatch': 0.1, 'wait_full': 0.1, 'plain': 1e-5, 'amplified': 1e-5}
"""The best local rates that Table D.1 of Wang and Ji prints, by algorithm."""


def table(outcomes: Judged) -> Iterator[str]:
    """Yields the lines of the table: all claims, and those about rates."""
    yield from rows(outcomes, MINUTES)
    yield from claimed_rates.lines(TABLE_D1, PRINTED, MINUTES)


if __name__ == '__main__':
    outcomes = judged(CLAIMS)
    print('\n'.join([*computed.rows(), '', *table(outcomes), '', summary(outcomes)]))
