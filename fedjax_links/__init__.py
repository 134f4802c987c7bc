"""Federated learning over unreliable links and arbitrary participation, exactly and fast.

The names below are loaded on first use, so that command lines start without JAX.
"""

import typing

if typing.TYPE_CHECKING:
    from fedjax_links import (
        algorithms,
        analysis,
        base,
        evaluation,
        experiment,
        local_training,
        mixing,
        participation,
        plot,
        problems,
        report,
        runs,
        simulation,
        sweeps,
        testing,
    )
    from fedjax_links.algorithms import ALGORITHMS
    from fedjax_links.clients import cohorts
    from fedjax_links.clients import programs as client_programs
    from fedjax_links.clients import rates as learning_rates
    from fedjax_links.config import choices, sections
    from fedjax_links.core import prng, tree
    from fedjax_links.experiment import Experiment
    from fedjax_links.machines import devices
    from fedjax_links.participation import PARTICIPATION
    from fedjax_links.problems import PROBLEMS
    from fedjax_links.report import pricing
    from fedjax_links.simulation import simulate
    from fedjax_links.sweeps import sweep
else:
    _HOMES = {
        'ALGORITHMS': 'algorithms:ALGORITHMS',
        'Experiment': 'experiment:Experiment',
        'PARTICIPATION': 'participation:PARTICIPATION',
        'PROBLEMS': 'problems:PROBLEMS',
        'choices': 'config.choices',
        'client_programs': 'clients.programs',
        'cohorts': 'clients.cohorts',
        'devices': 'machines.devices',
        'learning_rates': 'clients.rates',
        'pricing': 'report.pricing',
        'prng': 'core.prng',
        'sections': 'config.sections',
        'simulate': 'simulation:simulate',
        'sweep': 'sweeps:sweep',
        'tree': 'core.tree',
    }

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
        import importlib

        module, _, inside = _HOMES.get(name, name).partition(':')
        found = importlib.import_module(f'{__name__}.{module}')
        return getattr(found, inside) if inside else found


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
    'pricing',
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
