"""A small experiment over bursty links, and comparisons of what its runs keep."""

import json

from fedjax_links import experiment, report, runs
from fedjax_links.storage import checkpoints
from tests.experiment.configs import values

MARKOV = {'name': 'markov', 'probs': {'name': 'equal', 'value': 0.5}, 'up_rate': 0.3}


def small(**changes):
    """FedAvg over bursty links, evaluated every other round."""
    return values(**{'links': MARKOV, 'num_rounds': 8, **changes})


def build(**changes):
    return experiment.build(small(**changes))


LABELS = ('stage', 'algorithm', 'pattern', 'seed', 'client.learning_rate')


def by_lane(folder, after=0):
    """Lines of metrics behind a round, by lane."""
    lanes = {}
    for line in (folder / runs.METRICS).read_text().splitlines():
        row = json.loads(line)
        if row['round'] > after or 'stage' in row:
            key = tuple(str(row.get(name)) for name in LABELS)
            lanes.setdefault(key, []).append(line)
    return lanes


def last_states(folder, round):
    return {
        path.name: {
            name: (leaf.dtype.name, leaf.shape, leaf.tobytes())
            for name, leaf in checkpoints.arrays(path).items()
        }
        for path in (folder / 'checkpoints').glob(f'main-*@{round}.npz')
    }


def report_of(folder):
    report.write(runs.read(folder))
    return (folder / 'report.md').read_bytes()


def assert_same_future(folder, unbroken, round, after=0):
    """Lines of metrics per lane, final states and, for the same rounds, the report."""
    assert by_lane(folder, after) == by_lane(unbroken, after)
    states = last_states(folder, round)
    assert states
    assert states == last_states(unbroken, round)
