"""One number over all cells of a map, against a loop."""

import numpy as np
import pytest

from fedjax_links import evaluation
from fedjax_links.planning.tuning_uncertainty import Choice
from fedjax_links.report.cells import Cells
from fedjax_links.results.metric import Metric


def cells(**choices):
    """One panel of two by two cells."""
    shaped = {}
    for label, grid in choices.items():
        shaped[label] = np.empty((1, 2, 2), object)
        for index, choice in zip(np.ndindex(1, 2, 2), grid, strict=True):
            shaped[label][index] = choice
    axes = {
        'panels': [('links', None)],
        'x': ('x', [0, 1]),
        'y': ('y', [0, 1]),
        'third': None,
    }
    return Cells(
        metric=Metric('eval_accuracy', 'max'),
        choices=shaped,
        num_values={},
        num_at_boundary=None,
        **axes,
    )


def untuned(values):
    """The values of an algorithm for which tuning has no second choice."""
    return Choice(np.array([values], float), np.zeros(2000, int))


def test_cells_use_common_seeds_and_leave_out_diverged_ones(rng):
    values = [rng.normal(size=size) for size in (5, 3, 4, 3)]
    base = [rng.normal(size=size) for size in (4, 6, 3, 4)]
    values[2] = np.array([1.0, np.nan, 2.0, 3.0])
    result = cells(a=map(untuned, values), b=map(untuned, base)).paired_difference(
        'a', 'b'
    )
    expected = np.mean([values[k][:3] - base[k][:3] for k in (0, 1, 3)], axis=0)
    np.testing.assert_allclose(result.values, [expected])
    none = cells(a=map(untuned, np.full((4, 3), np.nan)), b=map(untuned, base))
    assert none.paired_difference('a', 'b') is None


def test_a_draw_of_tuning_chooses_at_all_cells_together(rng):
    picks = rng.integers(0, 2, 2000)
    torn = [Choice(rng.normal(size=(2, 4)), np.roll(picks, k)) for k in range(4)]
    base = [rng.normal(size=4) for _ in range(4)]
    result = cells(a=torn, b=map(untuned, base)).paired_difference('a', 'b')
    expected = [
        np.mean(
            [torn[k].values[np.roll(picks, k)[draw]] - base[k] for k in range(4)],
            axis=0,
        )
        for draw in range(
            200
        )  # as many draws of tuning as `Cells` averages over all cells
    ]
    np.testing.assert_allclose(result.values[1:], expected)
    chosen = np.mean([torn[k].values[0] - base[k] for k in range(4)], axis=0)
    np.testing.assert_allclose(result.values[0], chosen)
    assert result.shares[0] == 0
    assert result.shares[1:] == pytest.approx(1 / 200)
    assert result.interval_with_tuning().half_width > 0


@pytest.mark.parametrize('steps', [(3, 3, 3, 3), (1, 2, 3, 4)])
@pytest.mark.parametrize('num_seeds', [2, 5])
def test_equal_differences_of_cells_show_no_precision(rng, steps, num_seeds):
    """Metrics are float32: seeds that gain the same examples have no spread to judge by."""
    base = rng.integers(0, 90, (4, num_seeds))
    # Each seed gains as many examples over all cells, in cells of another order.
    gains = np.stack([np.roll(steps, seed) for seed in range(num_seeds)], axis=1)
    accuracies = (np.float32([base, base + gains]) / np.float32(97)).astype(float)
    without, ahead = accuracies
    result = cells(a=map(untuned, ahead), b=map(untuned, without))
    difference = result.paired_difference('a', 'b')
    assert np.isnan(evaluation.seed_interval(difference.values[0]).half_width)
    p_value = evaluation.p_value(difference.values, difference.shares)
    assert p_value == 2.0 ** (1 - num_seeds)
