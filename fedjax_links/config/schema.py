"""The top level of a config, which is checked before anything slow is imported."""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fedjax_links.core import checks, errors

FIELDS: Mapping[str, Any] = {
    **dict.fromkeys(
        ('title', 'grid_mode', 'metric', 'direction', 'baseline', 'caption'), str
    ),
    'matmul_precision': str,
    **dict.fromkeys(('num_rounds', 'eval_every', 'num_seeds', 'first_seed'), int),
    **dict.fromkeys(
        ('problem', 'problems', 'patterns', 'algorithms', 'client'), Mapping
    ),
    **dict.fromkeys(('grid', 'tuning', 'seeds', 'reports'), Mapping),
    **dict.fromkeys(('links', 'redraw', 'eval_fn', 'initial_params'), Mapping | str),
    **dict.fromkeys(('names', 'log'), list | tuple),
    'evaluate_start': bool,
}
"""Names and kinds of all fields of the config of an experiment."""

REQUIRED = 'title', 'problem', 'algorithms', 'num_rounds', 'eval_every'
"""Those that every config has."""
_SECTIONS = {
    'client': ('learning_rate', 'local_steps', 'batch_size', 'decay', 'optimizer'),
    'problem': ('num_clients', 'alpha', 'model', 'dataset', 'partition'),
    'links': ('probs', 'schedule'),
    'tuning': ('learning_rates', 'server_lrs'),
}
"""Options that stand in sections, and are looked for at the top."""


def paths(fields: Iterable[str]) -> dict[str, str]:
    """The paths of fields and of well-known options in sections, by their last names.

    Args:
      fields: of the top level.
    """
    found = {field: field for field in fields}
    for section, options in _SECTIONS.items():
        found |= {option: f'{section}.{option}' for option in options}
    return found


def check(
    config: Mapping[str, Any], fields: Mapping[str, Any], required: Sequence[str]
) -> None:
    """Checks names and types of the top level of a config.

    Args:
      config: nested dictionaries.
      fields: the types of fields that it may have.
      required: those that it must have.

    Raises:
      ValueError: naming the field, its value and the nearest valid name.
    """
    for name, value in config.items():
        if name not in fields:
            known = paths(fields) if fields is FIELDS else dict.fromkeys(fields)
            near = difflib.get_close_matches(str(name), known, n=1, cutoff=0.5)
            raise errors.unknown_name(
                'config', name, fields, near=known[near[0]] if near else None
            )
        kind = fields[name]
        if not isinstance(value, kind) or (
            isinstance(value, bool) and kind is not bool
        ):
            raise errors.invalid(
                f'config.{name}', f'be {checks.words(kind)}', errors.text_of(value)
            )
    for name in required:
        if name not in config:
            raise errors.invalid('config', f'have {name!r}', f'only {sorted(config)}')
