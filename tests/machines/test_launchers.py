"""Processes that a launcher starts together, as its environment variables say."""

import socket

import pytest

from fedjax_links.machines import launchers
from tests import refusals

STEP = {
    'SLURM_JOB_ID': '8197',
    'SLURM_PROCID': '2',
    'SLURM_STEP_NUM_TASKS': '4',
    'SLURM_STEP_NODELIST': 'node3',
}
MPIRUN = {'OMPI_COMM_WORLD_RANK': '1', 'OMPI_COMM_WORLD_SIZE': '3'}
POD = {'JOB_COMPLETION_INDEX': '3', 'JAX_NUM_PROCESSES': '4', 'HOSTNAME': 'train-a-3'}


def test_a_task_of_a_slurm_step():
    assert launchers.started_as(STEP) == ('node3:61445', 4, 2, 'SLURM_PROCID')
    older = {**STEP, 'SLURM_NTASKS': '5'}
    del older['SLURM_STEP_NUM_TASKS']
    assert launchers.started_as(older) == ('node3:61445', 5, 2, 'SLURM_PROCID')
    assert (
        launchers.started_as({**STEP, 'JAX_COORDINATOR_PORT': '80'}).coordinator
        == 'node3:80'
    )
    elsewhere = {**STEP, 'JAX_COORDINATOR_ADDRESS': '10.0.0.1:81'}
    assert launchers.started_as(elsewhere).coordinator == '10.0.0.1:81'


@pytest.mark.parametrize(
    'names, first',
    [
        ('node3,node4', 'node3'),
        ('gpu[03-07,9]', 'gpu03'),
        ('gpu[12,14-15],cpu[1-2]', 'gpu12'),
        ('a-b[7]', 'a-b7'),
        ('rack[0-1]n[08-12]-ib,other', 'rack0n08-ib'),
    ],
)
def test_the_first_machine_of_a_list(names, first):
    result = launchers.started_as({**STEP, 'SLURM_STEP_NODELIST': names})
    assert result.coordinator == f'{first}:61445'


@pytest.mark.parametrize(
    'variables, coordinator',
    [
        (
            {'OMPI_MCA_orte_hnp_uri': '1531576320.0;tcp://10.96.0.1,10.148.0.1:34911'},
            f'10.96.0.1:{61440 + 1531576320 // 4096 % 4096}',
        ),
        (
            {'OMPI_MCA_orte_hnp_uri': '8192.0;tcp6://[fe80::b9b,2620:10d::2]:43370'},
            '[fe80::b9b]:61442',
        ),
        ({'PMIX_NAMESPACE': 'prterun-node-7-4099@1'}, 'node-7:61443'),
    ],
)
def test_a_process_of_mpirun_also_within_a_step(variables, coordinator):
    for outer in ({}, STEP):
        result = launchers.started_as({**outer, **MPIRUN, **variables})
        assert result == (coordinator, 3, 1, 'OMPI_COMM_WORLD_RANK')


def test_a_pod_of_an_indexed_job(monkeypatch):
    monkeypatch.setattr(socket, 'getfqdn', lambda host: f'{host}.jaxpods.default.svc')
    coordinator = 'train-a-0.jaxpods.default.svc:55527'
    assert launchers.started_as(POD) == (coordinator, 4, 3, 'JOB_COMPLETION_INDEX')
    monkeypatch.setattr(socket, 'getfqdn', lambda host: host)  # without a service
    requirement = (
        r'be given \(or JAX_COORDINATOR_ADDRESS set\), because JOB_COMPLETION_INDEX'
    )
    with pytest.raises(ValueError, match=rf'^`coordinator` must {requirement}'):
        launchers.started_as(POD)


def test_variables_of_jax_itself_come_first():
    of_jax = {
        'JAX_PROCESS_ID': '1',
        'JAX_NUM_PROCESSES': '2',
        'JAX_COORDINATOR_ADDRESS': 'here:7',
    }
    assert launchers.started_as({**STEP, **MPIRUN, **of_jax}) == (
        'here:7',
        2,
        1,
        'JAX_PROCESS_ID',
    )


@pytest.mark.parametrize(
    'variables',
    [
        {},
        {**STEP, 'SLURM_STEP_NUM_TASKS': '1'},
        {**MPIRUN, 'OMPI_COMM_WORLD_SIZE': '1'},
        {**STEP, **MPIRUN, 'OMPI_COMM_WORLD_SIZE': '1'},
        # A batch script itself.
        {
            'SLURM_JOB_ID': '7',
            'SLURM_PROCID': '0',
            'SLURM_NTASKS': '4',
        },
        {
            'SLURM_ARRAY_TASK_ID': '3',
            'SLURM_ARRAY_TASK_COUNT': '8',
            'SLURM_JOB_ID': '7',
        },
        {'JOB_COMPLETION_INDEX': '3'},  # pods without a number of processes
        {**STEP, 'SLURM_PROCID': ''},
    ],
)
def test_a_process_started_alone_is_no_part_of_a_group(variables):
    assert launchers.started_as(variables) is None


@pytest.mark.parametrize(
    'variables, variable',
    [
        ({}, None),
        (
            {'SLURM_ARRAY_TASK_ID': '3', 'SLURM_ARRAY_TASK_COUNT': '8'},
            'SLURM_ARRAY_TASK_ID',
        ),
        (
            {'SLURM_ARRAY_TASK_ID': '7', 'SLURM_ARRAY_TASK_COUNT': '2'},
            'SLURM_ARRAY_TASK_ID',
        ),
        ({'SGE_TASK_ID': 'undefined', 'SGE_TASK_LAST': 'undefined'}, None),
        ({'LSB_JOBINDEX': '0', 'LSB_JOBINDEX_END': '0'}, None),
        ({'LSB_JOBINDEX': '2', 'LSB_JOBINDEX_END': '4'}, 'LSB_JOBINDEX'),
    ],
)
def test_which_variable_is_that_of_a_job_array(variables, variable):
    task = launchers.array_task(variables, allow_gaps=True)
    assert (None if task is None else task.source) == variable


SLURM_ARRAY = {'SLURM_ARRAY_TASK_ID': '7', 'SLURM_ARRAY_TASK_MIN': '5'}
SGE_ARRAY = {'SGE_TASK_ID': '3', 'SGE_TASK_FIRST': '1', 'SGE_TASK_LAST': '9'}
LSF_ARRAY = {'LSB_JOBINDEX': '3', 'LSB_JOBINDEX_END': '9'}


@pytest.mark.parametrize(
    'variables, index, count',
    [
        (
            {
                **SLURM_ARRAY,
                'SLURM_ARRAY_TASK_MAX': '8',
                'SLURM_ARRAY_TASK_COUNT': '4',
            },
            3,
            4,
        ),
        ({**SGE_ARRAY, 'SGE_TASK_STEPSIZE': '1'}, 3, 9),
        (LSF_ARRAY, 3, 9),
        ({'SKYPILOT_JOB_RANK': '0', 'SKYPILOT_NUM_JOBS': '3'}, 0, 3),
        # An array of one task.
        (
            {
                'SLURM_ARRAY_TASK_ID': '5',
                'SLURM_ARRAY_TASK_MIN': '5',
                'SLURM_ARRAY_TASK_MAX': '5',
                'SLURM_ARRAY_TASK_COUNT': '1',
            },
            0,
            1,
        ),
        (
            {
                'SGE_TASK_ID': '5',
                'SGE_TASK_FIRST': '5',
                'SGE_TASK_LAST': '5',
                'SGE_TASK_STEPSIZE': '2',
            },
            0,
            1,
        ),
    ],
)
def test_a_task_of_an_array_has_an_index_and_a_count(variables, index, count):
    task = launchers.array_task(variables)
    assert (task.process_id, task.num_processes) == (index, count)


@pytest.mark.parametrize(
    'variables',
    [
        {**SLURM_ARRAY, 'SLURM_ARRAY_TASK_MAX': '9', 'SLURM_ARRAY_TASK_COUNT': '3'},
        {**SGE_ARRAY, 'SGE_TASK_STEPSIZE': '2'},
        {**LSF_ARRAY, 'LSB_JOBINDEX_STEP': '2'},
    ],
)
def test_numbers_with_gaps_tell_no_shards_apart(variables):
    with refusals.names('shard', 'has gaps', ' to 9'):
        launchers.array_task(variables)


@pytest.mark.parametrize(
    'variables',
    [
        {},
        {'SGE_TASK_ID': 'undefined', 'SGE_TASK_LAST': 'undefined'},
        {'LSB_JOBINDEX': '0', 'LSB_JOBINDEX_END': '0'},
    ],
)
def test_a_job_of_no_array_is_no_task(variables):
    assert launchers.array_task(variables) is None
