"""The description of a partition against an instance counted by hand."""

import numpy as np

from fedjax_links import partition


def test_class_mix_and_report_on_an_instance_counted_by_hand():
    clients = np.array([0, 0, 0, 0, 2, 2])
    labels = np.array([0, 0, 0, 2, 2, 2])
    mix = [[0.75, 0, 0.25], [0, 0, 0], [0, 0, 1]]
    np.testing.assert_array_equal(partition.class_mix(clients, labels), mix)
    table = partition.report(clients, labels)
    np.testing.assert_array_equal(table.counts, [4, 0, 2])
    np.testing.assert_array_equal(table.class_mix, mix)
    np.testing.assert_array_equal(table.global_mix, [0.5, 0, 0.5])
    np.testing.assert_array_equal(table.total_variation, [0.25, np.nan, 0.5])
    np.testing.assert_array_equal(table.classes_held, [2, 0, 1])


def test_report_text():
    clients = np.array([0, 0, 0, 0, 2, 2])
    labels = np.array([0, 0, 0, 2, 2, 2])
    table = partition.report(clients, labels)
    assert str(table).splitlines() == [
        '3 clients (1 without examples), 6 examples, 3 classes',
        'per client                  min     10 %   median     90 %      max     mean',
        'examples                      0        0        2        4        4      2.0',
        'classes held                  0        0        1        2        2      1.0',
        'largest class share       0.750    0.750    0.750        1        1    0.875',
        'distance to pooled mix    0.250    0.250    0.250    0.500    0.500    0.375',
        'class               0     1     2',
        'pooled share    0.500 0.000 0.500',
        'clients holding     1     0     2',
    ]


def test_report_stays_on_one_screen():
    labels = np.arange(300_000) % 62
    clients = partition.iid(labels, num_clients=100_000, seed=0)
    lines = str(partition.report(clients, labels)).splitlines()
    assert len(lines) <= 10
    assert max(map(len, lines)) <= 80
