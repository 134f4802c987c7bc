"""The short version of a config."""

import pytest

from fedjax_links.config import quick as sizes

CONFIG = {
    'num_rounds': 100,
    'problem': {'name': 'images', 'model': 'cnn', 'data': {'dataset': 'mnist'}},
    'links': {'name': 'cyclic', 'cycle_length': 100},
    'client': {'rate': 0.1, 'decay': 'constant'},
    'quick': {
        'num_rounds': 10,
        'problem': {'data': {'dataset': 'digits'}},
        'links': {'name': 'bernoulli'},
        'client': {'decay': None},
    },
}


def test_quick_fields_replace_their_own_and_nothing_else():
    assert sizes.quick(CONFIG) == {
        'num_rounds': 10,
        'problem': {'name': 'images', 'model': 'cnn', 'data': {'dataset': 'digits'}},
        'links': {'name': 'bernoulli'},
        'client': {'rate': 0.1},
    }


def test_the_full_size_is_the_config_itself():
    assert sizes.full(CONFIG) == {k: v for k, v in CONFIG.items() if k != 'quick'}
    assert CONFIG['client']['decay'] == 'constant'


def test_a_config_of_one_size_says_so():
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        sizes.quick({'num_rounds': 3})
    assert str(caught.value) == (
        "`quick` must go with a config that has a section 'quick', got one without."
    )
