"""Programs are traced once, and compiled while others run."""

import jax
import numpy as np
import pytest

from fedjax_links import algorithms
from fedjax_links.experiment import Callback
from fedjax_links.local_training import local_sgd
from fedjax_links.machines import cpus, devices
from fedjax_links.runner import preflight, stages
from fedjax_links.runner.program_cache import Programs
from tests.runner import running
from tests.runner.made_in_python import in_python


def test_a_run_traces_no_round_again_that_its_check_has_traced():
    traced = []
    plain = algorithms.fedavg(local_sgd(0.1, local_steps=2))

    def round_step(*arguments):
        traced.append(1)
        return plain.round_step(*arguments)

    planned = in_python(
        algorithms={'mine': plain._replace(round_step=round_step)}, grid={}
    )
    shared = Programs(planned.plan, slots=devices.device_slots(1))
    preflight.check(planned.plan, shared)
    count = len(traced)
    assert count
    running.run(planned, programs=shared)
    assert len(traced) == count


def test_what_is_compiled_ahead_is_what_runs_next(monkeypatch):
    """And compiling ahead changes no bit of the results."""
    compile_ahead = stages.compile_ahead
    compiled = []

    def note_algorithm(shared, lanes):
        compiled.append(lanes[0].algorithm)
        compile_ahead(shared, lanes)

    monkeypatch.setattr(stages, 'compile_ahead', note_algorithm)
    planned = in_python(num_rounds=8, seeds=(0,))
    result = planned.run(devices=1)
    assert compiled == ['fedpbc']
    monkeypatch.setattr(stages, 'compile_ahead', lambda *arguments: None)
    alone = planned.run(devices=1)
    for name, column in alone.columns.items():
        np.testing.assert_array_equal(result[name], column)


def test_an_error_of_compiling_ahead_is_raised_at_its_run(monkeypatch):
    compile = jax.stages.Lowered.compile
    done = []
    received = []

    def refused(lowered, *options):
        done.append(lowered)
        if len(done) > 2:  # what begins and what advances the first algorithm
            raise ValueError('too much')
        return compile(lowered, *options)

    class Listen(Callback):
        def on_period(self, lane, record):
            received.append((lane.algorithm, lane.seed, record['round']))

    monkeypatch.setattr(jax.stages.Lowered, 'compile', refused)
    monkeypatch.setattr(cpus, 'num_cores', lambda: 2)
    with pytest.raises(ValueError, match='too much'):
        in_python(grid={'learning_rate': [0.1]}).run(callbacks=[Listen()], devices=1)
    rounds = range(4, 44, 4)
    assert received == [('fedavg', seed, round) for seed in (0, 3) for round in rounds]
