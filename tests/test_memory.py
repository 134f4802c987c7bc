"""How much memory there is."""

import pytest

from fedjax_links import memory


def test_sizes_have_the_unit_that_shows_them():
    assert memory.size(2560) == '2.5 KiB'
    assert memory.size(2**20) == '1.0 MiB'
    assert memory.size(2**31) == '2,048.0 MiB'


def test_this_machine_has_some():
    available = memory.available_bytes()
    assert available is None or 2**20 < available < 2**50


def test_what_is_known_not_to_fit_is_refused():
    memory.refuse_if_above(None, 10**15, 'mifa')
    memory.refuse_if_above(2**20, 2**20, 'mifa')
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        memory.refuse_if_above(2**20, 3 * 2**30, 'mifa')
    assert str(caught.value) == (
        '`config` must fit into memory: mifa needs 3,072.0 MiB, 1.0 MiB are free; '
        'fewer clients or a smaller model would fit.'
    )
    with pytest.raises(ValueError, match=r'free; half the rows, fewer clients or a smaller model'):
        memory.refuse_if_above(2**20, 2**21, 'mifa', ['half the rows'])
