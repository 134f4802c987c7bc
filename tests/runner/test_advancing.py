"""What a run keeps does not depend on the devices that its lanes advance on."""

import jax
import numpy as np
import pytest

from fedjax_links import algorithms, experiment
from fedjax_links.core import memory
from fedjax_links.local_training import local_sgd
from fedjax_links.machines.devices import DeviceSlot
from fedjax_links.runner import stages
from fedjax_links.runner.lane_batch import LaneBatch, compile_batches
from fedjax_links.runner.program_cache import Programs
from tests.machines.four_devices import in_a_process
from tests.machines.xla_messages import OUT_OF_MEMORY
from tests.runner import running
from tests.runner.made_in_python import in_python

RUNS = """
import sys
from pathlib import Path

from fedjax_links import experiment
from fedjax_links.runner import save_clock
from fedjax_links.runner.program_cache import Programs
from fedjax_links.machines.devices import device_slots
from tests.runner import running
from tests.experiment.configs import files_of, tuned

folder = Path(sys.argv[1])
saving = sys.argv[2]
save_clock.SaveClock.is_due = lambda clock: saving == 'always'
planned = experiment.build(tuned(num_seeds=3, num_rounds=12))
# To trace and compile them takes most of the time.
programs = {n: Programs(planned.plan, slots=device_slots(n)) for n in (1, 2, 3, 4)}

class End(experiment.Callback):
    '''Ends the run once lanes are under way: in an orderly way, or like a power cut.'''

    def __init__(self, error, algorithm, stage, round, lane_number):
        self.error = error
        self.when = (algorithm, stage, round, lane_number)

    def on_period(self, lane, record):
        series, seed = lane.position
        seeds = planned.tuning.seeds if lane.stage == 'tuning' else planned.seeds
        lane_number = series * len(seeds) + seed
        if (lane.algorithm, lane.stage, record['round'], lane_number) == self.when:
            raise self.error

def run(name, devices, *callbacks):
    try:
        running.run(planned, folder / name, callbacks, programs=programs[devices])
    except (experiment.Stop, InterruptedError) as error:
        print(name, type(error).__name__)

for devices in (1, 2, 4) if saving == 'always' else (1,):
    run(f'on {devices}', devices)
for error in (experiment.Stop, InterruptedError):
    name = f'ended by {error.__name__}'
    run(name, 4, End(error, 'fedavg', 'tuning', 4, 2))
    run(name, 1, End(error, 'fedavg', 'main', 8, 3))
    run(name, 3, End(error, 'fedpbc', 'main', 12, 5))
    run(name, 2)
expected = files_of(folder / 'on 1')
for path in sorted(folder.iterdir()):
    files = files_of(path)
    more = files.keys() - expected.keys()  # to stop is to save once more
    print(path.name, files.items() >= expected.items(), bool(more))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    'saving',
    [
        'never',
        pytest.param(
            'always',
            marks=pytest.mark.release(
                'test_the_devices_change_nothing_that_is_kept[never]'
            ),
        ),
    ],
)
def test_the_devices_change_nothing_that_is_kept(tmp_path, saving):
    """Nor does the number of devices on which an interrupted run resumes."""
    output = in_a_process(RUNS, tmp_path, saving, as_users_compile=False)
    assert output == [
        *['ended by Stop Stop'] * 3,
        *['ended by InterruptedError InterruptedError'] * 3,
        'ended by InterruptedError True False',
        f'ended by Stop True {saving == "never"}',
        *(
            f'on {count} True False'
            for count in ((1, 2, 4) if saving == 'always' else (1,))
        ),
    ]


MESHES = """
import sys
from pathlib import Path

from fedjax_links import experiment, runs
from fedjax_links.runner import save_clock
from fedjax_links.machines.devices import device_slots
from tests.runner import running
from tests.experiment.configs import files_of, values

folder = Path(sys.argv[1])
save_clock.SaveClock.is_due = lambda clock: True
clients = {'learning_rate': 0.1, 'local_steps': 2, 'batch_size': 4}
config = values(algorithms={'fedpbc': {}}, client=clients)
planned = experiment.build(config)

sizes = {'1': (1, 1), '2': (2, 2), '4': (4, 4), '2 x 2': (4, 2)}
meshes = {name: device_slots(*size) for name, size in sizes.items()}
for name, used in {'none': device_slots(1), **meshes}.items():
    running.run(planned, folder / name, slots=used)
    if name in ('none', '1'):
        print(name, len(used))
    else:
        print(name, files_of(folder / name) == files_of(folder / '1'))

class End(experiment.Callback):
    def on_period(self, lane, record):
        if lane.seed and record['round'] == 2:
            raise experiment.Stop

try:
    running.run(planned, folder / 'ended', [End()], slots=device_slots(4, 4))
except experiment.Stop:
    running.run(planned, folder / 'ended', slots=device_slots(2, 2))
print('ended', files_of(folder / 'ended') == files_of(folder / '1'))

try:
    running.run(planned, folder / '1', slots=device_slots(1))
except ValueError as error:
    print(error)

for path in (folder / '2' / 'checkpoints').glob('*@2.npz'):
    path.unlink()
longer = experiment.build({**config, 'num_rounds': 6})
whole = running.run(longer, folder / 'whole', slots=device_slots(1, 1))
origin = running.fork(longer, folder / '2', 2)
forked = running.run(longer, folder / 'forked', slots=device_slots(2, 2), initial_states=origin)
lines = whole.columns['round'] > 2
print('forked', all(
    (whole[name][lines] == forked[name]).all()
    for name in whole.columns if not name.startswith('rounds/')
))
"""


@pytest.mark.slow
@pytest.mark.release('test_the_devices_change_nothing_that_is_kept')
def test_the_size_of_meshes_changes_nothing_that_is_kept(tmp_path):
    """Nor does the mesh on which lanes resume or are forked; without any mesh, roundings differ."""
    assert in_a_process(MESHES, tmp_path, as_users_compile=False) == [
        'none 1',
        '1 1',
        '2 True',
        '4 True',
        '2 x 2 True',
        'ended True',
        '`workdir` must be new or hold a run with the same config, got '
        f'{tmp_path / "1"}, where config.on_a_mesh is True and not None.',
        'forked True',
    ]


ALONE = {
    'algorithms': {'fedavg': algorithms.fedavg(local_sgd(0.1, local_steps=2))},
    'grid': {},
}


def by_lane(results):
    """The losses, in the order of seeds and rounds."""
    order = np.lexsort([results['round'], results['seed']])
    return results['server/loss'][order]


@pytest.fixture(scope='module')
def full():
    """The metrics of four lanes in one group."""
    return running.run(in_python(seeds=range(4), **ALONE), side_by_side=True)


@pytest.mark.slow
def test_lanes_that_do_not_fit_together_run_in_smaller_groups(
    full, monkeypatch, capsys
):
    """Groups are halved until they fit; only a lane that does not fit alone is refused."""
    planned = in_python(seeds=range(4), **ALONE)
    lanes = planned.plan.schedule.main('fedavg')
    programs = Programs(planned.plan, side_by_side=True)
    groups = [LaneBatch(programs, lanes[:size]) for size in (1, 2, 4)]
    compiled = compile_batches(programs, groups)
    one, two, four = (memory.peak_bytes(program, 1) for program in compiled)
    monkeypatch.setattr(memory, 'available_bytes', lambda: (two + four) // 2)
    cut = running.run(planned, side_by_side=True)
    assert (
        capsys.readouterr().err
        == 'fedavg: 2 at a time, as more lanes do not fit into memory\n'
    )
    assert cut['seed'].tolist() == [0] * 10 + [1] * 10 + [2] * 10 + [3] * 10
    np.testing.assert_allclose(by_lane(cut), by_lane(full), rtol=2e-5)
    monkeypatch.setattr(memory, 'available_bytes', lambda: one - 1)
    with pytest.raises(ValueError, match='must fit into memory: fedavg needs'):
        running.run(planned, side_by_side=True)


def test_a_compiler_out_of_memory_gets_smaller_groups(full, monkeypatch, capsys):
    """A compiler for GPUs runs kernels while it compiles, and may lack memory for them."""
    planned = in_python(seeds=range(4), **ALONE)
    capsys.readouterr()

    def compile_few(programs, batches):
        if any(batch.width > 2 for batch in batches):
            raise jax.errors.JaxRuntimeError(OUT_OF_MEMORY)
        return compile_batches(programs, batches)

    monkeypatch.setattr(stages, 'compile_batches', compile_few)
    cut = running.run(planned, side_by_side=True)
    text = 'fedavg: 2 at a time, as more lanes do not fit into memory\n'
    assert capsys.readouterr().err == text
    np.testing.assert_allclose(by_lane(cut), by_lane(full), rtol=2e-5)


def test_lanes_that_stopped_in_other_groups_resume(full, tmp_path):
    """Two devices have two lanes each; on one device all four could run together."""
    planned = in_python(seeds=range(4), **ALONE)
    two = [DeviceSlot((jax.devices()[0],))] * 2

    class End(experiment.Callback):
        """Stops once the first two lanes are ahead, or done."""

        def __init__(self, last):
            self.last = last

        def on_period(self, lane, record):
            if (lane.seed, record['round']) == (0, self.last):
                raise experiment.Stop

    for last in (20, 40):
        with pytest.raises(experiment.Stop):
            running.run(planned, tmp_path, [End(last)], side_by_side=True, slots=two)
    ended = running.run(planned, tmp_path, side_by_side=True, slots=two[:1])
    np.testing.assert_allclose(by_lane(ended), by_lane(full), rtol=2e-5)
