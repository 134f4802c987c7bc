"""The accelerator suite needs few packages, and measures its parts until the time is over."""

import json
import subprocess
import sys

import pytest

from benchmarks import accelerator, summary
from fedjax_links.certify import certificates

ABSENT = (
    'torch',
    'scipy',
    'matplotlib',
    'tqdm',
    'tensorflow',
    'PIL',
    'pandas',
    'sklearn',
)


def test_it_is_imported_without_any_optional_package():
    blocked = '; '.join(f'sys.modules[{name!r}] = None' for name in ABSENT)
    code = f'import sys; {blocked}; import benchmarks.accelerator'
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_what_does_not_fit_into_the_time_is_named(monkeypatch):
    monkeypatch.setattr(accelerator, 'MOST_SECONDS', 0.0)
    record = accelerator.measure(quick=True)
    assert record['skipped'] == list(accelerator.PARTS)


def test_parts_that_lack_a_package_are_named(monkeypatch):
    def part(small):
        raise ModuleNotFoundError("No module named 'scipy'")

    monkeypatch.setattr(accelerator, 'PARTS', {'certificate': part})
    record = accelerator.measure(quick=True)
    assert record['skipped'] == ["certificate (No module named 'scipy')"]


def test_a_program_that_is_off_stops_the_measurement(monkeypatch):
    sound = certificates.ProgramVerdict('fedavg, links', 1e-6, 1e-4, '')
    off = certificates.ProgramVerdict('fedpbc, links', 2e-4, 1e-4, '.server')
    monkeypatch.setattr(certificates, 'certify', lambda config: iter([sound]))
    expected = {'fedavg, links': {'error': 1e-6, 'bound': 1e-4}}
    assert accelerator.certificate(small=True) == expected
    monkeypatch.setattr(certificates, 'certify', lambda config: iter([sound, off]))
    with pytest.raises(ValueError, match=r'rounding or chance: fedpbc, links$'):
        accelerator.measure(quick=True)


def test_rows_have_their_spread():
    record = {
        'micro': {'turns': [100.0, 300.0, 200.0]},
        'pfl': {'seconds': 50.0},
        'fashion': {'turns': [0.5, 2.0, 1.5]},
    }
    rows = summary.rows({'benchmark': 'accelerator', 'rows': accelerator._rows(record)})
    assert [(row.measured, row.spread) for row in rows] == [
        (200.0, (100.0, 300.0)),
        (50.0, None),
        (1.5, (0.5, 2.0)),
    ]
    assert [row.met for row in rows] == [None, True, False]


@pytest.mark.slow
def test_parts_are_measured_in_a_small_form_on_a_cpu(monkeypatch):
    parts = {
        name: accelerator.PARTS[name] for name in ('roofline', 'bits', 'micro', 'seeds')
    }
    monkeypatch.setattr(accelerator, 'PARTS', parts)
    record = accelerator.measure(quick=False)
    json.dumps(record)
    assert record['small_form']
    assert record['bits']['largest_difference'] <= record['bits']['bound']
    assert record['roofline']['float32_teraflops'] > 0
    assert list(record['seeds']['rounds_per_second_with_compiling']) == ['1', '4']
