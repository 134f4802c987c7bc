"""How much memory there is."""

import pytest

from fedjax_links.core import checks, memory


def test_sizes_have_the_unit_that_shows_them():
    assert memory.size(2560) == '2.5 KiB'
    assert memory.size(2**20) == '1.0 MiB'
    assert memory.size(2**31) == '2,048.0 MiB'


MACHINE = {'proc/meminfo': 'MemTotal: 4096 kB\nMemAvailable:    3072 kB\n'}
NEW = {
    'proc/self/cgroup': '0::/job/task\n',
    'sys/fs/cgroup/job/task/memory.max': 'max\n',
    'sys/fs/cgroup/job/memory.max': f'{2**20}\n',
    'sys/fs/cgroup/job/memory.current': '600000\n',
    'sys/fs/cgroup/job/memory.stat': 'anon 500000\ninactive_file 100000\n',
}
OLD = {
    'proc/self/cgroup': '9:cpu:/job\n4:memory:/job\n',
    'sys/fs/cgroup/memory/memory.limit_in_bytes': f'{2**20}\n',  # the job's own is out of sight
    'sys/fs/cgroup/memory/memory.usage_in_bytes': '600000\n',
    'sys/fs/cgroup/memory/memory.stat': 'total_inactive_file 100000\n',
}


@pytest.mark.parametrize(
    'files, free',
    [
        ({}, None),
        (MACHINE, 3 * 2**20),
        (MACHINE | NEW, 2**20 - 500_000),
        (MACHINE | OLD, 2**20 - 500_000),
        (
            MACHINE
            | {'proc/self/cgroup': '0::/\n', 'sys/fs/cgroup/memory.max': 'max\n'},
            3 * 2**20,
        ),
    ],
)
def test_free_memory_is_that_of_the_narrowest_control_group(files, free, tmp_path):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert memory.host_bytes(tmp_path) == free


def test_arrays_are_held_against_what_is_free():
    free = memory.host_bytes()
    if free is None:
        pytest.skip('this system does not say')
    checks.fits('num_clients', 3, free / 2)
    with pytest.raises(
        ValueError, match=r'^`num_clients` must fit into memory, got 9: .* are free'
    ):
        checks.fits('num_clients', 9, 2.0 * free)


def test_what_is_known_not_to_fit_is_refused():
    memory.refuse_if_above(None, 10**15, 'mifa')
    memory.refuse_if_above(2**20, 2**20, 'mifa')
    # A full machine has no memory left; that is no unknown amount.
    with pytest.raises(ValueError, match=r'0\.0 KiB are free'):
        memory.refuse_if_above(0, 1, 'mifa')
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        memory.refuse_if_above(2**20, 3 * 2**30, 'mifa')
    assert str(caught.value) == (
        '`config` must fit into memory: mifa needs 3,072.0 MiB, 1.0 MiB are free; '
        'fewer clients or a smaller model would fit.'
    )
