"""What is known before a run starts."""

import dataclasses
import re

import jax
import numpy as np
import pytest

from fedjax_links import algorithms, experiment, problems
from fedjax_links.core import errors, memory
from fedjax_links.experiment.looking import preflight, tables
from fedjax_links.experiment.plan import lanes
from fedjax_links.experiment.running import programs
from tests.experiment.configs import tuned
from tests.experiment.running.test_loop import in_python


def test_a_dry_run_says_what_will_run_and_what_it_needs():
    planned = experiment.build(tuned())
    lines = list(preflight.dry_run(planned))
    text = '\n'.join(lines)
    assert 'config   num_rounds = 8' in text
    assert 'fedpbc           4 lanes of tuning and 4 lanes in 1 program; a lane keeps' in text
    # Softmax regression on 64 pixels has 650 parameters; every one of 8 clients keeps them.
    assert 'server 2.5 KiB, clients 20.3 KiB' in text
    assert 'rows of 8 clients: float32 20.3 KiB (fits), bfloat16 10.2 KiB (fits)' in text
    assert text.count('rows of') == 1  # FedAvg keeps none
    assert len(re.findall(r'compiled in [\d.]+ s; [\d,]+ rounds/s', text)) == 2
    assert lines[-1].startswith('time     about ')


def broken(local_train):
    """FedAvg whose state changes its shape in the first round."""
    plain = algorithms.fedavg(local_train)

    def round_step(state, ctx, problem):
        state, metrics = plain.round_step(state, ctx, problem)
        return jax.tree.map(lambda a: a[None], state), metrics

    return plain._replace(round_step=round_step)


def test_an_algorithm_that_cannot_run_is_named_before_anything_compiles():
    config = tuned(algorithms={'mine': {'name': f'{__name__}:broken'}, 'fedavg': {}})
    planned = experiment.build(config)
    message = r'`config\.algorithms\.mine` must run on pattern bernoulli, got TypeError: '
    with pytest.raises(errors.InvalidError, match=message):
        preflight.check(planned)


def test_a_bug_of_the_package_stays_what_it_is(monkeypatch):
    planned = experiment.build(tuned())
    monkeypatch.setattr(programs.Group, 'inputs', lambda self: 1 + 'x')
    with pytest.raises(TypeError) as caught:
        preflight.check(planned)
    assert caught.value.__notes__ == ['config.algorithms.fedavg on pattern bernoulli']


def test_what_cannot_fit_is_refused_with_what_would_make_it_fit(monkeypatch):
    planned = in_python()
    preflight.check(planned)
    monkeypatch.setattr(memory, 'available_bytes', lambda: 100)
    with pytest.raises(ValueError, match=r'must fit into memory: fedpbc needs .* would fit\.'):
        preflight.check(planned)


ROWS = 8 * 650  # clients x parameters
NARROW = r'`table_dtype: bfloat16` in `config\.algorithms\.%s` \(([\d.]+) KiB\)'


@pytest.mark.parametrize('name', ['fedpbc', 'mifa', 'fedvarp', 'scaffold', 'fedawe', 'fedavg'])
def test_what_would_fit_is_named_with_what_it_needs(monkeypatch, name):
    """Half of the rows' 4 bytes with bfloat16, none of them without rows."""
    planned = experiment.build(tuned(algorithms={name: {}}, baseline=None))
    keeps_rows = name != 'fedavg'
    needed = 10 * ROWS
    group = programs.Group(
        programs.Programs(planned),
        lanes.main_lanes(planned, name, lanes.first_tried(planned, name))[:1],
    )
    for free, narrow_fits, bare_fits in (
        (9 * ROWS, True, True),
        (7 * ROWS, False, True),
        (9, 0, 0),
    ):
        monkeypatch.setattr(memory, 'available_bytes', lambda free=free: free)
        with pytest.raises(ValueError, match=f'must fit into memory: {name} needs') as caught:
            tables.refuse_if_above(planned, group, needed)
        said = str(caught.value)
        narrow = re.search(NARROW % name, said)
        assert bool(narrow) == bool(narrow_fits and keeps_rows and name != 'fedawe')
        assert narrow is None or float(narrow[1]) == round(8 * ROWS / 1024, 1)
        bare = f'an algorithm without rows per client ({6 * ROWS / 1024:.1f} KiB)'
        assert (bare in said) == bool(bare_fits and keeps_rows)
        assert said.endswith('fewer clients or a smaller model would fit.')


def test_devices_with_a_memory_of_their_own_can_share_the_rows(monkeypatch):
    planned = experiment.build(tuned(algorithms={'fedpbc': {}}, baseline=None))
    every = lanes.main_lanes(planned, 'fedpbc', lanes.first_tried(planned, 'fedpbc'))
    group = programs.Group(programs.Programs(planned), every[:1])
    monkeypatch.setattr(memory, 'available_bytes', lambda: 7 * ROWS)
    with pytest.raises(ValueError, match='would fit') as on_a_cpu:
        tables.refuse_if_above(planned, group, 10 * ROWS)
    monkeypatch.setattr(jax, 'default_backend', lambda: 'gpu')
    monkeypatch.setattr(jax, 'devices', lambda: [None] * 4)
    with pytest.raises(ValueError, match='would fit') as on_four_devices:
        tables.refuse_if_above(planned, group, 10 * ROWS)
    assert '--mesh' not in str(on_a_cpu.value)
    assert f'--mesh=clients:4 ({7 * ROWS / 1024:.1f} KiB on each)' in str(on_four_devices.value)


@pytest.mark.parametrize('free, fits', [(6, (True, True)), (5, (False, True)), (3, (False, False))])
def test_a_dry_run_says_which_forms_of_rows_fit(monkeypatch, free, fits):
    """A program of 6 bytes per entry, 4 of them the rows': 4 with bfloat16."""
    monkeypatch.setattr(memory, 'available_bytes', lambda: free * ROWS)
    said = tables.describe(tables.Table(ROWS, 4 * ROWS), 8, 6 * ROWS, copies=1, devices=1)
    verdicts = [f' ({"fits" if fit else "does not fit"})' for fit in fits]
    assert said == (
        f'rows of 8 clients: float32 {4 * ROWS / 1024:.1f} KiB{verdicts[0]}, '
        f'bfloat16 {2 * ROWS / 1024:.1f} KiB{verdicts[1]}'
    )


def test_devices_of_a_mesh_hold_rows_each_and_a_machine_holds_them_all(monkeypatch):
    """Two copies of narrow rows in one memory: 10 - 2 x 4 + 2 x 2 bytes per entry."""
    monkeypatch.setattr(memory, 'available_bytes', lambda: 6 * ROWS)
    said = tables.describe(tables.Table(ROWS, 4 * ROWS), 8, 10 * ROWS, copies=2, devices=2)
    assert said.startswith('rows of 8 clients on each of 2 devices: float32 ')
    assert '(does not fit), bfloat16' in said
    assert said.endswith(' KiB (fits)')


def test_a_run_is_short_where_rounds_are_few_and_models_small():
    """Then a CPU compiles for one device alone, unless it is told otherwise."""
    few = in_python(grid={})
    assert preflight.is_short(few)
    assert not preflight.is_short(dataclasses.replace(few, num_rounds=20_000))
    large = problems.quadratic(np.zeros((6, 2**14)))
    assert not preflight.is_short(dataclasses.replace(few, problem=large))
