"""Proves that one accelerator computes right, then measures it: one command, about eight minutes.

python -m benchmarks.accelerator --out=accelerator.json

First programs of six algorithms are certified against double precision and theory; if one is off,
nothing is measured. It needs no data. The measured parts need jax, flax, optax, chex, absl-py,
ml_collections and NumPy, the proof all that the package requires. Parts that lack a package, or no
longer fit into the time, are named as skipped. On a CPU all take a small form.
"""

import functools
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import fedjax_links as fl
from benchmarks import cifar, common, convolution, fashion, images, micro, pfl, summary
from fedjax_links import local_training, participation
from fedjax_links.problems.convolution import by_patches, by_rows, conv_as_matmul

MOST_SECONDS = 480.0
LONG_RUN = 300_000
_STEP_FLOPS = 0.541e9
"""Of a client's step in `fashion`. A layer has three products: its outputs, the gradient of its
weights and that of its inputs. The first layer needs only two."""
SEEDS = (1, 4, 16, 64, 256, 1024)
BITS_BOUND = 1e-4
"""Largest difference of a model trained 100 rounds on the accelerator and on the CPU, both with
products in full float32: sums of at most 6,400 terms in another order, in a contracting problem."""


def certificate(small: bool) -> dict[str, Any]:
    """Certifies the programs of six algorithms, and the links that they run over.

    Returns:
      The largest error of each program, and the bound of rounding or chance.

    Raises:
      ValueError: naming the programs that are off.
    """
    # These import packages that no other part needs.
    from configs import gaussians
    from fedjax_links.certify import certificates

    config = gaussians.get_config().to_dict()
    if small:
        config['algorithms'] = {'fedavg': {}, 'fedpbc': {}}
    verdicts = list(certificates.certify(config))
    failing = [verdict.program for verdict in verdicts if not verdict.holds]
    if failing:
        raise ValueError(f'off by more than rounding or chance: {"; ".join(failing)}')
    return {
        verdict.program: {'error': float(verdict.error), 'bound': float(verdict.bound)}
        for verdict in verdicts
    }


def turns_of(program: Callable[..., Any], *args: Any, repeats: int = 3) -> list[float]:
    """Returns the seconds of each turn of a compiled program, after a call that is not timed."""
    jax.block_until_ready(program(*args))
    return common.take_turns(
        {'': lambda: jax.block_until_ready(program(*args))}, repeats=repeats
    )['']


def seconds_of(program: Callable[..., Any], *args: Any, repeats: int = 3) -> float:
    """Returns the median seconds of a compiled program, see `turns_of`."""
    return float(np.median(turns_of(program, *args, repeats=repeats)))


def roofline(small: bool) -> dict[str, Any]:
    """Measures rates of a matrix product in two precisions, and of reading and writing memory."""
    size, entries = (512, 2**22) if small else (8192, 2**28)
    records: dict[str, Any] = {}
    for dtype in ('float32', 'bfloat16'):
        matrix = jnp.ones((size, size), dtype)
        product, _ = common.compile_program(jnp.matmul, matrix, matrix)
        seconds = seconds_of(product, matrix, matrix)
        records[f'{dtype}_teraflops'] = round(2 * size**3 / seconds / 1e12, 3)
    vector = jnp.ones(entries, jnp.float32)
    shift, _ = common.compile_program(lambda x: x + 1, vector)
    records['gigabytes_per_second'] = round(
        8 * entries / seconds_of(shift, vector) / 1e9, 1
    )
    return records


def orchestration(small: bool) -> dict[str, Any]:
    """Measures the rounds per second of `micro`."""
    settings = micro.QUICK if small else micro.Settings()
    links = participation.uniform_cohort(settings.num_clients, settings.cohort_size)
    key = jax.random.key(0)
    data = micro.problem(settings)
    program, compiling = common.compile_program(
        lambda key, data: micro.engine(key, data, settings, links), key, data
    )
    turns = [settings.num_rounds / seconds for seconds in turns_of(program, key, data)]
    return {
        'rounds_per_second': round(float(np.median(turns))),
        'turns': turns,
        'compile_seconds': round(compiling, 2),
    }


def side_by_side(small: bool) -> dict[str, Any]:
    """Measures the rounds per second of all seeds of `micro` together, by their number."""
    settings = micro.Settings(num_rounds=20 if small else 500)
    data = micro.problem(settings)
    client = local_training.local_sgd(
        settings.learning_rate,
        local_steps=settings.local_steps,
        batch_size=settings.batch_size,
    )
    records = {}
    for count in SEEDS[:2] if small else SEEDS:
        run = functools.partial(
            fl.sweep,
            lambda: fl.ALGORITHMS['fedavg'](client),
            lambda: participation.uniform_cohort(
                settings.num_clients, settings.cohort_size
            ),
            data,
            seeds=range(count),
            num_rounds=settings.num_rounds,
            batching='vmap',
        )
        jax.block_until_ready(run())
        begin = time.perf_counter()  # compiles again, as a new sweep does
        jax.block_until_ready(run())
        records[str(count)] = round(
            count * settings.num_rounds / (time.perf_counter() - begin)
        )
    return {'rounds_per_second_with_compiling': records}


def forms(small: bool) -> dict[str, Any]:
    """Measures local training with each form of convolution, and names the fastest."""
    settings = convolution.QUICK if small else convolution.Settings()
    candidates = {
        'lax.conv': jax.lax.conv_general_dilated,
        'patches': functools.partial(conv_as_matmul, form=by_patches),
        'rows': functools.partial(conv_as_matmul, form=by_rows),
    }
    arguments = convolution.inputs(settings)
    records = {}
    for name, form in candidates.items():
        program, _ = common.compile_program(
            functools.partial(
                convolution.train, settings=settings, convolution=form, order='vmap'
            ),
            *arguments,
        )
        records[name] = round(1e3 * seconds_of(program, *arguments), 3)
    chosen = min(records, key=lambda name: records[name])
    why = f'{settings.num_clients} clients side by side, fashion network: fewest milliseconds'
    return {'milliseconds': records, 'chosen': chosen, 'why': why}


def small_images(small: bool) -> dict[str, Any]:
    """Times `fashion` at ten seeds side by side, and projects 300,000 rounds of them."""
    seeds, rounds = (2, 2) if small else (10, 10)
    workload = fashion.WORKLOAD._replace(num_rounds=rounds)
    data = images.problem(workload, fashion.NETWORK)
    links = fashion.links(workload, fashion.COHORT_SIZE)
    keys = jax.vmap(jax.random.key)(jnp.arange(seeds))

    def run(keys: jax.Array, data: Any) -> Any:
        return jax.vmap(
            lambda key: images.engine(key, data, workload, fashion.ALGORITHM, links)
        )(keys)

    program, compiling = common.compile_program(run, keys, data)
    turns = turns_of(program, keys, data, repeats=1 if small else 3)
    seconds = float(np.median(turns)) / rounds
    flops = (program.cost_analysis() or {}).get('flops')  # type: ignore[attr-defined]
    return {
        'seeds': seeds,
        'seconds_per_round_of_all_seeds': round(seconds, 5),
        'projected_hours_of_300000_rounds': round(seconds * LONG_RUN / 3600, 3),
        'turns': [turn / rounds * LONG_RUN / 3600 for turn in turns],
        'compile_seconds': round(compiling, 2),
        'flops_counted_by_the_compiler': flops,
    }


def many_clients(small: bool) -> dict[str, Any]:
    """Times `pfl`: all 1,500 rounds, or one in the small form."""
    workload = pfl.WORKLOAD._replace(num_rounds=1 if small else pfl.WORKLOAD.num_rounds)
    module = pfl.Network()
    key = jax.random.key(0)
    data = images.problem(workload, module)
    links = participation.uniform_cohort(workload.num_clients, pfl.COHORT_SIZE)
    program, compiling = common.compile_program(
        lambda key, data: images.engine(key, data, workload, pfl.ALGORITHM, links),
        key,
        data,
    )
    seconds = seconds_of(program, key, data, repeats=1)
    return {
        'rounds': workload.num_rounds,
        'seconds': round(seconds, 2),
        'compile_seconds': round(compiling, 2),
    }


def colour_images(small: bool) -> dict[str, Any]:
    """Times `cifar`: seconds per round of FedAvg and FedPBC."""
    records = {}
    for name in ('fedavg', 'fedpbc'):
        workload = cifar.WORKLOAD._replace(num_rounds=1 if small else 20)
        data = images.problem(workload, cifar.NETWORK)
        links = cifar.links(workload)
        program, compiling = common.compile_program(
            functools.partial(
                images.engine,
                workload=workload,
                algorithm=images.AlgorithmOptions(name),
                links=links,
            ),
            jax.random.key(0),
            data,
        )
        seconds = (
            seconds_of(program, jax.random.key(0), data, repeats=1)
            / workload.num_rounds
        )
        records[name] = {
            'seconds_per_round': round(seconds, 5),
            'compile_seconds': round(compiling, 2),
            'program_bytes': _program_bytes(program),
        }
    return records


def bits(small: bool) -> dict[str, Any]:
    """Returns the largest difference of `micro` after 100 rounds here and on the CPU.

    Raises:
      ValueError: if it exceeds its bound.
    """
    settings = micro.Settings(num_rounds=20 if small else 100)
    links = participation.uniform_cohort(settings.num_clients, settings.cohort_size)
    results = []
    with jax.default_matmul_precision('highest'):
        for device in (jax.devices()[0], jax.devices('cpu')[0]):
            with jax.default_device(device):
                key = jax.random.key(0)
                data = micro.problem(settings)
                run = jax.jit(
                    lambda key, data: micro.engine(key, data, settings, links)
                )
                results.append(jax.device_get(run(key, data)))
    gap = common.require_close(
        *results, tolerance=BITS_BOUND, what='accelerator and CPU'
    )
    return {'largest_difference': gap, 'bound': BITS_BOUND}


def memory() -> dict[str, Any]:
    """Returns the peak and size of the device's memory in GiB; empty where it does not say."""
    statistics = jax.devices()[0].memory_stats() or {}
    names = {'peak_bytes_in_use': 'peak_gibibytes', 'bytes_limit': 'limit_gibibytes'}
    return {
        shown: round(statistics[name] / 2**30, 3)
        for name, shown in names.items()
        if name in statistics
    }


PARTS: dict[str, Callable[[bool], dict[str, Any]]] = {
    'certificate': certificate,
    'roofline': roofline,
    'bits': bits,
    'micro': orchestration,
    'convolution': forms,
    'fashion': small_images,
    'cifar': colour_images,
    'seeds': side_by_side,
    'pfl': many_clients,
}


def measure(quick: bool) -> dict[str, Any]:
    """Runs this benchmark and returns its record."""
    small = quick or jax.default_backend() == 'cpu'
    begin = time.perf_counter()
    record: dict[str, Any] = {'small_form': small, 'skipped': []}
    for name, part in PARTS.items():
        if time.perf_counter() - begin > 0.75 * MOST_SECONDS:
            record['skipped'].append(name)
            continue
        start = time.perf_counter()
        try:
            record[name] = part(small)
        except ImportError as error:
            record['skipped'].append(f'{name} ({error})')
            continue
        record[name]['part_seconds'] = round(time.perf_counter() - start, 1)
        print(f'{name}: {json.dumps(record[name])}', file=sys.stderr, flush=True)
        jax.clear_caches()
    record |= {'memory': memory(), 'seconds': round(time.perf_counter() - begin, 1)}
    if {'fashion', 'roofline'} <= record.keys():
        record['fashion']['share_of_the_matmul_rate'] = _share(record)
    return {**record, 'rows': [] if small else _rows(record)}


def _share(record: dict[str, Any]) -> float:
    """Returns the share of the measured float32 rate that the products of `fashion` reach."""
    work = (
        _STEP_FLOPS
        * fashion.WORKLOAD.local_steps
        * fashion.COHORT_SIZE
        * record['fashion']['seeds']
    )
    achieved = work / record['fashion']['seconds_per_round_of_all_seeds'] / 1e12
    return float(round(achieved / record['roofline']['float32_teraflops'], 4))


def _rows(record: dict[str, Any]) -> list[dict[str, Any]]:
    records = []
    if 'micro' in record:
        turns = record['micro']['turns']
        records.append(summary.values_row('micro', turns, 'rounds/s', at_most=False))
    if 'pfl' in record:
        what = '1,500 rounds of pfl after compiling'
        turns = [record['pfl']['seconds']]
        records.append(summary.values_row(what, turns, 's', pfl.TARGET_SECONDS))
    if 'fashion' in record:
        what = 'fashion, 10 seeds x 300,000 rounds, projected'
        records.append(summary.values_row(what, record['fashion']['turns'], 'h', 1.0))
    return records


def _program_bytes(program: Any) -> int | None:
    analysis = program.memory_analysis()
    if not analysis:
        return None
    return int(analysis.argument_size_in_bytes + analysis.temp_size_in_bytes)


if __name__ == '__main__':
    common.main(
        'accelerator', 'One accelerator, all workloads, eight minutes.', measure
    )
