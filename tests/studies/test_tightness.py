"""The page on the tightness of theorems prints what its script computes."""

from pathlib import Path

from studies import tightness

PAGE = Path(tightness.__file__).with_name('tightness.md')


def test_the_page_has_the_table_of_the_script():
    result = tightness.rows()
    assert tightness.table(result) in PAGE.read_text()
    covered = [row.setting for row in result if row.broken == 'none']
    assert covered == [
        'Wang 2022, Figure B.1, gamma .05',
        f'Sun 2025, Proposition 3, T = {tightness.SUN_ROUNDS:,}',
    ]
    for row in result:
        assert not row.bound_at_cap < row.exact_at_cap, row.setting
