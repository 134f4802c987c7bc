"""Sections in the config of a figure: what each must have, and small networks."""

import re

import numpy as np
import pytest
from matplotlib.figure import Figure

from fedjax_links.config import resolver
from fedjax_links.pages import figure
from tests import refusals
from tests.papers.shipped import CONFIGS

NETWORKS = 'figures.networks:network_sizes'
COUNTEREXAMPLE = {
    'name': 'figures.counterexample:counterexample_error',
    'learning_rate': 0.1,
    'local_steps': 1,
    'num_rounds': 60,
}
TRACES = {'name': 'figures.xiang2024:link_traces', 'probs': (0.5,)}
BERNOULLI = {'name': 'bernoulli'}


def built(options):
    with resolver.importable(CONFIGS):
        return figure.build({'title': 't', 'figure': options, 'caption': 'c'})


@pytest.mark.parametrize(
    'options, message',
    [
        (
            {'name': NETWORKS, 'networks': {'a': {'model': 'softmax'}}},
            '`config.figure.networks.a.image` must be given, got None.',
        ),
        (
            {'name': NETWORKS, 'networks': {'a': {'image': (9, 9, 1)}}},
            '`config.figure.networks.a.model` must be given, got None.',
        ),
        (
            {
                'name': NETWORKS,
                'networks': {'a': {'model': 'softmax', 'image': (28, 28)}},
            },
            '`config.figure.networks.a.image` must be [height, width, channels], got [28, 28].',
        ),
        (
            COUNTEREXAMPLE | {'panels': {'a': {'algorithms': ('fedavg',)}}},
            '`config.figure.panels.a.compute` must be given, got None.',
        ),
        (
            TRACES | {'panels': {'a': {'links': BERNOULLI, 'round': 4}}},
            "`config.figure.panels.a` has no 'round'; did you mean 'rounds'?",
        ),
        (
            TRACES | {'panels': {'a': {'links': BERNOULLI}}},
            '`config.figure.panels.a.rounds` must be given, got None.',
        ),
    ],
)
def test_a_section_has_its_fields_and_no_others(options, message):
    with refusals.one_line(f'^{re.escape(message)}$'):
        built(options)


def test_the_axis_of_a_small_network_holds_its_layers():
    """Softmax on 2 x 2 pixels has 4 x 10 weights and 10 biases."""
    networks = {'a': {'model': 'softmax', 'image': (2, 2, 1)}}
    result = built({'name': NETWORKS, 'networks': networks})
    np.testing.assert_array_equal(result.columns['parameters'], [50])
    drawn = Figure()
    result.draw(drawn)
    low, high = drawn.axes[0].get_xlim()
    assert low < 50 < high
