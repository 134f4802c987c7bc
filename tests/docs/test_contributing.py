"""What CONTRIBUTING.md names is there."""

import pkgutil
import re

import pytest

from tests import ROOT

TEXT = (ROOT / 'CONTRIBUTING.md').read_text()


@pytest.mark.parametrize('opening', ["A client's rate", 'A seed'])
def test_a_number_travels_by_few_functions_of_few_rooms_and_they_exist(opening):
    travels = TEXT.split('## How a number travels')[1].split('\n## ')[0]
    listed = travels.split(f'\n{opening}')[1].split('\n\n')[1]
    names = re.findall(r'`((?:\w+\.)+\w+)`', listed)
    for name in names:
        assert callable(pkgutil.resolve_name(f'fedjax_links.{name}')), name
    assert 10 <= len(names) == len(set(names)) <= 15
    assert len({name.split('.')[0] for name in names}) <= 8
