"""Federated learning over unreliable links and arbitrary participation, exactly and fast.

The names below are loaded on first use, so that command lines start without JAX.
"""

import typing

if typing.TYPE_CHECKING:
    from fedjax_links import (
        algorithms,
        analysis,
        base,
        choices,
        client_programs,
        cohorts,
        devices,
        evaluation,
        experiment,
        learning_rates,
        local_training,
        mixing,
        participation,
        plot,
        prng,
        problems,
        report,
        runs,
        sections,
        simulation,
        sweeps,
        testing,
        tree,
    )
    from fedjax_links.algorithms import ALGORITHMS
    from fedjax_links.experiment import Experiment
    from fedjax_links.participation import PARTICIPATION
    from fedjax_links.problems import PROBLEMS
    from fedjax_links.simulation import simulate
    from fedjax_links.sweeps import sweep
else:
    _HOMES = {
        'ALGORITHMS': 'algorithms',
        'Experiment': 'experiment',
        'PARTICIPATION': 'participation',
        'PROBLEMS': 'problems',
        'simulate': 'simulation',
        'sweep': 'sweeps',
    }

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
        import importlib

        if name in _HOMES:
            return getattr(importlib.import_module(f'{__name__}.{_HOMES[name]}'), name)
        return importlib.import_module(f'{__name__}.{name}')


__all__ = [
    'ALGORITHMS',
    'PARTICIPATION',
    'PROBLEMS',
    'Experiment',
    'algorithms',
    'analysis',
    'base',
    'choices',
    'client_programs',
    'cohorts',
    'devices',
    'evaluation',
    'experiment',
    'learning_rates',
    'local_training',
    'mixing',
    'participation',
    'plot',
    'prng',
    'problems',
    'report',
    'runs',
    'sections',
    'simulate',
    'simulation',
    'sweep',
    'sweeps',
    'testing',
    'tree',
]
__version__ = '0.1.0'


def __dir__() -> list[str]:
    return [*__all__, '__all__', '__doc__', '__version__']
