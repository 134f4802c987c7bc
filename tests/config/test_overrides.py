"""What flags changed from a config, as its caption says it."""

from fedjax_links.config import overrides

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
    assert overrides.captioned(FILE, after) == {
        **after,
        'caption': (
            'Changed from the config: client.learning_rate = 0.2 (0.1), problem.model.width = 16 '
            "(8), problem.store = here (''), links.probs = [0.1, 0.3] ([0.1, 0.2]), first_seed = 3 "
            '(not given). What follows is said of the config without changes.\n\nMine.'
        ),
    }


def test_without_changes_a_config_stays_as_it_is():
    assert overrides.captioned(FILE, dict(FILE)) == FILE
    looks = {**FILE, 'title': 'Another', 'width': 40}
    assert overrides.captioned(FILE, looks) == looks
    no_caption = overrides.captioned({'num_rounds': 10}, {'num_rounds': 3})
    assert no_caption['caption'] == 'Changed from the config: num_rounds = 3 (10).'
