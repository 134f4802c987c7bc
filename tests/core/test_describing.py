"""What objects say of themselves: true, short, and safe under tracing."""

import functools
import inspect
import re
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import fedjax_links as fl
from fedjax_links import local_training, participation, problems
from fedjax_links.algorithms import ALGORITHMS
from fedjax_links.clients import rates as learning_rates
from fedjax_links.core import describing
from fedjax_links.participation import PARTICIPATION, SCHEDULES
from fedjax_links.simulation import SimulationResult

CLIENT = local_training.local_sgd(0.25, local_steps=3, batch_size=8)


PROGRAM = 'local_sgd(0.25, local_steps=3, batch_size=8)'


@pytest.mark.parametrize('name', ALGORITHMS)
def test_every_algorithm_reads_like_the_call_that_made_it(name):
    entry = ALGORITHMS[name]
    text = repr(entry.factory(CLIENT, **entry.example))
    assert text.startswith(f'{entry.factory.__name__}({PROGRAM}')
    assert all(f', {option}=' in text for option in entry.example)
    assert not re.search(r'\b_|<| at 0x|\n', text)  # no private helper, no address, one line


@pytest.mark.parametrize('name', PARTICIPATION)
def test_every_pattern_reads_like_the_call_that_made_it(name):
    entry = PARTICIPATION[name]
    pattern = entry.example(6)
    assert repr(pattern).startswith(f'{entry.factory.__name__}(')
    assert not re.search(r'\b_|<| at 0x|\n', repr(pattern))
    assert f'>{pattern.num_clients}</td>' in pattern._repr_html_()


@pytest.mark.parametrize('name', SCHEDULES)
def test_every_schedule_reads_like_the_call_that_made_it(name):
    options = {'sine': {'gamma': 0.25, 'period': 8}, 'jitter': {'width': 0.125}}.get(name, {})
    schedule = SCHEDULES[name](np.full(6, 0.5, np.float32), **options)
    said = ', '.join(f'{option}={value}' for option, value in options.items())
    assert repr(schedule).startswith(f'{name}(float32[6]' + (f', {said})' if said else ''))
    assert repr(participation.bernoulli(schedule)) == f'bernoulli({schedule!r})'


def test_what_is_said_can_be_run_again():
    made = fl.algorithms.fedpbc(
        local_training.proximal_sgd(
            learning_rates.warmup(0.5, initial=0.25, rounds=4), mu=0.1, local_steps=2
        ),
        compute='active',
    )
    names = {**vars(fl.algorithms), **vars(local_training), **vars(learning_rates)}
    again = eval(repr(made), names)
    assert repr(again) == repr(made)
    rates = [
        inspect.getclosurevars(one.round_step).nonlocals['local_train'].learning_rate
        for one in (made, again)
    ]
    assert [float(rates[0](t)) for t in range(9)] == [float(rates[1](t)) for t in range(9)]


def test_a_factory_that_gives_back_its_argument_leaves_it_as_it_was():
    @describing.by_call
    def same(pattern):
        return pattern

    @describing.by_call
    def shared(num_clients):
        return len

    assert repr(same(participation.always(3))) == 'always(3)'
    assert shared(3) is len


def test_a_marked_factory_is_called_as_before():
    for factory in (fl.algorithms.fedavg, participation.always, learning_rates.constant):
        bare = factory.__wrapped__
        assert inspect.signature(factory) == inspect.signature(bare)
        assert (factory.__name__, factory.__module__) == (bare.__name__, bare.__module__)
    with pytest.raises(TypeError, match=r"fedavg\(\) got an unexpected keyword argument 'rate'"):
        fl.algorithms.fedavg(CLIENT, rate=1)


def test_what_a_factory_was_given_is_not_kept_alive():
    @describing.by_call
    def pattern(log):
        size = len(log)
        return participation.always(3)._replace(sample=lambda *args: size)

    log = np.zeros(100)
    gone = weakref.ref(log)
    made = pattern(log)
    del log
    assert gone() is None
    assert repr(made) == 'pattern(float64[100])'


def test_programs_compile_once_for_equal_functions():
    algorithm = fl.algorithms.fedavg(CLIENT)
    problem = problems.quadratic(np.arange(8.0).reshape(4, 2))
    traces = []

    @functools.partial(jax.jit, static_argnums=0)
    def start(init, params):
        traces.append(repr(algorithm))
        return init(params, problem)

    for _ in range(2):
        start(algorithm.init, jnp.zeros(2))
    assert len(traces) == 1
    assert repr(algorithm._replace(round_step=jax.jit(algorithm.round_step))) == repr(algorithm)


def test_a_composed_optimizer_is_not_named_by_one_of_its_parts():
    for optimizer in (optax.adam(0.1), optax.sgd(0.1)):
        text = repr(fl.algorithms.fedopt(CLIENT, server_optimizer=optimizer))
        assert 'server_optimizer=GradientTransformation' in text


def test_long_lists_are_cut():
    pattern = participation.bernoulli([0.125] * 1000)
    assert repr(pattern) == 'bernoulli([0.125, 0.125, 0.125, 0.125, ...])'


def test_hyper_parameters_are_those_given():
    text = repr(fl.algorithms.fedpbc(CLIENT, server_lr=0.5, compute='active'))
    assert text == f"fedpbc({PROGRAM}, server_lr=0.5, compute='active')"
    pattern = participation.bernoulli(participation.sine(np.full(5, 0.3), gamma=0.2, period=8))
    assert repr(pattern) == 'bernoulli(sine(float64[5], gamma=0.2, period=8))'


def test_tracers_and_arrays_are_shown_by_dtype_and_shape():
    said = []

    @jax.jit
    def build(rate, probs):
        program = local_training.local_sgd(rate, local_steps=2)
        said.append(repr(fl.algorithms.fedavg(program, server_lr=rate)))
        said.append(repr(participation.bernoulli(probs)))
        return rate

    with jax.checking_leaks():
        build(0.5, jnp.full(4, 0.5))
    assert 'server_lr=float32[]' in said[0]
    assert 'local_sgd(float32[], local_steps=2)' in said[0]
    assert said[1] == 'bernoulli(float32[4])'


def test_an_algorithm_of_ones_own_is_named_by_its_factory():
    def mine(local_train, server_lr):
        def step(state, ctx, problem):
            return local_train, server_lr

        return fl.base.Algorithm(init=len, round_step=step, models=dict)

    assert repr(mine(CLIENT, 0.5)).endswith('named_by_its_factory>')
    assert repr(describing.by_call(mine)(CLIENT, 0.5)) == f'mine({PROGRAM}, 0.5)'


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
    assert facts.block() == 't\n  a: 1\n  b: 2'
    long = 'x' * 500

    def factory(text):
        return fl.base.Algorithm(init=len, round_step=lambda: text, models=dict)

    shown = repr(describing.by_call(factory)(long))
    assert shown.startswith("factory('xxx")
    assert len(shown) < 200
