"""Federated learning over unreliable links and arbitrary participation, exactly and fast.

The names below are loaded on first use, so that command lines start without JAX.
"""

import typing

if typing.TYPE_CHECKING:  # what type checkers see
    from fedjax_links import algorithms as algorithms
    from fedjax_links import analysis as analysis
    from fedjax_links import base as base
    from fedjax_links import evaluation as evaluation
    from fedjax_links import experiment as experiment
    from fedjax_links import local_training as local_training
    from fedjax_links import mixing as mixing
    from fedjax_links import participation as participation
    from fedjax_links import plot as plot
    from fedjax_links import problems as problems
    from fedjax_links import report as report
    from fedjax_links import runs as runs
    from fedjax_links import simulation as simulation
    from fedjax_links import sweeps as sweeps
    from fedjax_links import testing as testing
    from fedjax_links.algorithms import ALGORITHMS as ALGORITHMS
    from fedjax_links.clients import cohorts as cohorts
    from fedjax_links.clients import programs as client_programs  # noqa: F401
    from fedjax_links.clients import rates as learning_rates  # noqa: F401
    from fedjax_links.config import registries as choices  # noqa: F401
    from fedjax_links.config import resolver as sections  # noqa: F401
    from fedjax_links.core import prng as prng
    from fedjax_links.core import tree as tree
    from fedjax_links.experiment import Experiment as Experiment
    from fedjax_links.links import graphs as graphs
    from fedjax_links.machines import devices as devices
    from fedjax_links.participation import PARTICIPATION as PARTICIPATION
    from fedjax_links.problems import PROBLEMS as PROBLEMS
    from fedjax_links.report import cost_model as cost_model
    from fedjax_links.simulation import simulate as simulate
    from fedjax_links.sweeps import sweep as sweep
else:
    import importlib

    _SOURCES = {
        'algorithms': 'fedjax_links.algorithms',
        'analysis': 'fedjax_links.analysis',
        'base': 'fedjax_links.base',
        'evaluation': 'fedjax_links.evaluation',
        'experiment': 'fedjax_links.experiment',
        'local_training': 'fedjax_links.local_training',
        'mixing': 'fedjax_links.mixing',
        'participation': 'fedjax_links.participation',
        'plot': 'fedjax_links.plot',
        'problems': 'fedjax_links.problems',
        'report': 'fedjax_links.report',
        'runs': 'fedjax_links.runs',
        'simulation': 'fedjax_links.simulation',
        'sweeps': 'fedjax_links.sweeps',
        'testing': 'fedjax_links.testing',
        'ALGORITHMS': 'fedjax_links.algorithms:ALGORITHMS',
        'cohorts': 'fedjax_links.clients.cohorts',
        'client_programs': 'fedjax_links.clients.programs',
        'learning_rates': 'fedjax_links.clients.rates',
        'choices': 'fedjax_links.config.registries',
        'sections': 'fedjax_links.config.resolver',
        'prng': 'fedjax_links.core.prng',
        'tree': 'fedjax_links.core.tree',
        'Experiment': 'fedjax_links.experiment:Experiment',
        'graphs': 'fedjax_links.links.graphs',
        'devices': 'fedjax_links.machines.devices',
        'PARTICIPATION': 'fedjax_links.participation:PARTICIPATION',
        'PROBLEMS': 'fedjax_links.problems:PROBLEMS',
        'cost_model': 'fedjax_links.report.cost_model',
        'simulate': 'fedjax_links.simulation:simulate',
        'sweep': 'fedjax_links.sweeps:sweep',
    }
    """The module of each name and, after a colon, the attribute of it."""
    _FORMER_NAMES = {'pricing': 'cost_model'}
    """Names of version 0.1.0 that still work, and what they are called now."""
    __all__ = sorted(_SOURCES)

    def __getattr__(name: str) -> object:
        name = _FORMER_NAMES.get(name, name)
        if name not in _SOURCES:
            raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
        module_name, _, attribute = _SOURCES[name].partition(':')
        module = importlib.import_module(module_name)
        return getattr(module, attribute) if attribute else module

    def __dir__() -> list[str]:
        return [*__all__, '__all__', '__doc__', '__version__']


__version__ = '0.2.0'
