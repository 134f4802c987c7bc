"""Both convolutions train the same models, side by side and in a scan."""

import json

import jax
import pytest

from benchmarks import convolution

TINY = convolution.Settings(
    num_clients=2,
    local_steps=2,
    batch_size=3,
    image_size=8,
    channels=(2, 3),
    hidden=(4,),
)


def test_all_programs_agree():
    record = convolution.compare(TINY, repeats=1)
    json.dumps(record)
    assert record['largest_difference'] <= record['tolerance'] == 1e-4
    assert len(record['rows']) == 2
    assert all(row['measured'] > 0 for row in record['rows'])
    assert set(record['programs']) == {
        'xla_vmap',
        'xla_scan',
        'matmul_vmap',
        'matmul_scan',
    }


def test_another_convolution_is_noticed(monkeypatch):
    def wrong(*args, **options):
        return 1.05 * jax.lax.conv_general_dilated(*args, **options)

    monkeypatch.setattr(convolution.models.CNN, 'convolution', wrong)
    with pytest.raises(ValueError, match='convolution: matmul_vmap: results differ'):
        convolution.compare(TINY, repeats=1)
