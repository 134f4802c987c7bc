"""A small experiment over bursty links, and comparisons of its runs after a round."""

import json

from fedjax_links import experiment, report, runs
from fedjax_links.storage import checkpoints
from tests.experiment.configs import values

MARKOV = {'name': 'markov', 'probs': {'name': 'equal', 'value': 0.5}, 'up_rate': 0.3}


def small(**changes):
    """Returns a config of FedAvg over bursty links, evaluated every other round."""
    return values(**{'links': MARKOV, 'num_rounds': 8, **changes})


def build(**changes):
    return experiment.build(small(**changes))


LABELS = ('stage', 'algorithm', 'pattern', 'seed', 'client.learning_rate')


def by_lane(folder, after=0):
    """Returns the lines of metrics by lane: all of tuning and ties, and later ones of main."""
    lanes = {}
    for line in (folder / runs.METRICS).read_text().splitlines():
        row = json.loads(line)
        if row['round'] > after or 'stage' in row:
            key = tuple(str(row.get(name)) for name in LABELS)
            lanes.setdefault(key, []).append(line)
    return lanes


def last_states(folder, round):
    """Returns the states that main lanes saved at a round, by file and array."""
    return {
        path.name: {
            name: (leaf.dtype.name, leaf.shape, leaf.tobytes())
            for name, leaf in checkpoints.arrays(path).items()
        }
        for path in (folder / 'checkpoints').glob(f'main-*@{round}.npz')
    }


def report_of(folder):
    """Writes the report of a run and returns its bytes."""
    report.write(runs.read(folder))
    return (folder / 'report.md').read_bytes()


def assert_same_future(folder, unbroken, round, after=0):
    """Asserts that two runs have the same lines of metrics per lane and the same last states."""
    assert by_lane(folder, after) == by_lane(unbroken, after)
    states = last_states(folder, round)
    assert states
    assert states == last_states(unbroken, round)
