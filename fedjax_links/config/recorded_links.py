"""Reads recorded data: links and models of an earlier run, and logs of availability.

A relative path in a config names a file beside the config file (in `CONFIG_FOLDER`, if set). If
there is none, it names a file in the working directory, see `locate`.
"""

import contextvars
from collections.abc import Callable
from pathlib import Path

import numpy as np

from fedjax_links import runs
from fedjax_links.base import Params, Participation, Problem
from fedjax_links.core import checks, errors, paths
from fedjax_links.core.records import Section
from fedjax_links.participation import replay
from fedjax_links.participation.traces.intervals import Intervals

Reader = Callable[[Path], Intervals]

CONFIG_FOLDER: contextvars.ContextVar[Path | None] = contextvars.ContextVar(
    'config_folder', default=None
)
"""The folder whose files relative paths name: usually that of the config file."""


def locate(argument: str, path: object) -> Path:
    """Returns the file or folder that a path of a config names.

    Args:
      argument: the argument's path in the config, for errors.
      path: absolute, or relative to the config file's folder or the working directory; ``~`` is
        the home.

    Returns:
      The path beside the config file if that exists, else the path unchanged.

    Raises:
      ValueError: if ``path`` is no path, or empty.
    """
    if not isinstance(path, str | Path) or not str(path):
        raise errors.invalid(argument, 'be a path', repr(path))
    as_named = paths.as_path(path)
    in_config_folder = (CONFIG_FOLDER.get() or Path()) / as_named
    return in_config_folder if in_config_folder.exists() else as_named


def recorded(
    folder: str | Path,
    *,
    num_clients: int,
    pattern: str | None = None,
    seed: int | None = None,
) -> Participation:
    """Plays back the realised links of an earlier run.

    Round t has the participants of the run's round t, to the bit. After its last round the
    recording starts over. A forked run has recorded only the rounds from the fork on, which keep
    their numbers. For links with separate uplink, downlink and compute states, only participation
    is recorded. Links between clients are recorded, too.

    Reported probabilities are the run's if it logged them (``log: ('links',)``), and NaN otherwise.
    Algorithms that divide by probabilities need that log.

    Args:
      folder: of the run.
      num_clients: N, which must be the run's.
      pattern: label of one of its patterns; None if it has only one.
      seed: one of its seeds, by default the first. Other seeds need ``log: ('links',)`` in that
        run.

    Returns:
      The pattern; it has no carry.

    Raises:
      ValueError: if the folder holds no such links, or of another number of clients.
    """
    path = locate('folder', folder)
    links = runs.links(path)
    label = _label_of(path, list(links.masks), pattern)
    by_seed = links.masks[label]
    if seed is None:
        seed = next(iter(by_seed))
    if seed not in by_seed:
        seeds = ', '.join(map(str, by_seed))
        requirement = f'be one whose links {path} holds: {seeds}'
        raise errors.invalid('seed', requirement, seed)
    mask = by_seed[seed]
    if mask.shape[1] != num_clients:
        requirement = f'hold links of {num_clients} clients'
        raise errors.invalid('folder', requirement, f'{path} with {mask.shape[1]}')
    # A fork lacks the first rounds. Shift the recorded rounds to their own numbers.
    shift = links.first_round
    prob = links.probs.get(label, {}).get(seed)
    if prob is not None:
        prob = np.roll(prob, shift, axis=0)
    mask = np.roll(mask, shift, axis=0)
    if label not in links.edges:
        return replay(mask, prob)
    edges = np.roll(links.edges[label][seed], shift, axis=0)
    return replay(mask, prob, neighbours=links.neighbours[label][seed], edges=edges)


def _label_of(path: Path, labels: list[str], pattern: str | None) -> str:
    """Returns the label of the pattern to play back.

    Raises:
      ValueError: if the run has no pattern, or several and ``pattern`` is None.
    """
    if not labels:
        raise errors.invalid('folder', f'hold realised links ({runs.LINKS})', path)
    if pattern is None and len(labels) > 1:
        requirement = f'be one of the patterns of {path}: {", ".join(labels)}'
        raise errors.invalid('pattern', requirement, pattern)
    label = labels[0] if pattern is None else pattern
    checks.choice('pattern', label, labels)
    return label


def read_log(
    argument: str,
    reader: Reader,
    path: object,
    problem: Problem | None,
    *,
    match: str = 'names',
) -> Intervals:
    """Reads a log of availability, for the patterns ``trace`` and ``synthetic_trace``.

    Args:
      argument: where the path stands in the config, for errors.
      reader: of `participation.traces.trace_formats`, its options bound.
      path: as in `locate`.
      problem: the problem whose clients the log must have; None if any clients will do.
      match: how clients of the log and of the problem are matched: by ``'names'``, where both have
        names, or by ``'numbers'``.

    Returns:
      The intervals.

    Raises:
      ValueError: with path and reason, if the file cannot be read, is not in this format or has
        other clients.
    """
    checks.choice('match', match, ('names', 'numbers'))
    file = locate(argument, path)
    intervals = _read_intervals(argument, reader, file)
    if problem is None:
        return intervals
    if match == 'numbers':
        intervals = intervals.numbered()
    if intervals.has_names and problem.client_names:
        return _match_names(argument, intervals, file, problem)
    if len(intervals.names) != problem.num_clients:
        requirement = (
            f"have the problem's clients, `num_clients` = {problem.num_clients} (option 'clients' "
            "of 'format' takes some of a log, and its list of names also those who never came; "
            "'synthetic_trace' has as many as the problem)"
        )
        got = f'{file} with {len(intervals.names)}'
        raise errors.invalid(argument, requirement, got)
    return intervals


def _read_intervals(argument: str, reader: Reader, file: Path) -> Intervals:
    """Reads a log; errors about the log name the argument that gave the file."""
    requirement = 'name a readable log'
    try:
        file.open('rb').close()
        return reader(file)
    except OSError as error:
        reason = error.strerror or error
        raise errors.invalid(argument, requirement, f'{file}: {reason}') from None
    except errors.InvalidError as error:
        got = f'{file}: `{error.path}` {error.clause}'
        if error.path == 'path':
            names_file = str(error.value).startswith(str(file))
            got = str(error.value) if names_file else f'{file}: {error.clause}'
        raise errors.invalid(argument, requirement, got) from None


def _match_names(
    argument: str, intervals: Intervals, file: Path, problem: Problem
) -> Intervals:
    """Orders the clients of a log as in the problem, by name."""
    try:
        return intervals.select(problem.client_names, problem.named.others)
    except errors.InvalidError as error:
        got = (
            f"{file} with {error.value} ('match': 'numbers' pairs them in their order)"
        )
        raise errors.invalid(argument, error.requirement, got) from None


def read_params(where: str, section: Section | str) -> Params:
    """Reads the parameters that a config's runs begin with.

    Args:
      where: the section's path in the config, for errors.
      section: ``folder`` of `runs.model`, and its further options; or a folder alone.

    Returns:
      The parameters, as `runs.model` returns them.

    Raises:
      ValueError: naming the option.
    """
    options = {'folder': section} if isinstance(section, str) else dict(section)
    for option in options:
        checks.choice(where, option, ('folder', 'lane', 'name', 'at_round'))
    path = locate(f'{where}.folder', options.pop('folder', None))
    with errors.context(where):
        return runs.model(path, **options)
