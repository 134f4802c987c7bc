"""Tries a run before it starts: whether it can run, and whether it fits into memory."""

import json
import warnings
from pathlib import Path
from typing import Any

import jax

from fedjax_links import runs
from fedjax_links.core import errors, memory
from fedjax_links.planning import validation
from fedjax_links.planning.lanes import Lane
from fedjax_links.planning.plan import Plan
from fedjax_links.runner import hooks
from fedjax_links.runner.compilation import lane_bytes
from fedjax_links.runner.identity import Identities
from fedjax_links.runner.lane_batch import LaneBatch
from fedjax_links.runner.program_cache import Programs
from fedjax_links.runner.realised_links import first_active
from fedjax_links.storage import descriptions

_MAX_MASK_ENTRIES = 2**27
"""Clients times rounds of a period; above, it is not checked whether clients take part."""


def check(plan: Plan, programs: Programs | None = None) -> None:
    """Traces a period of every program abstractly, and refuses what cannot fit, in seconds.

    Args:
      plan: of an experiment.
      programs: the programs of the plan, if they exist already. A run that compiles them
        afterwards does not trace them again.

    Raises:
      ValueError: if the config names a round after the last one, or an algorithm needs more memory
        than there is. Also if nobody takes part in the whole run under a pattern. An error from
        code of the user has a note that names algorithm and pattern.
    """
    validation.check_rounds(plan)
    programs = programs or Programs(plan)
    sizes: list[tuple[int, str]] = []
    for label in plan.algorithms:
        for lane in programs.one_of_each(plan.lanes_at_first(label)):
            _check_traces(programs, lane)
            sizes.append((lane_bytes(plan, lane), label))
    largest, label = max(sizes, default=(0, ''))
    memory.refuse_if_above(memory.available_bytes(), largest, label)
    for label in plan.patterns:
        _check_takes_part(programs, label)


def check_folder(
    programs: Programs,
    folder: Path,
    initial_states: hooks.InitialStates | None = None,
    *,
    allow_changed: bool = False,
    compare_programs: bool = False,
) -> None:
    """Raises for a folder of another experiment, before anything is described or compiled.

    Programs and data are compared here only if the config differs or ``compare_programs`` is set. A
    run always compares them later, once it has locked the folder. A dry run takes no lock, so it
    sets ``compare_programs``.

    Args:
      programs: the programs of the plan.
      folder: where the plan is to run.
      initial_states: as in `loop.run`.
      allow_changed: as in `loop.run`.
      compare_programs: whether to compare programs and data even under the same config.

    Raises:
      ValueError: naming what differs.
    """
    stored = descriptions.read_description(folder)
    if stored is None:
        return
    plan = programs.plan
    facts = recorded_facts(programs, initial_states or hooks.InitialStates())
    config, plain_facts = json.loads(json.dumps([plan.config, facts]))
    identity = None
    needs_identity = compare_programs or stored.config != config
    if needs_identity and not allow_changed:
        with plan.precision():
            identity = Identities(plan).run_identity()
    descriptions.check_same(
        'workdir',
        folder,
        stored,
        descriptions.Description(plain_facts, config, identity),
        may_grow=True,
        # Without an identity there is nothing to compare: programs and data pass.
        allow_changed=identity is None,
    )


def recorded_facts(
    programs: Programs, initial_states: hooks.InitialStates
) -> dict[str, Any]:
    """Returns what a run records of its experiment."""
    facts = {**programs.plan.facts(), **initial_states.facts}
    if programs.slots[0].is_mesh:
        facts[runs.ON_A_MESH] = True
    return facts


def _check_traces(programs: Programs, lane: Lane) -> None:
    """Traces a period of a lane, and names its algorithm or pattern in errors."""
    where = f'config.algorithms.{lane.algorithm}'
    paths = {'algorithm': where, 'participation': f'config.patterns.{lane.pattern}'}
    try:
        batch = LaneBatch(programs, [lane])
        jax.eval_shape(batch.program.advance, *batch.advance_args())
    except errors.InvalidError as error:
        argument, dot, part = error.path.partition('.')
        if argument in paths:
            raise error.at(f'{paths[argument]}{dot}{part}') from error
        raise error.under(where) from error
    except Exception as error:
        # JAX or this package failed on what code of the user made, such as a wrong shape. The
        # traceback does not lead to the user's code, so the error says where it was used.
        if errors.innermost_user_frame(error) is None and _has_users_parts(
            programs.plan, lane
        ):
            requirement = f'run on pattern {lane.pattern}'
            raise errors.invalid(where, requirement, errors.describe(error)) from error
        error.add_note(f'{where} on pattern {lane.pattern}')
        raise


def _has_users_parts(plan: Plan, lane: Lane) -> bool:
    """Returns whether functions of a lane's algorithm or problem are code of the user."""
    algorithm = plan.algorithm_at(lane.algorithm, lane.point)
    problem = plan.problem_of(lane)
    functions = (*algorithm, problem.loss_fn, problem.init_params)
    return any(errors.is_users(function) for function in functions)


def _check_takes_part(programs: Programs, label: str) -> None:
    """Raises if nobody takes part in the whole run; warns if nobody does in the first period.

    Patterns with a mask too large to draw are not checked.
    """
    plan = programs.plan
    num_clients = plan.pattern_at(label, plan.points[0]).num_clients
    if num_clients * plan.eval_every > _MAX_MASK_ENTRIES:
        return
    cure = "with `origin='first'` round 0 is the first time of a log"
    first = first_active(programs, label)
    if first is None:
        requirement = f'have clients that take part ({cure})'
        got = f'nobody in {plan.num_rounds:,} rounds'
        raise errors.invalid(f'patterns.{label}', requirement, got)
    if first >= plan.eval_every:
        warnings.warn(
            f'nobody takes part in the first {first:,} rounds under {label}; {cure}',
            stacklevel=3,
        )
