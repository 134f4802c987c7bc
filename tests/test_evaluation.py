"""Statistics over seeds against SciPy, and what is measured inside the program."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn
from scipy import stats

from fedjax_links import evaluation, problems
from tests import refusals
from tests.reference import local_loops


@pytest.mark.parametrize('level', [0.5, 0.95, 0.99])
def test_the_interval_is_student_s(rng, level):
    values = rng.normal(3, 2, size=7)
    interval = evaluation.seed_interval(values, level=level)
    low, high = stats.t.interval(level, 6, loc=values.mean(), scale=stats.sem(values))
    np.testing.assert_allclose(interval.mean - interval.half_width, low, rtol=1e-12)
    np.testing.assert_allclose(interval.mean + interval.half_width, high, rtol=1e-12)
    assert interval.num_seeds == 7


def test_three_seeds_by_hand():
    interval = evaluation.seed_interval([1.0, 2.0, 6.0])
    np.testing.assert_allclose(interval.mean, 3)
    # s^2 = (4 + 1 + 9) / 2 = 7; the 97.5 % quantile of t with 2 degrees of freedom is 4.302653.
    np.testing.assert_allclose(
        interval.half_width, 4.302653 * np.sqrt(7 / 3), rtol=1e-6
    )


def test_any_axis_can_be_that_of_seeds(rng):
    values = rng.normal(size=(3, 5, 4))
    interval = evaluation.seed_interval(values, axis=1)
    assert interval.mean.shape == interval.half_width.shape == (3, 4)
    one = evaluation.seed_interval(values[2, :, 1])
    np.testing.assert_allclose(interval.mean[2, 1], one.mean)
    np.testing.assert_allclose(interval.half_width[2, 1], one.half_width)


def test_low_precision_metrics_are_averaged_in_double():
    values = np.array([1e8, 1.0, -1e8, 1.0], np.float32)
    assert evaluation.seed_interval(values).mean == 0.5


def test_one_seed_has_no_interval():
    interval = evaluation.seed_interval([[2.0, 3.0]])
    np.testing.assert_array_equal(interval.mean, [2.0, 3.0])
    assert np.isnan(interval.half_width).all()
    assert interval.num_seeds == 1


def test_zero_is_outside_where_a_test_rejects_it(rng):
    values = rng.normal(size=(6, 50)) + 0.8
    result = evaluation.seed_interval(values)
    rejected = stats.ttest_1samp(values, 0).pvalue < 0.05
    assert 0 < rejected.sum() < 50
    np.testing.assert_array_equal(result.excludes_zero, rejected)
    assert not evaluation.seed_interval(values[:1]).excludes_zero.any()
    assert not evaluation.seed_interval([[np.nan], [1.0]]).excludes_zero.any()


def test_a_paired_interval_is_that_of_the_differences(rng):
    common = rng.normal(size=9) * 50
    values = common + rng.normal(1, 0.1, 9)
    baseline = common + rng.normal(0, 0.1, 9)
    paired = evaluation.paired_interval(values, baseline)
    expected = stats.ttest_rel(values, baseline).confidence_interval(0.95)
    np.testing.assert_allclose(paired.mean - paired.half_width, expected.low, rtol=1e-9)
    np.testing.assert_allclose(
        paired.mean + paired.half_width, expected.high, rtol=1e-9
    )
    assert paired.half_width < evaluation.seed_interval(values).half_width / 50


def step_up(p_values, level):
    """From the largest p-value down: once one is below its bound, it and all smaller survive."""
    survives = [False] * len(p_values)
    has_survivor = False
    order = sorted(range(len(p_values)), key=lambda test: p_values[test])
    for rank in range(len(order), 0, -1):
        test = order[rank - 1]
        if p_values[test] * len(order) <= rank * level:
            has_survivor = True
        survives[test] = has_survivor
    return survives


@pytest.mark.parametrize('level', [0.0, 0.05, 0.3, 1.0])
def test_tests_that_survive_are_those_of_a_loop(rng, level):
    for num_tests in (1, 2, 5, 40, 200):
        some = rng.uniform(size=num_tests) ** rng.choice([1, 4])
        for p_values in (some, np.round(some, 1)):  # with ties, too
            result = evaluation.benjamini_hochberg(p_values, level)
            assert result.tolist() == step_up(p_values.tolist(), level)
            if level:
                adjusted = stats.false_discovery_control(p_values, method='bh')
                apart = np.abs(adjusted - level) > 1e-12
                np.testing.assert_array_equal(result[apart], (adjusted < level)[apart])


def test_no_more_than_the_level_of_survivors_is_false(rng):
    """80 tests of nothing, 20 of an effect of 3: the exact share is 0.8 of the level."""
    shift = np.repeat([0.0, 3.0], [80, 20])
    p_values = stats.norm.sf(rng.normal(size=(4000, 100)) + shift)
    result = np.array([evaluation.benjamini_hochberg(row, 0.1) for row in p_values])
    shares = result[:, :80].sum(axis=1) / np.maximum(result.sum(axis=1), 1)
    error = shares.std() / len(shares) ** 0.5
    assert abs(shares.mean() - 0.08) < 4 * error
    assert 0.5 < result[:, 80:].mean() < 1


def test_a_p_value_that_is_nan_never_survives():
    result = evaluation.benjamini_hochberg([np.nan, 0.0, np.nan], 1.0)
    assert result.tolist() == [False, True, False]
    assert evaluation.benjamini_hochberg([np.nan, 0.02]).tolist() == [False, True]
    assert evaluation.benjamini_hochberg([np.nan, 0.03]).tolist() == [False, False]
    assert evaluation.benjamini_hochberg([]).shape == (0,)


@pytest.mark.parametrize(
    'call, message',
    [
        (
            lambda: evaluation.benjamini_hochberg(0.1),
            r'^`p_values` must be one number per test, got \[\]',
        ),
        (
            lambda: evaluation.benjamini_hochberg([np.nan, 0.1, 1.5]),
            r'^`p_values` must lie in \[0, 1\], got 1\.5 at test 2\.$',
        ),
        (
            lambda: evaluation.chosen_interval([[1, 2], [3, 5]], [0.5, 0.2]),
            r'^`shares` must sum to 1, got 0\.7\.$',
        ),
        (
            lambda: evaluation.p_value([[1, 2], [3, 5]], [1.5, -0.5]),
            r'^`shares` must lie in \[0, 1\], got 1\.5 at row 0\.$',
        ),
        (
            lambda: evaluation.seed_interval([]),
            r'^`values` must have at least one seed, got \[0\]',
        ),
        (
            lambda: evaluation.seed_interval([1, 2], level=1.5),
            r'^`level` must lie in \[0, 1\], got',
        ),
        (
            lambda: evaluation.paired_interval([1, 2], [1, 2, 3]),
            r'^`baseline` must have the shape of `values` \[2\], got \[3\]\.$',
        ),
        (
            lambda: evaluation.paired_interval(['a', 'b'], [1, 2]),
            r'^`values` must hold numbers, got',
        ),
        (
            lambda: evaluation.paired_interval([1, 2], [1, [2]]),
            r'^`baseline` must hold numbers, got',
        ),
        (
            lambda: evaluation.p_value([[1, 2], [3]], [0.5, 0.5]),
            r'^`values` must hold numbers, got',
        ),
    ],
)
def test_impossible_statistics_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.filterwarnings('error')
@pytest.mark.parametrize('value', [np.nan, np.inf, -np.inf])
def test_a_run_that_diverged_has_no_interval(value):
    assert np.isnan(evaluation.seed_interval([1.0, value]).half_width)
    assert np.isnan(evaluation.paired_interval([1.0, value], [0.5, 0.7]).half_width)


def test_training_and_held_out_metrics_side_by_side(rng):
    features = rng.normal(size=(6, 2))
    held_out = rng.normal(size=(4, 2))
    labels = rng.normal(size=6)
    held_out_labels = rng.normal(size=4)
    problem = problems.from_arrays(
        np.float32(features),
        np.float32(labels),
        [0, 1, 1, 0, 1, 1],
        init_params=lambda key: jnp.zeros(2),
        loss_fn=lambda w, batch: jnp.mean(
            jnp.square(batch.features @ w - batch.labels)
        ),
        eval_data=(np.float32(held_out), np.float32(held_out_labels)),
    )
    w = np.array([0.5, -1.5])
    measure = jax.jit(evaluation.train_and_eval)
    measured = measure(np.float32(w), jax.random.key(0), problem)
    assert set(measured) == {'train_loss', 'eval_loss'}
    train = np.mean((features @ w - labels) ** 2)
    np.testing.assert_allclose(measured['train_loss'], train, rtol=1e-5)
    test = np.mean((held_out @ w - held_out_labels) ** 2)
    np.testing.assert_allclose(measured['eval_loss'], test, rtol=1e-5)


def test_what_is_measured_on_training_data_is_called_so():
    digits = problems.digits(num_clients=10, alpha=1.0)
    built = problems.generated(
        lambda key, client: jnp.float32([[1.0], [3.0]]) * client,
        num_clients=200,
        init_params=lambda key: jnp.zeros(1),
        loss_fn=lambda w, batch: jnp.mean(jnp.square(batch - w[None])),
    )
    rising_loss = problems.from_flax(
        digits.data.features[:8],
        digits.data.labels[:8],
        np.arange(8) % 2,
        module=nn.Dense(10),
        loss=lambda outputs, labels: jnp.mean(outputs),
        larger_is_better=['loss'],
        preprocess=lambda features: features.reshape(len(features), -1),
    )
    for problem, names in (
        (digits, {'train_loss', 'train_accuracy', 'eval_loss', 'eval_accuracy'}),
        (built, {'train_loss'}),
        (rising_loss, {'train_loss'}),
    ):
        params = jax.eval_shape(problem.init_params, jax.random.key(0))
        measured = jax.eval_shape(
            evaluation.for_problem(problem), params, jax.random.key(0), problem
        )
        assert set(measured) == names
    # Of the first 100 clients: (1 + 9) / 2 times the square of the client's index.
    expected = np.mean(5 * np.arange(100.0) ** 2)
    measure = jax.jit(evaluation.train_and_eval)
    result = measure(np.zeros(1, np.float32), jax.random.key(0), built)
    np.testing.assert_allclose(result['train_loss'], expected, rtol=1e-6)
    assert evaluation.direction(rising_loss, 'train_loss') == 'max'
    for other in (
        problems.quadratic([[0.0], [1.0]]),
        problems.robust_regression(num_clients=4),
        problems.gaussian_regression(num_clients=4),
    ):
        assert evaluation.for_problem(other) is None


def measuring(*names, **keywords):
    """A problem with metrics of these names."""
    return problems.from_arrays(
        np.zeros((2, 1)),
        np.zeros(2),
        [0, 1],
        init_params=lambda key: jnp.zeros(1),
        loss_fn=lambda w, batch: jnp.sum(w),
        metrics=lambda w, batch: {name: jnp.sum(w) for name in names},
        **keywords,
    )


@pytest.mark.parametrize(
    'stated, expected',
    [
        (None, {'loss': 'min', 'distance': 'min', 'recall': None, 'accuracy': None}),
        ((), {'loss': 'min', 'distance': 'min', 'recall': 'min', 'accuracy': 'min'}),
        (
            ['recall'],
            {'loss': 'min', 'distance': 'min', 'recall': 'max', 'accuracy': 'min'},
        ),
        (
            {'loss'},
            {'loss': 'max', 'distance': 'min', 'recall': 'min', 'accuracy': 'min'},
        ),
    ],
)
def test_a_problem_states_which_way_its_metrics_are_better(stated, expected):
    problem = measuring(*expected, larger_is_better=stated)
    assert problem.larger_is_better == (None if stated is None else tuple(stated))
    for metric, way in expected.items():
        for prefix in ('', 'train_', 'eval_'):
            assert evaluation.direction(problem, prefix + metric) == way


def test_a_name_that_starts_like_a_prefix_is_found_as_it_is():
    problem = measuring('loss', 'train_speed', larger_is_better=['train_speed'])
    assert evaluation.direction(problem, 'train_speed') == 'max'
    assert evaluation.direction(problem, 'eval_train_speed') == 'max'
    assert evaluation.direction(problem, 'train_loss') == 'min'


def test_a_name_that_ends_like_a_summary_is_found_as_it_is():
    larger = ['label_spread', 'recall_p10']
    problem = measuring('loss', *larger, larger_is_better=larger)
    for metric in (*larger, 'eval_label_spread', 'eval_recall_p10_clients'):
        assert evaluation.direction(problem, metric) == 'max'
    assert evaluation.direction(problem, 'eval_label_spread_spread') == 'min'
    unstated = measuring('loss', 'recall')
    assert evaluation.direction(unstated, 'eval_recall_spread') == 'min'
    assert evaluation.direction(unstated, 'eval_recall_p10') is None


@pytest.mark.parametrize(
    'make, metric, way',
    [
        (lambda: problems.digits(num_clients=10), 'eval_accuracy', 'max'),
        (lambda: problems.digits(num_clients=10), 'train_loss', 'min'),
        (lambda: problems.synthetic(num_clients=2, max_examples=60), 'accuracy', 'max'),
        (lambda: problems.robust_regression(num_clients=4), 'distance', 'min'),
        (lambda: problems.quadratic([[0.0], [1.0]]), 'distance', 'min'),
        (lambda: problems.counterexample(num_clients=4, dimension=2), 'loss', 'min'),
    ],
)
def test_shipped_problems_state_which_way_is_better(make, metric, way):
    problem = make()
    params = jax.eval_shape(problem.init_params, jax.random.key(0))
    assert (
        set(problem.larger_is_better)
        <= jax.eval_shape(problem.metrics, params, problem.eval_data).keys()
    )
    assert evaluation.direction(problem, metric) == way


def test_many_narrow_gradients_have_the_norm_of_their_mean():
    problem = problems.quadratic(np.ones((2000, 1)))
    narrow = jnp.zeros(1, jnp.bfloat16)
    measure = jax.jit(evaluation.squared_gradient_norm)
    norm = measure(narrow, jax.random.key(0), problem)
    assert float(norm) == pytest.approx(1.0, rel=1e-5)


@pytest.mark.parametrize(
    'stated, message',
    [
        ('recall', "`larger_is_better` must be a collection of names, got 'recall'."),
        (3, '`larger_is_better` must be a collection of names, got 3.'),
        ([3], '`larger_is_better` must hold names alone, got 3.'),
        (['recal'], "`larger_is_better` has no 'recal'; did you mean 'recall'?"),
    ],
)
def test_what_names_no_metric_is_refused(stated, message):
    with refusals.refuses(message):
        measuring('loss', 'recall', larger_is_better=stated)


def test_the_gradient_norm_is_that_of_the_mean_over_clients(x64):
    problem = local_loops.regression()
    x = local_loops.FLAT_START
    gradients = []
    for client in range(len(local_loops.COUNTS)):
        reference = local_loops.Reference(client)
        rows = reference.batch(0, None)
        gradients.append(reference.loss_and_grad(x, rows)[1])
    measured = jax.jit(evaluation.with_gradient_norm)(
        local_loops.as_params(x), jax.random.key(0), problem
    )
    expected = np.sum(np.mean(gradients, axis=0) ** 2)
    result = measured['squared_gradient_norm']
    np.testing.assert_allclose(result, expected, rtol=1e-12)
    assert measured.keys() > {'squared_gradient_norm'}
