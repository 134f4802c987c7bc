"""The papers' image experiments at full size: a few rounds of each, and what all would take.

python -m studies.full_size xiang2024_table1:svhn --rounds=4 --out=svhn.json
python -m studies.full_size --table svhn.json cifar10.json

Random images in the npz format, as many as the data set has, stand in for it. Clients, networks,
batches and local steps are those of the config. Every algorithm and every pattern runs at least
once, one pair at a time, with one seed and one rate. Warm-ups and blocks are shortened to half of
the rounds, so that what comes after them runs too. The evaluation of all examples is timed once by
itself, and the runs evaluate a few. What is extrapolated is processor time, which a busy machine
changes less.
"""

import argparse
import dataclasses
import json
import pathlib
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from benchmarks import common
from fedjax_links import evaluation, experiment, report
from fedjax_links.base import Problem
from fedjax_links.core import memory, tree
from fedjax_links.datasets import npz
from fedjax_links.experiment import Experiment
from fedjax_links.machines import devices
from fedjax_links.runner import dry_runs
from fedjax_links.runner.compilation import lane_bytes
from fedjax_links.runner.lane_batch import LaneBatch, compile_batches
from fedjax_links.runner.program_cache import Programs
from studies import full_size_configs as configs
from studies.full_size_configs import Values

PEAK_FLOPS = 67e12
BANDWIDTH = 3.35e12
"""Published for an H100 SXM: float32 without tensor cores, bytes per second of its memory."""
EVALUATED = 1_000
STEPS = 9
NUM_CORES = 2


class Costs(NamedTuple):
    """Holds the costs of a problem, by its compiled programs.

    Attributes:
      step: operations and bytes of a client's local step, by batch size.
      seconds: processor seconds of such a step by itself, by batch size.
      example: operations and bytes of evaluating a model on an example.
      evaluation: processor seconds of evaluating a model on all examples.
      num_examples: of training and evaluation data.
    """

    step: dict[int, tuple[float, float]]
    seconds: dict[int, float]
    example: tuple[float, float]
    evaluation: float
    num_examples: int


class Clock(experiment.Callback):
    """Records wall and processor seconds and how many clients trained at the end of each period."""

    def __init__(self) -> None:
        """Records nothing yet."""
        self.times: list[tuple[float, float]] = []
        self.trained: list[float] = []

    def on_period(self, lane: experiment.Lane, record: Mapping[str, Any]) -> None:
        """Records a period; raises if the lane is not finite."""
        if not record['finite']:
            raise ValueError(
                f'{lane.description} is not finite after {record["round"]} rounds.'
            )
        self.times.append((time.perf_counter(), time.process_time()))
        self.trained.append(float(record['rounds/num_computing']))


def _operations(program: Any) -> tuple[float, float]:
    """Returns operations and bytes of a compiled program without loops, as the compiler counts."""
    costs = program.cost_analysis() or {}
    return float(costs['flops']), float(costs['bytes accessed'])


def _seconds(program: Any, *args: Any) -> float:
    """Returns the processor seconds of a call."""
    begin = time.process_time()
    jax.block_until_ready(program(*args))
    return time.process_time() - begin


def costs(planned: Experiment, problem: Problem, batches: Sequence[int]) -> Costs:
    """Measures the costs of a step and of an evaluation, each by itself."""
    key = jax.random.key(0)
    params = jax.jit(problem.init_params)(key)

    def loss(params: Any, batch: Any, key: Any) -> Any:
        if problem.random_loss_fn is None:
            return problem.loss_fn(params, batch)
        return problem.random_loss_fn(params, batch, key)

    step = {}
    seconds = {}
    for batch in batches:
        args = params, _first(problem.data, batch), key
        program, _ = common.compile_program(jax.value_and_grad(loss), *args)
        step[batch] = _operations(program)
        seconds[batch] = float(
            np.median([_seconds(program, *args) for _ in range(STEPS)])
        )
    some, _ = common.compile_program(
        problem.metrics, params, _first(problem.data, EVALUATED)
    )
    operations, moved = _operations(some)
    evaluate, _ = common.compile_program(
        planned.plan.eval_fn(problem), params, key, problem
    )
    count = sum(
        len(jax.tree.leaves(part)[0]) for part in (problem.data, problem.eval_data)
    )
    example = operations / EVALUATED, moved / EVALUATED
    return Costs(
        step, seconds, example, _seconds(evaluate, params, key, problem), count
    )


def _first(data: Any, count: int) -> Any:
    return jax.tree.map(lambda a: a[:count], data)


def _evaluate_few(params: Any, key: Any, problem: Problem) -> Any:
    few = {
        name: _first(getattr(problem, name), EVALUATED)
        for name in ('data', 'eval_data')
    }
    return evaluation.train_and_eval(params, key, dataclasses.replace(problem, **few))


class Measured(NamedTuple):
    """Holds the measurement of an algorithm.

    Attributes:
      wall: seconds of a round, of the compiled program's second period.
      processor: seconds of all cores for a client that trains.
      before: clients that trained in a round of the warm-up.
    """

    wall: float
    processor: float
    before: float


def run(values: Values, turn: int, num_rounds: int, cost: Costs) -> Measured:
    """Runs `shortened`; what it spends on evaluations is left out of the processor time."""
    planned = experiment.build(configs.shortened(values, turn, num_rounds))
    (label,) = planned.algorithms
    clock = Clock()
    period = num_rounds // 2
    dataclasses.replace(planned, eval_fn=_evaluate_few).run(callbacks=[clock])
    (first_wall, first_processor), (last_wall, last_processor) = clock.times
    num_evaluations = (
        len(planned.plan.models(label)) * 2 * EVALUATED / cost.num_examples
    )
    processor = last_processor - first_processor
    training = max(0.0, processor - num_evaluations * cost.evaluation)
    first, second = clock.trained
    wall = (last_wall - first_wall) / period
    return Measured(wall, training / max(second, 1.0), first / period)


def peak(planned: Experiment) -> str:
    """Returns the largest algorithm's peak memory, two lanes at a time, as in a dry run."""
    programs = Programs(planned.plan, slots=devices.device_slots(1))
    lanes = []
    for label in planned.algorithms:
        lanes += planned.plan.lanes_at_first(label)
    kinds = programs.one_of_each(lanes)
    largest = max(kinds, key=lambda lane: lane_bytes(planned.plan, lane))
    batch = LaneBatch(programs, [largest])
    num_bytes = memory.peak_bytes(compile_batches(programs, [batch])[0], NUM_CORES)
    return 'unknown' if num_bytes is None else memory.size(num_bytes)


def extrapolated(
    values: Values,
    planned: Experiment,
    label: str,
    measured: Measured,
    after: float,
    cost: Costs,
) -> dict[str, float]:
    """Extrapolates the costs of an algorithm to all lanes and rounds, tuning included."""
    lanes = planned.plan.lanes_at_first(label)
    rounds = sum(lane.num_rounds for lane in lanes)
    start = values['algorithms'][label].get('start_round', 0)
    warm = sum(min(start, lane.num_rounds) for lane in lanes)
    trained = warm * measured.before + (rounds - warm) * after
    evaluated = len(planned.plan.models(label)) * rounds / planned.eval_every
    problem = planned.problem_at(next(iter(planned.patterns)), planned.plan.points[0])
    steps = trained * configs.client_of(values, label)['local_steps']
    step = cost.step[configs.batch_of(values, label, problem)]
    operations = steps * step[0] + evaluated * cost.num_examples * cost.example[0]
    moved = steps * step[1] + evaluated * cost.num_examples * cost.example[1]
    busy = trained * measured.processor + evaluated * cost.evaluation
    return {
        'lanes': len(lanes),
        'rounds': rounds,
        'wall_seconds_per_round': measured.wall,
        'clients_per_round': after,
        'hours_on_two_cores': busy / NUM_CORES / 3600,
        'operations': operations,
        'bytes': moved,
    }


class SharedMeasurements:
    """Measures once what configs share: stand-in data, programs of a network, clients by links."""

    def __init__(self, folder: pathlib.Path, fraction: float = 1.0) -> None:
        """Measures nothing yet.

        Args:
          folder: of the data.
          fraction: of the images that a data set has.
        """
        self._folder = folder
        self._fraction = fraction
        self._costs: dict[Any, Costs] = {}
        self._clients: dict[Any, dict[str, float]] = {}
        self._measured: dict[Any, Measured] = {}

    def config(self, name: str, argument: str) -> Values:
        """Returns a config as written, whose data are there."""
        words = argument.split(',')
        dataset = next((word for word in words if word in configs.STAND_INS), 'cifar10')
        if not npz.npz_file(dataset, self._folder).exists():
            configs.write_stand_in(dataset, self._folder, self._fraction)
        return configs.full(name, argument, self._folder)

    def costs(self, values: Values, planned: Experiment, problem: Problem) -> Costs:
        """Returns the costs of the config's problem."""
        batches = {
            configs.batch_of(values, label, problem) for label in values['algorithms']
        }
        key = self._network(values), tuple(sorted(batches))
        if key not in self._costs:
            self._costs[key] = costs(planned, problem, key[1])
        return self._costs[key]

    def clients(self, values: Values) -> dict[str, float]:
        """Returns the clients per round, see `full_size_configs.clients_per_round`."""
        parts = ('patterns', 'algorithms', 'problems')
        key = json.dumps([values.get(part) for part in parts])
        if key not in self._clients:
            self._clients[key] = configs.clients_per_round(values)
        return self._clients[key]

    def measured(
        self, values: Values, num_rounds: int, cost: Costs
    ) -> tuple[dict[str, Measured], list[str]]:
        """Returns the measurements of every algorithm, and which of them ran for this config.

        An algorithm that differs in numbers from one that ran on the same network runs only where
        there are patterns left to meet.
        """
        measured = {}
        ran = []
        labels = list(values['algorithms'])
        count = len(values['patterns'])
        for index in range(max(len(labels), count)):
            label = labels[index % len(labels)]
            name = values['algorithms'][label].get('name', label)
            key = (
                self._network(values),
                name,
                configs.client_of(values, label)['batch_size'],
            )
            if index < count or key not in self._measured:
                self._measured[key] = run(values, index, num_rounds, cost)
                ran.append(label)
            measured[label] = self._measured[key]
        return measured, ran

    def _network(self, values: Values) -> str:
        return json.dumps([values['problem']['dataset'], values['problem']['model']])


def measure(
    config: str, num_rounds: int, shared: SharedMeasurements, *, dry_run: bool = False
) -> Values:
    """Returns the record of one config.

    Args:
      config: as behind ``--config=configs/``, ``xiang2024_table1:svhn``.
      num_rounds: to run, even; 0 to estimate from a step and an evaluation by themselves.
      shared: the measurements of earlier configs.
      dry_run: whether ``--dry_run`` estimates too, as slow as its periods are.

    Returns:
      What the table shows.
    """
    begin = time.process_time()
    values = shared.config(*config.split(':'))
    planned = experiment.build(values)
    report.check(planned)
    planned.check()
    problem = planned.problem_at(next(iter(planned.patterns)), planned.plan.points[0])
    shapes = jax.eval_shape(problem.init_params, jax.random.key(0))
    cost = shared.costs(values, planned, problem)
    after = shared.clients(values)
    if num_rounds:
        measured, ran = shared.measured(values, num_rounds, cost)
    else:
        measured = _by_steps(values, problem, cost, max(after.values()))
        ran = []
    return {
        'config': config,
        'clients': problem.num_clients,
        'parameters': tree.size(shapes),
        'num_rounds': num_rounds,
        'ran': ran,
        'algorithms': {
            label: extrapolated(values, planned, label, one, after[label], cost)
            for label, one in measured.items()
        },
        'peak': peak(planned),
        'dry_run': _dry_run(planned) if dry_run else None,
        'date': time.strftime('%Y-%m-%d'),
        'processor_seconds': round(time.process_time() - begin, 1),
        'device': common.device(),
    }


def _dry_run(planned: experiment.Experiment) -> str:
    """Returns what ``--dry_run`` says about the time."""
    lines = dry_runs.dry_run(planned.plan)
    return next(line for line in lines if line.startswith('time '))


def _by_steps(
    values: Values, problem: Problem, cost: Costs, before: float
) -> dict[str, Measured]:
    """Returns what rounds would take if clients took as long as steps by themselves."""
    measured = {}
    for label in values['algorithms']:
        seconds = cost.seconds[configs.batch_of(values, label, problem)]
        training = configs.client_of(values, label)['local_steps'] * seconds
        measured[label] = Measured(before * training / NUM_CORES, training, before)
    return measured


def _short(number: float) -> str:
    """Formats a number with two digits, or all before the point."""
    return f'{number:.2g}' if number < 100 else f'{number:,.0f}'


def rows(records: Sequence[Values]) -> Iterator[str]:
    """Yields the lines of the table."""
    titles = (
        'config',
        'clients',
        'parameters',
        'lanes',
        'rounds of all lanes',
        'rounds run',
        'seconds per round',
        'days on two cores',
        'memory',
        'GPU hours by operations',
        'by bytes',
    )
    yield f'| {" | ".join(titles)} |'
    yield f'{"| --- " * len(titles)}|'
    for record in records:
        parts = record['algorithms'].values()
        total = {name: sum(part[name] for part in parts) for name in next(iter(parts))}
        seconds = sorted(part['wall_seconds_per_round'] for part in parts)
        cells = [
            record['config'],
            f'{record["clients"]}',
            f'{record["parameters"]:,}',
            f'{total["lanes"]:,}',
            f'{total["rounds"]:,}',
            f'{record["num_rounds"]}',
            f'{_short(seconds[0])} to {_short(seconds[-1])}',
            _short(total['hours_on_two_cores'] / 24),
            record['peak'],
            _short(total['operations'] / PEAK_FLOPS / 3600),
            _short(total['bytes'] / BANDWIDTH / 3600),
        ]
        yield f'| {" | ".join(cells)} |'


def main() -> None:
    """Measures configs, or prints the table of records."""
    parser = argparse.ArgumentParser(prog='python -m studies.full_size')
    parser.add_argument(
        'configs', nargs='+', help='NAME:WORDS, or records with --table'
    )
    parser.add_argument(
        '--rounds', type=int, default=20, help='an even number; 0 to run none'
    )
    parser.add_argument(
        '--out', type=pathlib.Path, help='file that records are added to'
    )
    parser.add_argument(
        '--dry_run', action='store_true', help='estimate as simulate does, too'
    )
    parser.add_argument('--table', action='store_true', help='print a table of records')
    args = parser.parse_args()
    if args.table:
        lines = [
            line
            for path in args.configs
            for line in pathlib.Path(path).read_text().split('\n')
        ]
        print('\n'.join(rows([json.loads(line) for line in lines if line])))
        return
    with tempfile.TemporaryDirectory() as folder:
        shared = SharedMeasurements(pathlib.Path(folder))
        for config in args.configs:
            line = json.dumps(
                measure(config, args.rounds, shared, dry_run=args.dry_run)
            )
            print(line, flush=True)
            if args.out:
                with open(args.out, 'a') as stream:
                    stream.write(f'{line}\n')
            jax.clear_caches()


if __name__ == '__main__':
    main()
