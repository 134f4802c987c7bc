"""What objects say of themselves: true, short, and safe under tracing."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_links as fl
from fedjax_links import describing, local_training, participation, problems
from fedjax_links.algorithms import ALGORITHMS
from fedjax_links.participation import PARTICIPATION
from fedjax_links.simulation import SimulationResult

CLIENT = local_training.local_sgd(0.25, local_steps=3, batch_size=8)


@pytest.mark.parametrize('name', ALGORITHMS)
def test_every_algorithm_names_its_factory_and_its_client_program(name):
    entry = ALGORITHMS[name]
    text = repr(entry.factory(CLIENT, **entry.example))
    home = entry.factory.__module__.rsplit('.', 1)[-1]
    assert text.startswith((f'<Algorithm {entry.factory.__name__}:', f'<Algorithm {home}.'))
    assert 'local_steps=3' in text
    assert 'rate=as_schedule(rate=0.25)' in text
    assert ' at 0x' not in text
    assert '\n' not in text


@pytest.mark.parametrize('name', PARTICIPATION)
def test_every_pattern_says_how_many_clients_it_has(name):
    pattern = PARTICIPATION[name].example(6)
    assert repr(pattern).startswith('<Participation ')
    assert f'num_clients={pattern.num_clients}' in repr(pattern)
    assert (f'cycle={pattern.cycle}' in repr(pattern)) == (pattern.cycle is not None)
    assert ' at 0x' not in repr(pattern)


def test_hyper_parameters_are_those_given():
    text = repr(fl.algorithms.fedpbc(CLIENT, server_lr=0.5, compute='active'))
    assert "compute='active'" in text
    assert 'server_lr=0.5' in text
    pattern = participation.bernoulli(participation.sine(np.full(5, 0.3), gamma=0.2, period=8))
    assert 'schedule=sine(gamma=0.2, p=float32[5], period=8)' in repr(pattern)


def test_tracers_and_arrays_are_shown_by_dtype_and_shape():
    said = []

    @jax.jit
    def build(rate, probs):
        program = local_training.local_sgd(rate, local_steps=2)
        said.append(repr(fl.algorithms.fedavg(program, server_lr=rate)))
        said.append(repr(participation.bernoulli(probs)))
        return rate

    build(0.5, jnp.full(4, 0.5))
    assert 'server_lr=float32[]' in said[0]
    assert 'as_schedule(rate=float32[])' in said[0]
    assert 'p=float32[4]' in said[1]


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
    jax.jit(lambda p: traced.append(repr(p)) or p.data)(problem)
    assert traced[0] == text


@pytest.fixture(scope='module')
def swept():
    problem = problems.quadratic(np.arange(8.0).reshape(4, 2))
    return fl.sweep(
        lambda rate: fl.algorithms.fedavg(local_training.local_sgd(rate, local_steps=1)),
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
    said = f'loss {final.mean():.4g} ({final.min():.4g} to {final.max():.4g})'
    assert said in lines[3]
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
        'grid': {'problem.alpha': [0.1, 1.0]},
        'models': {'fedavg': ['server'], 'mifa': ['server']},
    }
    run = fl.runs.Results(columns, facts)
    text = repr(run)
    assert "Results of 'a <run>'" in text
    assert 'problem.alpha: 0.1, 1.0' in text
    assert 'fedavg: loss: server 1.5 (1 to 2)' in text
    assert text.endswith('mifa: not finished')
    page = run._repr_html_()
    assert 'a &lt;run&gt;' in page
    assert page.count('<tr>') == len(text.splitlines()) - 1


def test_notebooks_get_tables(swept):
    problem = problems.quadratic(np.ones((3, 2)))
    algorithm = ALGORITHMS['fedavg'].factory(CLIENT)
    for thing in (swept, problem, algorithm, participation.always(3)):
        assert thing._repr_html_().startswith('<table><caption>')


def test_values_are_cut_to_one_short_line():
    facts = describing.Facts('t', {'a': '1', 'b': '2'})
    assert (facts.line(), facts.block()) == ('<t: a=1, b=2>', 't\n  a: 1\n  b: 2')
    long = 'x' * 500

    def factory(text):
        return lambda: text

    (shown,) = describing.of_functions('Thing', [factory(long)]).rows.values()
    assert len(shown) < 200
