"""The way of a client's rate from a command line to the algorithm that is built with it."""

import dataclasses
import itertools
import sys
from pathlib import Path

import pytest

import fedjax_links
from fedjax_links import experiment
from fedjax_links.cli import configs
from fedjax_links.config.schema import ExperimentConfig
from tests.layering import MAY_SEE, layer_of

FOLDER = Path(fedjax_links.__file__).parent
PREFIX = f'{FOLDER}/'
FIELD = 'client.learning_rate'
RATE = 0.0173
CORE = {'core', 'errors', 'values'}
CONFIG = """
def get_config():
    return {
        'title': 'a rate',
        'problem': {'name': 'quadratic', 'targets': [[0.0], [1.0], [2.0]]},
        'links': {'name': 'bernoulli', 'probs': 0.5},
        'client': {'learning_rate': 0.5, 'local_steps': 2},
        'algorithms': {'fedavg': {}},
        'num_rounds': 2,
        'eval_every': 2,
    }
"""


def holds(value, depth=6):
    """Tell whether a value is the rate, its text, or a plain tree that holds either."""
    if type(value) in (float, str):
        return value in (RATE, str(RATE))
    if depth == 0:
        return False
    if type(value) is dict:
        return FIELD in value or any(holds(part, depth - 1) for part in value.values())
    if isinstance(value, list | tuple):
        return any(holds(part, depth - 1) for part in value)
    if isinstance(value, ExperimentConfig):
        return holds(vars(value), depth)
    return False


@dataclasses.dataclass
class Way:
    """The functions of the package that are called with the rate, in order."""

    stations: list = dataclasses.field(default_factory=list)
    passed: set = dataclasses.field(default_factory=set)

    def __call__(self, frame, event, _):
        """Note a call, as `sys.setprofile` asks."""
        code = frame.f_code
        if event != 'call' or code in self.passed:
            return
        if not code.co_filename.startswith(PREFIX):
            self.passed.add(code)
            return
        has_more = bool(code.co_flags & 4) + bool(code.co_flags & 8)  # *args, **kwargs
        count = code.co_argcount + code.co_kwonlyargcount + has_more
        names = code.co_varnames[:count]
        is_named = 'learning_rate' in names or 'eta' in names
        if is_named or any(holds(frame.f_locals.get(name)) for name in names):
            self.passed.add(code)
            path = code.co_filename.removeprefix(PREFIX)
            self.stations.append((path, code.co_qualname))

    def layers(self):
        """Return the layer of each station; checks and errors of the core are none."""
        results = []
        for path, _ in self.stations:
            module = f'fedjax_links.{path.removesuffix(".py").replace("/", ".")}'
            results.append(layer_of(module))
        return [layer for layer in results if layer not in CORE]


def height(layer):
    """Return how high a layer is: one above the highest that it may see."""
    return 1 + max((height(below) for below in MAY_SEE.get(layer, ())), default=0)


@pytest.fixture(scope='module')
def way(tmp_path_factory):
    """Build a small experiment once, and note who is called with the rate."""
    folder = tmp_path_factory.mktemp('way')
    (folder / 'config.py').write_text(CONFIG)
    noted = Way()
    sys.setprofile(noted)
    try:
        values = configs.from_flags(
            str(folder / 'config.py'), {FIELD: str(RATE)}, 'experiment'
        )
        experiment.build(values)
    finally:
        sys.setprofile(None)
    return noted


def test_a_rate_passes_few_functions(way):
    names = [name for _, name in way.stations]
    assert 'from_flags' in names
    assert 'BoundFactory.build' in names
    assert 'constant' in names
    assert len(way.layers()) <= 46, way.stations


def test_a_rate_climbs_rarely(way):
    heights = [height(layer) for layer in way.layers()]
    climbs = sum(above > below for below, above in itertools.pairwise(heights))
    assert climbs <= 2, way.stations
