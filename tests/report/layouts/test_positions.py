"""Names and legends of pictures stay on the page, and clear of each other and of the axes."""

import itertools

import numpy as np
import pytest

from fedjax_links.report.first_seed_links import FirstSeedLinks
from fedjax_links.report.layouts import bars, curves, overview
from tests.report.made import results
from tests.tiers import cases

SIX = (
    'Bernoulli time-invariant',
    'Bernoulli time-varying',
    'Markov homogeneous',
    'Markov non-homogeneous',
    'Cyclic no reset',
    'Cyclic with reset',
)


def overlap(boxes):
    """Whether any two boxes overlap."""
    return any(a.overlaps(b) for index, a in enumerate(boxes) for b in boxes[:index])


@pytest.mark.parametrize(
    'num_algorithms, layout',
    cases(itertools.product([3, 7], [bars, curves]), [(3, curves), (7, bars)]),
)
def test_six_long_names_fit_on_the_page_without_overlap(
    layout, num_algorithms, lay_out_page, rng
):
    many = {
        f'algorithm number {k}': rng.uniform(size=(6, 3, 20))
        for k in range(num_algorithms)
    }
    result = results(many, names={f'pattern{k}': name for k, name in enumerate(SIX)})
    figure = lay_out_page(layout(result))
    texts = [axes.title for axes in figure.axes]
    if layout is bars:
        texts = figure.axes[0].get_xticklabels()
    shown = [''.join(text.get_text().split()) for text in texts]
    assert shown == [''.join(name.split()) for name in SIX]
    boxes = [text.get_window_extent() for text in texts]
    assert not overlap(boxes)
    page = figure.bbox
    legend_box = figure.legends[0].get_window_extent()
    for box in (*boxes, legend_box):
        assert page.x0 <= box.x0
        assert box.x1 <= page.x1
        assert page.y0 <= box.y0
        assert box.y1 <= page.y1
    assert not any(
        legend_box.overlaps(axes.get_window_extent()) for axes in figure.axes
    )


@pytest.mark.parametrize('layout', [bars, overview])
@pytest.mark.parametrize('num_series', [4, 24])
def test_a_long_legend_leaves_room_for_the_axes(layout, num_series, lay_out_page, rng):
    models = ('server', 'client_mean')
    members = {
        f'fedavg (learning_rate {k}, dimension 3)': ('fedavg', {'client.rate': k})
        for k in range(num_series)
    }
    view = results(
        {
            label: {m: {'eval_accuracy': rng.uniform(size=(1, 3, 20))} for m in models}
            for label in members
        },
        members=members,
        links={'pattern0': FirstSeedLinks(np.ones((5, 2), bool), np.full(2, 0.9))},
    )
    figure = lay_out_page(layout(view))
    box = figure.legends[0].get_window_extent()
    for axes in figure.axes:
        assert not box.overlaps(axes.get_tightbbox())
        assert axes.get_window_extent().height > 1.5 * figure.dpi
