"""What objects say of themselves: true, short, and safe under tracing."""

import re

import jax
import numpy as np
import pytest

import fedjax_links as fl
import fedjax_links.__main__ as front
from fedjax_links import local_training, participation, problems
from fedjax_links.algorithms import ALGORITHMS
from fedjax_links.core import reprs
from fedjax_links.participation import PARTICIPATION
from fedjax_links.simulation import SimulationResult
from tests import ROOT

CLIENT = local_training.local_sgd(0.25, local_steps=3, batch_size=8)


@pytest.mark.parametrize('name', ALGORITHMS)
def test_every_algorithm_names_its_factory(name):
    entry = ALGORITHMS[name]
    built = entry.factory(CLIENT, **entry.example)
    assert repr(built) == f'<Algorithm {entry.factory.__name__}>'


@pytest.mark.parametrize('name', PARTICIPATION)
def test_every_pattern_is_named_in_one_line(name):
    text = repr(PARTICIPATION[name].example(6))
    repeats = r'(, repeats after [\d,]+ rounds)?'
    assert re.fullmatch(rf'<Participation [a-z]\w+: 6 clients{repeats}>', text)


def test_a_recorded_pattern_says_how_long_it_is():
    mask = np.ones((1500, 3), bool)
    text = '<Participation replay: 3 clients, repeats after 1,500 rounds>'
    assert repr(participation.replay(mask)) == text
    log = participation.trace([(0, 0, 60), (1, 30, 90)], tick=30)
    assert repr(log) == '<Participation trace: 2 clients, repeats after 3 rounds>'
    assert (
        repr(participation.bernoulli([0.5] * 4))
        == '<Participation bernoulli: 4 clients>'
    )


@pytest.mark.parametrize('title', front.registries())
def test_registries_print_each_name_and_what_it_is(title):
    table = front.registries()[title]
    lines = repr(table).splitlines()
    assert [line.split()[0] for line in lines] == [*table]
    column = max(map(len, table)) + 2
    for line in lines:
        assert line[column - 2 : column] == '  '
        assert re.match(r'[A-Z]\w*\b.* .*\.$', line[column:]), line


def test_a_registry_has_a_line_for_an_entry():
    lines = repr(ALGORITHMS).splitlines()
    server = 'Runs FedAvg: the server adds the mean update of the active clients.'
    assert f'fedavg              {server}' in lines
    lines = repr(problems.PROBLEMS).splitlines()
    assert lines[2].startswith('quadratic            Builds quadratics ')
    assert repr(type(ALGORITHMS)()) == ''


def test_entries_print_calls():
    assert repr(ALGORITHMS['fedbuff']) == (
        '<AlgorithmEntry fedbuff(local_train, *, buffer_size, server_lr=1.0, table_dtype=None)>'
    )
    assert repr(PARTICIPATION['cyclic']).startswith(
        '<ParticipationEntry cyclic(probs, *, '
    )


def test_client_programs_and_schedules_name_their_factories():
    assert repr(CLIENT) == '<ClientProgram local_sgd>'
    proximal = local_training.proximal_sgd(0.5, mu=0.1, local_steps=2)
    assert repr(proximal) == '<ClientProgram proximal_sgd>'
    schedule = participation.sine([0.3], gamma=0.2, period=8)
    assert repr(schedule) == '<Schedule sine>'


def test_a_jitted_round_is_still_named():
    algorithm = fl.algorithms.fedpbc(CLIENT)
    jitted = algorithm._replace(round_step=jax.jit(algorithm.round_step))
    assert repr(jitted) == repr(algorithm) == '<Algorithm fedpbc>'


def test_functions_of_ones_own_are_named():
    def step(state, ctx, problem):
        return state, None

    mine = fl.base.Algorithm(init=len, round_step=step, models=dict)
    assert repr(mine) == '<Algorithm test_functions_of_ones_own_are_named>'
    assert repr(fl.base.Algorithm(None, None, None)).startswith('<Algorithm')


def test_a_problem_counts_clients_examples_and_parameters():
    problem = problems.digits(num_clients=7, model='softmax')
    counts = np.asarray(problem.counts)
    text = repr(problem)
    assert 'clients: 7\n' in text
    assert f'examples per client: {counts.min()} to {counts.max()}' in text
    assert f'parameters: {64 * 10 + 10}' in text
    assert 'metrics: accuracy, loss' in text
    assert f'labels int32[{counts.sum()}]' in text
    assert text.count('\n') <= 5
    empty = jax.tree.map(lambda leaf: None, problem)  # as in_axes
    assert repr(empty) == 'Problem'
    traced = []

    @jax.jit
    def data_of(problem):
        traced.append(repr(problem))
        return problem.data

    data_of(problem)
    assert traced[0] == text
    for leaf in jax.tree.leaves((problem.data, problem.eval_data)):
        leaf.delete()
    assert repr(problem) == text


@pytest.fixture(scope='module')
def swept():
    problem = problems.quadratic(np.arange(8.0).reshape(4, 2))
    return fl.sweep(
        lambda rate: fl.algorithms.fedavg(
            local_training.local_sgd(rate, local_steps=1)
        ),
        lambda: participation.bernoulli(np.full(4, 0.5)),
        problem,
        seeds=[5, 6, 7],
        grid={'algorithm': {'rate': [0.1, 0.2]}},
        num_rounds=6,
        eval_every=3,
    )


def test_a_result_says_rounds_lanes_and_where_it_ended(swept):
    lines = repr(swept).splitlines()
    assert lines[:2] == ['SimulationResult', '  rounds: 6, 2 evaluations']
    assert lines[2] == '  lanes: 2 points x 3 seeds'
    final = np.asarray(swept.evals['server']['loss'])[:, :, -1]
    text = f'loss {final.mean():.4g} ({final.min():.4g} to {final.max():.4g})'
    assert text in lines[3]
    assert len(lines) == 4


def test_a_result_says_which_lanes_are_lost(swept):
    state = swept.state._replace(finite=swept.state.finite.at[0, 1].set(False))
    assert repr(swept._replace(state=state)).endswith('not finite: 1 of 6 lanes')


def test_a_result_of_anything_is_described():
    assert repr(SimulationResult(None, None, None)) == 'SimulationResult'


def test_a_run_says_what_ran():
    columns = {
        'stage': np.array(['tuning', 'main', 'main', 'main']),
        'algorithm': np.array(['fedavg'] * 4),
        'pattern': np.array(['links'] * 4),
        'round': np.array([20, 10, 20, 20]),
        'server/loss': np.array([9.0, 8.0, 1.0, 2.0]),
    }
    facts = {
        'title': 'a <run>',
        'metric': 'loss',
        'patterns': ['links'],
        'algorithms': ['fedavg', 'mifa'],
        'seeds': [0, 1],
        'num_rounds': 20,
        'eval_every': 10,
        'grid': {},
        'grid_mode': 'cross',
        'models': {'fedavg': ['server'], 'mifa': ['server']},
    }
    run = fl.runs.Results(columns, facts)
    text = repr(run)
    assert "Results of 'a <run>'" in text
    assert 'fedavg: loss: server 1.5 (1 to 2)' in text
    assert text.endswith('mifa: not finished')
    assert run._repr_html_().startswith('<pre>Results of &#x27;a &lt;run&gt;&#x27;\n  ')
    columns['pattern'] = np.array(['links', 'links', 'links', 'other data'])
    several = {**facts, 'patterns': ['links', 'other data', 'third']}
    text = repr(fl.runs.Results(columns, several))
    assert 'fedavg on links: loss: server 1\n' in text
    assert 'fedavg on other data: loss: server 2\n' in text
    assert 'fedavg on third: not finished' in text


def test_a_printed_run_shows_no_accuracy_of_what_diverged():
    line = (
        '{"algorithm": "a", "pattern": "p", "seed": %d, "round": 2, "finite": %s, %s}'
    )
    lines = [
        line % (0, 'true', '"server/accuracy": 0.9'),
        line % (1, 'false', '"server/accuracy": 0.1'),
    ]
    facts = {
        'title': 'two seeds',
        'metric': 'accuracy',
        'patterns': ['p'],
        'algorithms': ['a'],
        'seeds': [0, 1],
        'num_rounds': 2,
        'eval_every': 2,
        'grid': {},
        'grid_mode': 'cross',
        'models': {'a': ['server']},
    }
    run = fl.runs.Results(fl.runs.as_columns(lines), facts)
    assert repr(run).endswith('a: accuracy: 1 of 2 diverged')


def test_a_printed_run_averages_over_seeds_alone():
    run = fl.runs.read(ROOT / 'studies' / 'records' / 'maps' / 'space')
    is_shown = (run['algorithm'] == 'fedau') & (run['round'] == 1000)
    is_shown &= run['stage'] == 'main'
    point = {'links.probs.sigma': 2.0, 'problem.alpha': 0.1}
    point['problem.bayes_accuracy'] = 0.7
    for name, value in point.items():
        is_shown &= run[name] == value
    values = run['server/eval_accuracy'][is_shown]
    assert len(values) == 5  # seeds until decided
    part = run.select(point, algorithms='fedau')
    assert f'fedau: eval_accuracy: server {values.mean():.4g} (' in repr(part)
    column = {**point, 'problem.bayes_accuracy': [0.7, 0.98]}
    text = repr(run.select(column, algorithms='fedau'))
    first = f'fedau (bayes_accuracy 0.7): eval_accuracy: server {values.mean():.4g} ('
    assert first in text
    assert text.splitlines()[-1].startswith('  fedau (bayes_accuracy 0.98): ')
    assert len(repr(run).splitlines()) < 40


def test_rows_that_say_nothing_are_left_out():
    assert reprs.block('t', {'a': '1', 'b': '', 'c': '2'}) == 't\n  a: 1\n  c: 2'
