"""A config as a tree: its short version, and what flags changed as its caption says it."""

import ml_collections
import pytest

from fedjax_links.config import captions, nested
from fedjax_links.core import errors

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
    assert nested.quick(CONFIG) == {
        'num_rounds': 10,
        'problem': {'name': 'images', 'model': 'cnn', 'data': {'dataset': 'digits'}},
        'links': {'name': 'bernoulli'},
        'client': {'rate': 0.1},
    }


def test_the_full_size_is_the_config_itself():
    assert nested.full(CONFIG) == {k: v for k, v in CONFIG.items() if k != 'quick'}
    assert CONFIG['client']['decay'] == 'constant'


def test_a_config_of_one_size_says_so():
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        nested.quick({'num_rounds': 3})
    assert str(caught.value) == (
        "`quick` must go with a config that has a section 'quick', got one without."
    )


FILE = {
    'title': 'A run',
    'caption': 'As printed.',
    'client': {'learning_rate': 0.1, 'decay': 'constant'},
    'problem': {'model': {'width': 8}, 'store': ''},
    'links': {'name': 'bernoulli', 'probs': [0.1, 0.2]},
    'num_rounds': 10,
}


def test_changes_are_fields_by_path_with_both_values():
    after = {
        **FILE,
        'title': 'Another',
        'caption': 'Mine.',
        'client': {'learning_rate': 0.2, 'decay': 'constant'},
        'problem': {'model': {'width': 16}, 'store': 'here'},
        'links': {'name': 'bernoulli', 'probs': [0.1, 0.3]},
        'first_seed': 3,
        'width': 40,
    }
    assert captions.with_changes(FILE, after) == {
        **after,
        'caption': (
            'Changed from the config: client.learning_rate = 0.2 (0.1), problem.model.width = 16 '
            "(8), problem.store = here (''), links.probs = [0.1, 0.3] ([0.1, 0.2]), first_seed = 3 "
            '(not given). What follows is about the config without changes.\n\nMine.'
        ),
    }


def test_a_quick_config_says_what_it_replaced():
    config = {'caption': 'N = 500.', 'figure': {'num_clients': 500}, 'width': 40}
    quick = nested.quick(
        {**config, 'quick': {'figure': {'num_clients': 100}, 'width': 50}}
    )
    result = captions.with_changes(config, quick, 'Quick version of the config')
    assert result['caption'] == (
        'Quick version of the config: figure.num_clients = 100 (500). What follows is about the '
        'config without changes.\n\nN = 500.'
    )


@pytest.mark.parametrize(
    'by', ['Quick version of the config', 'Changed from the config']
)
def test_values_in_a_caption_are_those_that_it_is_about(by):
    """A full config sees all of a cycle of 100 rounds, and its quick version does not."""
    caption = 'A cycle of 100 in {config.num_rounds} rounds, {config.tail} {braces}.'
    before = {'caption': caption, 'num_rounds': 4000}
    after = {**before, 'num_rounds': 50, 'tail': 0.2}
    result = captions.with_changes(before, after, by)
    message = captions.fill_in(result['caption'], result)
    assert message.endswith('A cycle of 100 in 4,000 rounds, 0.2 {braces}.')
    assert 'num_rounds = 50 (4000)' in message


def test_a_flag_in_a_caption_is_no_number():
    config = {'num_rounds': 4000, 'evaluate_start': True}
    text = '{config.num_rounds} rounds, start {config.evaluate_start}'
    assert captions.fill_in(text, config) == '4,000 rounds, start True'


def test_without_changes_a_config_stays_as_it_is():
    assert captions.with_changes(FILE, dict(FILE)) == FILE
    looks = {**FILE, 'title': 'Another', 'width': 40}
    assert captions.with_changes(FILE, looks) == looks
    no_caption = captions.with_changes({'num_rounds': 10}, {'num_rounds': 3})
    assert no_caption['caption'] == 'Changed from the config: num_rounds = 3 (10).'


@pytest.mark.parametrize('kind', [dict, list, ml_collections.ConfigDict])
def test_a_config_that_holds_itself_is_refused(kind):
    config = ml_collections.ConfigDict() if kind not in (dict, list) else {}
    config['problem'] = [config] if kind is list else config
    with pytest.raises(errors.InvalidError, match='`config` must have no section or '):
        nested.plain(config)


def test_a_value_put_into_a_copy_leaves_the_config_as_it_is():
    config = {'links': {'patterns': ('always', {'name': 'bernoulli'})}}
    path = ['links', 'patterns', 1, 'probs']
    changed = nested.put(config, path, 0.5)
    patterns = ('always', {'name': 'bernoulli', 'probs': 0.5})
    assert changed == {'links': {'patterns': patterns}}
    assert config == {'links': {'patterns': ('always', {'name': 'bernoulli'})}}


def test_a_value_past_the_end_of_a_list_is_refused():
    config = {'patterns': [{'probs': 0.5}]}
    with pytest.raises(
        errors.InvalidError,
        match=r'`config.patterns` must be a list with an entry \[1\]',
    ):
        nested.put(config, ['patterns', 1, 'probs'], 0.1)
