"""Bars, read back from what was drawn, against NumPy."""

import numpy as np

from fedjax_links import plot


def test_bars_have_the_means_as_heights(ax, rng):
    values = {'fedavg': rng.uniform(size=(2, 3)), 'mifa': rng.uniform(size=(2, 3))}
    plot.metric_bars(values, ['one', 'two'], 'loss', ax=ax)
    heights = [patch.get_height() for patch in ax.patches]
    np.testing.assert_allclose(
        heights, np.concatenate([v.mean(axis=1) for v in values.values()])
    )
    assert [text.get_text() for text in ax.get_xticklabels()] == ['one', 'two']
