"""Full-size configs in short: what is left out, what is counted, what is extrapolated."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks import common as common_benchmarks
from fedjax_links import datasets, experiment, problems
from fedjax_links.papers import common
from studies import full_size
from studies import full_size_configs as configs
from tests.configs import shipped

WRITTEN = [
    ('xiang2024_table1', 'cinic10'),
    ('xiang2024_figure9', 'alpha,cifar10'),
    ('wang2022_figure1', 'fashion_mnist'),
    ('wang2022_figure_d2', 'cifar10'),
    ('sun2025_figure3', 'mnist'),
]


@pytest.mark.parametrize('name, argument', WRITTEN)
def test_full_size_covers_all_algorithms_patterns_and_work(name, argument):
    values = configs.full(name, argument, 'nowhere')
    turns = max(len(values['algorithms']), len(values['patterns']))
    short = [configs.shortened(values, turn, 4) for turn in range(turns)]
    for part in ('algorithms', 'patterns'):
        assert {label for one in short for label in one[part]} == set(values[part])
    for one in short:
        assert one['problem'] == values['problem']
        for field in ('local_steps', 'batch_size'):
            assert one['client'][field] == values['client'][field]
        (pattern,) = one['patterns'].items()
        assert pattern in values['patterns'].items()
        (section,) = one['algorithms'].values()
        assert section.get('start_round', 2) == 2
        assert one['num_rounds'] == 2 * one['eval_every'] == 4


@pytest.mark.parametrize('name, argument', WRITTEN)
def test_links_depend_only_on_labels_that_are_counted(name, argument):
    """Clients are counted with alpha 0.1, or with that of the pattern."""
    values = configs.full(name, argument, 'nowhere')
    if 'label_dependent' in str(values['patterns']):
        assert values['problem']['partition'] == 'dirichlet'
        assert values['problem']['alpha'] == 0.1


@pytest.mark.slow
def test_clients_are_counted_after_the_warm_up():
    """All ten who are selected, or each of 250 once in 500 rounds."""
    values = configs.full('wang2022_figure1', 'fashion_mnist', 'nowhere')
    labels = ('wait_minibatch', 'plain')
    values['algorithms'] = {label: values['algorithms'][label] for label in labels}
    assert configs.clients_per_round(values) == {'wait_minibatch': 0.5, 'plain': 10.0}


@pytest.mark.slow
def test_operations_are_those_of_the_products():
    """2 B K for every weight forward; in all thrice that, less the gradient by the images."""
    network = {'name': 'mlp', 'hidden': (300, 200)}
    data = {'num_train': 2_000, 'num_test': 100, 'shape': (20, 20, 1)}
    images = common.synthetic_images(
        4, 2_000, difficulty=0.5, partition={'partition': 'iid'}
    )
    images |= {'data': data, 'model': network}
    del images['name']
    problem = problems.images(**images)
    rows = jax.tree.map(lambda a: a[:64], problem.data)
    params = problem.init_params(jax.random.key(0))
    weights = [400 * 300, 300 * 200, 200 * 10]
    program, _ = common_benchmarks.compile_program(problem.metrics, params, rows)
    forward, moved = full_size._operations(program)
    assert forward == pytest.approx(2 * 64 * sum(weights), rel=0.05)
    assert moved >= 4 * sum(weights)
    gradient = jax.value_and_grad(problem.loss_fn)
    program, _ = common_benchmarks.compile_program(gradient, params, rows)
    both, _ = full_size._operations(program)
    assert both == pytest.approx(2 * 64 * (3 * sum(weights) - weights[0]), rel=0.05)


def test_hours_add_up_training_and_evaluations():
    values = configs.full('wang2022_figure1', 'gaussians', 'nowhere')
    del values['problem']['data']
    planned = experiment.build(values)
    cost = full_size.Costs(
        {16: (100.0, 10.0)}, {16: 0.1, 200: 0.9}, (7.0, 3.0), 5.0, 1_000
    )
    measured = full_size.Measured(wall=1.0, processor=0.5, before=10.0)
    result = full_size.extrapolated(
        values, planned, 'wait_minibatch', measured, 0.5, cost
    )
    trained = 10 * (2_000 * 10 + 298_033 * 0.5)
    evaluated = 10 * 300_033 // 153
    assert result['lanes'] == 10
    assert result['rounds'] == 3_000_330
    assert result['hours_on_two_cores'] == pytest.approx(
        (0.5 * trained + 5 * evaluated) / 7200
    )
    assert result['operations'] == 5 * trained * 100 + evaluated * 1_000 * 7
    assert result['bytes'] == 5 * trained * 10 + evaluated * 1_000 * 3
    problem = planned.problem_at('periodic', planned.plan.points[0])
    alone = full_size._by_steps(values, problem, cost, before=10.0)
    assert alone['wait_minibatch'].processor == pytest.approx(5 * 0.1)
    assert alone['wait_full'].processor == pytest.approx(5 * 0.9)


def test_stand_ins_have_the_shape_and_share_of_the_data(tmp_path):
    configs.write_stand_in('svhn', tmp_path, fraction=0.01)
    data = datasets.published('svhn', data_dir=tmp_path)
    assert data.train_features.shape == (733, 32, 32, 3)
    assert data.test_features.shape == (260, 32, 32, 3)
    np.testing.assert_array_equal(np.bincount(data.test_labels), np.full(10, 26))
    assert float(jnp.std(data.train_features / 255)) == pytest.approx(
        (1 / 12) ** 0.5, rel=0.02
    )


def test_the_page_names_every_config_with_images():
    page = (shipped.FOLDER.parent / 'studies' / 'full_size.md').read_text()
    num_configs = 0
    for name, (*_, data, _) in shipped.ARGUMENTS.items():
        for dataset in set(data) & set(configs.STAND_INS):
            argument = f'alpha,{dataset}' if name == 'xiang2024_figure9' else dataset
            assert f'| {name}:{argument}' in page
            num_configs += 1
    assert num_configs


def test_the_row_that_was_not_run_is_scaled_by_its_rounds():
    """The search for initial rates runs what Figure D.1 runs, at eight rates."""
    page = (shipped.FOLDER.parent / 'studies' / 'full_size.md').read_text()
    names = ('wang2022_initial_rates', 'wang2022_figure_d1')
    row, base = (
        [cell.strip() for cell in line.split('|')[2:-1]]
        for name in names
        for line in page.splitlines()
        if line.startswith(f'| {name}:cifar10 |')
    )
    path = shipped.FOLDER / 'wang2022_initial_rates.py'
    values = shipped.module(path).get_config('cifar10').to_dict()
    assert values['tuning']['num_rounds'] == values['num_rounds']
    tried = len(values['tuning']['learning_rates'])
    lanes = len(values['patterns']) * (tried + values['num_seeds'])
    rounds = lanes * values['num_rounds']
    assert row[2:4] == [f'{lanes}', f'{rounds:,}']
    factor = rounds / int(base[3].replace(',', ''))
    for column in (6, 8, 9):  # days, and GPU hours by operations and by bytes
        assert row[column] == f'{factor * float(base[column]):.2g}'
    assert row[7] == base[7]


@pytest.mark.slow
def test_the_smallest_config_runs_and_is_a_line_of_the_table(tmp_path):
    shared = full_size.SharedMeasurements(tmp_path, fraction=0.1)
    record = full_size.measure('wang2022_figure_d1:fashion_mnist', 2, shared)
    assert record['ran'] == ['fedavg', 'fedavg']
    assert record['parameters'] == 228_586
    (result,) = record['algorithms'].values()
    assert result['lanes'] == 20
    assert result['clients_per_round'] == 10
    line = list(full_size.rows([record]))[-1]
    assert line.startswith(
        '| wang2022_figure_d1:fashion_mnist | 250 | 228,586 | 20 | 40,000 | 2 |'
    )
