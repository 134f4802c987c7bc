"""Flags that replace fields do what ml_collections' own flags do."""

import pytest
from absl import flags
from ml_collections import FrozenConfigDict, config_flags

from fedjax_links import experiment
from fedjax_links.cli import configs
from fedjax_links.core import errors
from tests.cli.command import refused, run

FILE = """
from ml_collections import ConfigDict, config_dict


def get_config():
    shared = ConfigDict({'value': 0.5})
    config = ConfigDict({
        'title': 'refers',
        'num_rounds': 40,
        'links': {'name': 'bernoulli', 'probs': [0.1, 0.2, 0.3]},
        'patterns': {'b': {'probs': shared}, 'a': {'probs': shared}},
        'client': {'learning_rate': config_dict.placeholder(float), 'decay': 'constant'},
        'evaluate_start': False,
        'metric': config_dict.placeholder(str),
        'sizes': (1, 2),
        'rows': [{'x': 1}, {'x': 2}],
    })
    config.eval_every = config.get_ref('num_rounds') // 4
    config.also = config.get_ref('links')
    return config
"""
RATE = '--config.client.learning_rate=1'


@pytest.fixture
def path(tmp_path):
    """The file."""
    path = tmp_path / 'refers.py'
    path.write_text(FILE)
    return str(path)


def ours(path, *arguments):
    """The config of a command line."""
    overrides = {}
    others = configs.take_overrides(['program', *arguments], overrides)
    assert others == ['program']
    values = configs.load(path, overrides)
    values.pop('caption', None)
    return values


def theirs(*arguments):
    """The same by the flags of ml_collections."""
    known = flags.FlagValues()
    names = {}
    exec(FILE, names)
    options = {
        'lock_config': False,
        'accept_new_attributes': True,
        'sys_argv': [*arguments],
    }
    config_flags.DEFINE_config_dict(
        'config', names['get_config'](), flag_values=known, **options
    )
    known(['program', *arguments])
    return known.config.to_dict()


@pytest.mark.parametrize(
    'arguments',
    [
        [],
        ['--config.num_rounds=80'],
        ['--config.num_rounds', '80', '--config.num_rounds=60'],
        ['-config.num_rounds', '80'],
        ['--config.eval_every=5'],
        ['--config.eval_every=5', '--config.num_rounds=80'],
        ['--config.links.probs[0]=0.9'],
        ['--config.links.probs[2]=1', '--config.links.probs[0]=0'],
        ['--config.rows[1].x=7'],
        ['--config.patterns.a.probs.value=0.25'],
        ['--config.also.name=markov'],
        ['--config.evaluate_start'],
        ['--config.evaluate_start', '--config.num_rounds=80'],
        ['--config.evaluate_start=true'],
        ['--config.evaluate_start', '--noconfig.evaluate_start'],
        ['--config.metric=2024'],
        ['--config.title=3'],
        ['--config.sizes=(3, 4, 5)'],
        ['--config.new=[1, 2]', '--config.switch', '--config.text=some words'],
    ],
)
def test_a_flag_does_what_it_does_in_ml_collections(path, arguments):
    assert ours(path, RATE, *arguments) == theirs(RATE, *arguments)


def test_a_file_of_flags_may_hold_overrides(path, tmp_path):
    (tmp_path / 'inner').write_text('--config.evaluate_start\n')
    (tmp_path / 'outer').write_text(
        f'# a comment\n--config.num_rounds=80\n--flagfile={tmp_path / "inner"}\n{RATE}\n'
    )
    file = f'--flagfile={tmp_path / "outer"}'
    result = ours(path, file, '--config.eval_every=4')
    assert result == theirs(file, '--config.eval_every=4')
    assert result['num_rounds'] == 80
    assert result['eval_every'] == 4
    assert result['evaluate_start'] is True


def test_a_file_of_flags_that_is_not_there_costs_one_line(tmp_path):
    assert 'flagfile' in refused(
        'theory', '--config=quickstart', f'--flagfile={tmp_path / "x"}'
    )


def test_labels_with_dots_stand_in_brackets(tmp_path):
    file = tmp_path / 'dots.py'
    file.write_text(
        'def get_config():\n    return {"algorithms": {"rate 0.5": {"x": 1}}}\n'
    )
    result = ours(str(file), '--config.algorithms["rate 0.5"].x=2')
    assert result == {'algorithms': {'rate 0.5': {'x': 2}}}


def test_a_placeholder_that_must_have_a_value_names_its_field(tmp_path):
    path = tmp_path / 'required.py'
    path.write_text(FILE.replace('.placeholder(float)', '.required_placeholder(float)'))
    result = ours(str(path), RATE)['client']['learning_rate']
    assert (result, type(result)) == (1.0, float)
    line = refused('theory', f'--config={path}')
    assert line.startswith(
        'error: `config.client.learning_rate` must be given a value, got '
    )


@pytest.mark.parametrize(
    'argument, message',
    [
        (
            '--config.num_rounds=abc',
            '`config.eval_every` must be computable from what it refers',
        ),
        (
            '--config.links.probs[3]=1',
            '`config.links.probs` must be a list with an entry [3], got',
        ),
        (
            '--config.num_rounds[0]=1',
            '`config.num_rounds` must be a list with an entry [0], got 4',
        ),
        (
            '--config.links.probs[x]=1',
            'must be reached by names and indices, such as a.b[0], got ',
        ),
        (
            '--config.=1',
            'must be reached by names and indices, such as a.b[0], got no ',
        ),
        (
            '--config.links..probs=1',
            'must be reached by names and indices, such as a.b[0], got links..probs.',
        ),
        (
            '--config.client={[]: 1}',
            "`config.client` must be a section, got '{[]: 1}'.",
        ),
        (
            '--config.num_rounds',
            '`config.num_rounds` must be given a value, as --config.num_',
        ),
        (
            '--noconfig.evaluate_start=True',
            '`noconfig.evaluate_start` must be given without a value, got True.',
        ),
        (
            '--noconfig.title',
            '`config.title` must be given a value, as --config.title=VALUE, got none.',
        ),
    ],
)
def test_a_mistaken_override_costs_one_line(path, argument, message):
    assert message in refused('theory', f'--config={path}', RATE, argument)


@pytest.mark.parametrize(
    'override',
    ["--config.algorithms={'a\\b': {'name': 'fedavg'}}", '--config.links.name=a\x1bb'],
)
def test_what_cannot_be_printed_is_no_mistake_in_a_caption(override):
    error = refused('theory', '--config=quickstart', override)
    assert 'caption' not in error
    assert error.removesuffix('\n').isprintable()


@pytest.mark.parametrize('kind', [int, float])
def test_a_number_with_a_comma_stays_as_it_was_written(kind):
    assert configs.parse_value('1,000', kind) == '1,000'
    assert configs.parse_value('1,000') == (1, 0)


@pytest.mark.parametrize('kind', [int, float, type(None)])
def test_an_int_that_python_does_not_write_is_no_value(kind):
    for text in ('1' * 5000, '0x' + 'f' * 5000, '[0x' + 'f' * 5000 + ']'):
        assert configs.parse_value(text, kind) == text


def test_an_int_beyond_all_floats_is_no_value_of_a_float():
    assert configs.parse_value('9' * 400, float) == '9' * 400
    assert configs.parse_value('9' * 300, float) == float('9' * 300)


def test_an_index_of_many_digits_costs_a_line():
    flag = f'--config.seeds[{"1" * 5000}]=3'
    assert '`config` must be reached by names' in refused(
        'theory', '--config=quickstart', flag
    )


def test_the_short_version_moves_what_refers_to_it(tmp_path):
    path = tmp_path / 'quick.py'
    path.write_text(
        'from ml_collections import ConfigDict\n'
        'def get_config():\n'
        "    config = ConfigDict({'num_rounds': 40, 'quick': {'num_rounds': 8}})\n"
        "    config.eval_every = config.get_ref('num_rounds') // 4\n"
        '    return config\n'
    )
    short = configs.load(str(path), {}, quick=True)
    assert (short['num_rounds'], short['eval_every']) == (8, 2)
    assert configs.load(str(path), {}) == {'num_rounds': 40, 'eval_every': 10}
    longer = configs.load(str(path), {'num_rounds': '80'}, quick=True)
    assert longer['eval_every'] == 20
    assert longer['caption'] == (
        'Quick version of the config: num_rounds = 80 (40), eval_every = 20 (10).'
    )


REFERS = """
from ml_collections import ConfigDict


def get_config():
    config = ConfigDict({
        'title': 'order',
        'problem': {'name': 'counterexample', 'num_clients': 4, 'dimension': 2},
        'patterns': {'often': {'name': 'bernoulli', 'probs': 0.9}, 'always': 'always'},
        'client': {'learning_rate': 0.1, 'local_steps': 1},
        'algorithms': {'fedpbc': {}, 'fedau': {}},
        'num_rounds': 40,
        'num_seeds': 1,
    })
    config.eval_every = config.get_ref('num_rounds') // 4
    return config
"""


@pytest.mark.slow
def test_a_command_resolves_references_after_overrides(tmp_path):
    path = tmp_path / 'order.py'
    path.write_text(REFERS)
    done = run(
        'simulate',
        f'--config={path}',
        '--workdir=x',
        '--dry_run',
        '--config.num_rounds=80',
    )
    assert done.returncode == 0, done.stderr
    assert '80 rounds' in done.stdout
    assert 'eval_every = 20 (10)' in done.stdout


def test_python_builds_a_config_dict_as_a_command_does(tmp_path):
    path = tmp_path / 'order.py'
    path.write_text(REFERS)
    names = {}
    exec(REFERS, names)
    config = names['get_config']()
    from_command = experiment.build(configs.load(str(path), {}))
    for built in (experiment.build(config), experiment.build(FrozenConfigDict(config))):
        assert built == from_command
    built = experiment.build(config)
    # The order of the file; the first is the baseline.
    assert list(built.algorithms) == ['fedpbc', 'fedau']
    assert list(built.patterns) == ['often', 'always']
    assert built.plan.facts()['baseline'] == 'fedpbc'
    config.num_rounds = 80
    assert experiment.build(config).eval_every == 20


@pytest.mark.parametrize('config', [None, 'quickstart', [('title', 'x')]])
def test_what_is_no_config_is_refused(config):
    with pytest.raises(
        errors.InvalidError, match='`config` must be a dictionary or a ConfigDict'
    ):
        experiment.build(config)
