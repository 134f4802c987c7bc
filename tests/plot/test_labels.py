"""What a picture says by label is of a label that it shows."""

import numpy as np
import pytest

from fedjax_links import plot
from tests import refusals

VALUES = {'fedavg': [0.1, 0.2, 0.3], 'fedpbc': [0.2, 0.3, 0.4]}
BAND = [[0.1, 0.2, 0.3]] * 3


def curves(**options):
    return plot.learning_curves(VALUES, 'loss', **options)


CALLS = {
    'names of curves': lambda label: curves(names={label: 'FedAvg'}),
    'names of bars': lambda label: plot.metric_bars(
        {'fedavg': [[0.1, 0.2]]}, ['equal'], names={label: 'FedAvg'}
    ),
    'names of clients': lambda label: plot.participation_loss(
        [1, 2], {'fedavg': [0.1, 0.2]}, names={label: 'FedAvg'}
    ),
    'names of differences': lambda label: plot.paired_differences(
        VALUES, names={label: 'FedAvg'}
    ),
    'levels': lambda label: curves(levels={label: 0.1}),
    'exact': lambda label: curves(exact={label: {'server': BAND}}),
    'against': lambda label: curves(against={label: [1, 2, 3]}),
    'wide': lambda label: plot.paired_differences(VALUES, wide={label: 0.1}),
}


@pytest.mark.parametrize('call', CALLS)
def test_an_unknown_label_is_refused_with_the_nearest(call):
    CALLS[call]('fedavg')
    with refusals.names(call.partition(' ')[0], "no 'fedavgg'", "mean 'fedavg'"):
        CALLS[call]('fedavgg')


@pytest.mark.parametrize('call', [call for call in CALLS if call.startswith('names')])
def test_pictures_of_parts_of_a_run_share_their_names(call):
    CALLS[call]('bernoulli')
    CALLS[call]('fedavg_all')


def test_an_exact_curve_is_of_a_model_that_there_is():
    with refusals.names('exact', "no 'sever'", "mean 'server'"):
        curves(exact={'fedavg': {'sever': BAND}})


@pytest.mark.parametrize('name', [None, 3, np.zeros(2)])
def test_a_name_to_show_is_a_text(name):
    with refusals.names('names', 'text'):
        curves(names={'fedavg': name})


@pytest.mark.parametrize('num_predictions', [0, 21])
def test_a_legend_has_a_limit_that_counts_predictions(num_predictions):
    """A legend that is wider leaves its picture no room."""
    num_curves = 61 - num_predictions
    values = {f'a{index}': [0.1, 0.2] for index in range(num_curves)}
    levels = dict.fromkeys(list(values)[:num_predictions], 0.2)
    with refusals.names('legend', 'more than 60 names', 'True for 61'):
        plot.learning_curves(values, 'loss', levels=levels)
    values.popitem()
    axes = plot.learning_curves(values, 'loss', levels=levels)
    assert len(axes.get_legend().get_texts()) == 60


@pytest.mark.parametrize('count, letters', [(60, 25), (22, 60), (3, 150)])
def test_a_figure_has_room_for_the_letters_of_its_legend(count, letters):
    """Lines keep at least three inches of a new figure, and no name is cut."""
    names = [f'{index} '.ljust(letters, 'x') for index in range(count)]
    values = {name: [0.1, 0.2] for name in names}
    pictures = [plot.learning_curves(values, 'loss')]
    if count <= 22:
        heights = {name: [[0.1, 0.2]] for name in names}
        pictures.append(plot.metric_bars(heights, ['one']))
    for axes in pictures:
        axes.figure.draw_without_rendering()
        box = axes.get_legend().get_window_extent()
        page = axes.figure.bbox
        assert page.x0 <= box.x0
        assert box.x1 <= page.x1
        assert page.y0 <= box.y0
        assert box.y1 <= page.y1
        inches = axes.get_window_extent().width / axes.figure.dpi
        assert inches > 3
