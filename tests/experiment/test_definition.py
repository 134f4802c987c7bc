"""What an experiment is: its values, its config, and what it says of itself."""

import dataclasses

import numpy as np
import pytest

import fedjax_links as fl
from fedjax_links import experiment, participation, problems
from tests.experiment.configs import tuned
from tests.experiment.running.test_loop import in_python


def test_objects_are_no_values_of_a_grid():
    """A value stands in every line of metrics; two objects could not be told apart."""
    masks = [np.zeros((2, 3), bool), np.ones((2, 3), bool)]
    for values_ in ([object()], [lambda: None, 1.0], [masks, {1}]):
        with pytest.raises(
            ValueError, match=r'^`grid\.learning_rate` must hold numbers, names or l'
        ):
            in_python(grid={'learning_rate': values_})

    def replayed(mask):
        return participation.replay(np.array(mask))

    planned = in_python(
        problem=problems.quadratic(np.zeros((3, 1))),
        patterns={'some': replayed},
        grid={'mask': masks, 'learning_rate': [0.1]},
        num_rounds=4,
        seeds=(0,),
    )
    assert [point['mask'] for point in planned.grid_points] == [mask.tolist() for mask in masks]
    results = planned.run()
    assert results['mask'].tolist() == [mask.tolist() for mask in masks] * 2
    assert results['rounds/num_active'].tolist() == [0, 12] * 2


def test_experiments_are_compared_as_what_they_are():
    planned = in_python()
    assert planned == planned
    assert planned != in_python()
    assert len({planned, planned}) == 1


def test_a_folder_has_the_config_of_what_ran_in_it_or_none(tmp_path):
    planned = experiment.build(tuned(tuning=None, client={'learning_rate': 0.1, 'local_steps': 1}))
    assert dataclasses.replace(planned).config is planned.config
    longer = dataclasses.replace(planned, num_rounds=12, title='Longer')
    assert longer.config == {**planned.config, 'num_rounds': 12, 'title': 'Longer'}
    assert experiment.build(longer.config).facts() == longer.facts()
    assert dataclasses.replace(longer, eval_every=2).config['num_rounds'] == 12
    rate = in_python().algorithms['fedavg']
    other = dataclasses.replace(planned, algorithms={'fedavg': rate}, num_rounds=4)
    assert other.config is None
    assert dataclasses.replace(other, num_rounds=8).config is None
    said = {'title': 'said'}
    assert dataclasses.replace(planned, algorithms={'fedavg': rate}, config=said).config == said
    other.run(tmp_path)
    assert not (tmp_path / fl.runs.CONFIG).exists()
    assert fl.runs.read(tmp_path).facts['algorithms'] == ['fedavg']
    claims = dataclasses.replace(other, config=longer.config)
    with pytest.raises(
        ValueError, match=r'must be new or hold a run of one that a config describes'
    ):
        claims.run(tmp_path)


def test_tuning_is_no_longer_than_the_run():
    with pytest.raises(
        ValueError, match=r'^`tuning\.num_rounds` must be at most `num_rounds` = 40'
    ):
        in_python(tuning=experiment.Tuning(grid={'learning_rate': [0.1]}, num_rounds=44), grid={})


def test_an_experiment_says_what_it_is_in_a_few_lines():
    planned = in_python()
    assert repr(planned).splitlines() == [
        'Experiment',
        '  title: Made in Python',
        '  algorithms: fedavg, fedpbc',
        '  patterns: some',
        '  grid: 2 points of learning_rate',
        '  seeds: 2',
        '  rounds: 40, evaluated every 4',
    ]
