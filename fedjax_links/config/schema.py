"""Declares each field of a config once; all other code reads the declaration here.

`ExperimentConfig` declares the fields of an experiment, with their type, default, meaning, example
and check. Fields that are also plain values of an `Experiment` are inherited from `Settings`. A new
field is one declaration. `read` refuses what the schema does not allow, before anything slow is
imported. The sections ``client``, ``tuning`` and ``seeds`` each have the options of the Python call
that they stand for. Further options of these sections are in `ClientSection`, `TuningSection` and
`SeedsSection`.
"""

import dataclasses
import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fedjax_links.config import plain_values
from fedjax_links.core import checks, errors, fields, type_hints
from fedjax_links.core.fields import Declaration, declare
from fedjax_links.core.records import Section

NUM_SEEDS = 2**32
"""Number of distinct seeds, which are uint32."""

_WELL_KNOWN = {
    'client': ('learning_rate', 'local_steps', 'batch_size', 'decay', 'optimizer'),
    'problem': ('num_clients', 'alpha', 'model', 'dataset', 'partition'),
    'links': ('probs', 'schedule'),
    'tuning': ('learning_rates', 'server_lrs'),
}
"""Options of sections that users look for at the top level; errors hint at their sections."""


def _check_names(argument: str, value: Sequence[object]) -> None:
    """Raises unless a list holds pairs of a label and the name to show."""
    if not isinstance(value, list | tuple):
        raise errors.invalid(argument, 'be pairs (label, name)', errors.text_of(value))
    for pair in value:
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise errors.invalid(
                argument, 'be pairs (label, name)', errors.text_of(pair)
            )
        shown = pair[1]
        if not isinstance(shown, str) or not shown.strip():
            raise errors.invalid(argument, 'show texts', errors.text_of(shown))
        checks.text(argument, shown)


def _check_reports(argument: str, value: Mapping[str, Any]) -> None:
    """Raises unless each page is a section or the name of a layout."""
    if not isinstance(value, Mapping):
        raise errors.invalid(argument, 'be sections by name', errors.text_of(value))
    for page, section in value.items():
        if not isinstance(section, str | Mapping):
            requirement = 'be a section or the name of a layout'
            raise errors.invalid(
                f'{argument}.{page}', requirement, errors.text_of(section)
            )


@fields.documented
@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """Holds the plain values that a config and an `Experiment` have in common."""

    title: str = declare(
        'One line for tables and pictures.',
        example='Two algorithms, two rates',
        check=checks.text,
    )
    num_rounds: int = declare(
        'Rounds of every lane.', example=40, check=fields.integer()
    )
    eval_every: int = declare(
        'Rounds between evaluations, a divisor of ``num_rounds``. Lanes advance in periods of '
        'this length.',
        example=20,
        check=fields.integer(),
    )
    grid_mode: str = declare(
        "``'cross'`` runs all combinations of the grid, ``'together'`` one point per row.",
        example='cross',
        default='cross',
        check=fields.one_of('cross', 'together'),
    )
    evaluate_start: bool = declare(
        'Whether models are evaluated before the first round too, as round 0.',
        example=True,
        default=False,
    )
    matmul_precision: str | None = declare(
        "Precision of matrix products and convolutions in float32: ``'default'``, ``'high'`` or "
        "``'highest'`` as in `jax.default_matmul_precision`. It matters on GPUs and TPUs, where "
        'the default is below float32. None: as JAX is set.',
        example='highest',
        default=None,
        check=fields.one_of('default', 'high', 'highest'),
    )
    metric: str | None = declare(
        'The metric of tables and tuning. By default the first for which larger is better, or '
        'else the first.',
        example='eval_accuracy',
        default=None,
    )
    direction: str | None = declare(
        "``'max'`` or ``'min'``, if the problem does not state the metric's.",
        example='max',
        default=None,
        check=fields.one_of('max', 'min'),
    )
    baseline: str | None = declare(
        'Label of the algorithm that others are compared with: ``fedavg`` by default, or the '
        'first.',
        example='fedpbc',
        default=None,
    )
    names: Sequence[tuple[str, str]] = declare(
        'Pairs (label, name to show) of patterns and algorithms, in the order to show them. Names '
        'of patterns differ from each other, and so do those of algorithms.',
        example=[('fedavg', 'FedAvg'), ('fedpbc', 'FedPBC')],
        default=(),
        check=_check_names,
    )
    reports: Mapping[str, Any] = declare(
        'Sections of layouts by file name, see `report.layouts`.',
        example={
            'differences': {'name': 'comparison', 'tail': 0.2},
            'course': {'name': 'curves'},
        },
        default={},
        check=_check_reports,
    )
    caption: str = declare(
        'What a reader of the report must know: what was reported elsewhere, and every deviation '
        'from it. In a config ``{config.num_rounds}`` stands for the value of that field as it '
        'runs.',
        example='At {config.num_rounds} rounds; the paper has 2,000.',
        default='',
        check=checks.text,
    )
    log: Sequence[str] = declare(
        "What to keep besides ``metrics.jsonl``: ``'links'`` for the realised links of every "
        'seed, ``module:factory`` as in `hooks`.',
        example=['links'],
        default=(),
    )


@fields.documented
@dataclasses.dataclass(frozen=True, kw_only=True)
class ExperimentConfig(Settings):
    """Holds the fields of an experiment's config, as plain values."""

    problem: Section = declare(
        'The data and the loss: a section whose name is a problem, with its options.',
        example={'name': 'digits', 'num_clients': 10, 'alpha': 0.3},
    )
    problems: Mapping[str, Section] = declare(
        'Fields of the problem that differ, by label of the pattern.',
        example={'links': {'alpha': 0.1}},
        default={},
    )
    initial_params: Section | str | None = declare(
        "Parameters that every run starts from, in place of the model's own draw: the path of a "
        'run folder or of an npz, or a section. The section has ``folder``, ``lane`` (labels that '
        'identify one lane), ``name`` (``server`` or ``client_mean``) and ``at_round``.',
        example='pretrained.npz',
        default=None,
    )
    links: Section | str | None = declare(
        'The pattern, where there is one: a name or a section. Either this or ``patterns``.',
        example={'name': 'bernoulli', 'probs': 0.5},
        default=None,
    )
    patterns: Mapping[str, Section | str] | None = declare(
        'The patterns: one section for each, under its label.',
        example={
            'steady': {'name': 'bernoulli', 'probs': 0.5},
            'sticky': {'name': 'markov', 'probs': 0.5, 'up_rate': 0.05},
        },
        default=None,
    )
    algorithms: Mapping[str, Section] = declare(
        'The algorithms: one section for each, under its label. The label is the name unless the '
        "section has one; ``client`` in it overrides the client's fields.",
        example={'fedavg': {}, 'fedpbc': {}},
    )
    client: Section = declare(
        "What clients do: the program's ``name`` and options, with ``decay`` the schedule of the "
        'rate, and ``batch_size`` 0 for the full local data.',
        example={'learning_rate': 0.1, 'local_steps': 5, 'batch_size': 16},
        default={},
    )
    num_seeds: int = declare(
        'How many seeds.', example=5, default=1, check=fields.integer()
    )
    first_seed: int = declare(
        'The first of the seeds; the others follow.', example=100, default=0
    )
    seeds: Section | None = declare(
        'In place of ``num_seeds``: until every difference is decided.',
        example={'until': 'decided', 'least': 5, 'most': 20},
        default=None,
    )
    redraw: Mapping[str, str] | str | None = declare(
        '``by_seed`` or ``fixed``, by stream of draws or one for all. By default a stream is '
        'redrawn by seed unless a section or the grid gives it a seed.',
        example={'partition': 'by_seed', 'init': 'fixed'},
        default=None,
    )
    grid: Section = declare(
        'What is swept: nested like the config, lists of values at its leaves.',
        example={
            'client': {'learning_rate': [0.05, 0.1]},
            'problem': {'alpha': [0.1, 1.0]},
        },
        default={},
    )
    tuning: Section | None = declare(
        'How rates, or a nested ``grid`` of other fields, are found before the experiment.',
        example={'learning_rates': [0.05, 0.1], 'num_seeds': 3},
        default=None,
    )
    eval_fn: Section | str | None = declare(
        'What is measured of a model, a name or a section; ``mine:make`` is a function that '
        'returns ``(params, key, problem) -> {name: number}``.',
        example='train_and_eval',
        default=None,
    )

    def __post_init__(self) -> None:
        """Checks each field alone; `Experiment` checks that fields fit together."""
        fields.check_values(self, 'config.')
        last = NUM_SEEDS - self.num_seeds
        checks.static_int('config.first_seed', self.first_seed, minimum=0, maximum=last)


EXPERIMENT: Mapping[str, Declaration] = fields.declared(ExperimentConfig)
"""The fields of an experiment's config, by name."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClientSection:
    """Holds the options of ``client`` that a client program in Python does not have."""

    name: str = declare(
        'See :doc:`names/client_programs`, and their options.',
        example='local_sgd',
        default='local_sgd',
    )
    decay: str | Section = declare(
        'See :doc:`names/learning_rates`.',
        example={'name': 'inverse_sqrt'},
        default='constant',
    )
    optimizer: str | Section | None = declare(
        'None for SGD; see :doc:`names/optimizers`.',
        example={'name': 'sgd', 'momentum': 0.9},
        default=None,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class TuningSection:
    """Holds the options of ``tuning`` that `Tuning` does not have."""

    learning_rates: Sequence[float] = declare(
        'Rates of clients to try.', example=[0.05, 0.1], default=()
    )
    server_lrs: Sequence[float] = declare(
        'Rates of the server to try, for algorithms that have one.',
        example=[0.5, 1.0],
        default=(),
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class SeedsSection:
    """Holds the options of ``seeds`` that `UntilDecided` does not have."""

    until: str = declare(
        "``'decided'``: each difference to the baseline has a verdict.",
        example='decided',
        check=fields.one_of('decided'),
    )

    def __post_init__(self) -> None:
        """Checks the options."""
        fields.check_values(self, 'config.seeds.')


CLIENT = fields.declared(ClientSection)
TUNING = fields.declared(TuningSection)
SEEDS = fields.declared(SeedsSection)


def paths(names: Iterable[str]) -> dict[str, str]:
    """Lists the paths of fields and of well-known options in sections, by their last names.

    Args:
      names: of fields at the top level.
    """
    by_name = {name: name for name in names}
    for section, options in _WELL_KNOWN.items():
        for option in options:
            by_name[option] = f'{section}.{option}'
    return by_name


def check(config: Section, schema: Mapping[str, Declaration]) -> None:
    """Raises for a field of a config that its schema does not have, or of another type.

    Args:
      config: nested dictionaries.
      schema: the fields that the config may have.

    Raises:
      ValueError: naming the field, its value and the nearest valid name.
    """
    for name, value in config.items():
        if name not in schema:
            known = paths(schema) if schema is EXPERIMENT else dict.fromkeys(schema)
            near = difflib.get_close_matches(str(name), known, n=1, cutoff=0.5)
            meant = known[near[0]] if near else None
            raise errors.unknown_name('config', name, schema, near=meant)
        declaration = schema[name]
        if not declaration.accepts(value):
            requirement = f'be {type_hints.describe_annotation(declaration.kind)}'
            number = f'num_{name}'
            if isinstance(value, int | list | tuple) and number in schema:
                requirement += f', or else `config.{number}`'
            raise errors.invalid(f'config.{name}', requirement, errors.text_of(value))


def check_required(config: Section, schema: Mapping[str, Declaration]) -> None:
    """Raises for a field without a default that a config does not have."""
    missing = [
        name
        for name, declaration in schema.items()
        if declaration.default is fields.REQUIRED and name not in config
    ]
    if not missing:
        return
    # A config's problem says best what the config is for.
    name = 'problem' if 'problem' in missing else missing[0]
    raise errors.invalid('config', f'have {name!r}', f'only {sorted(config)}')


def read(config: Section) -> ExperimentConfig:
    """Reads the config of an experiment.

    Args:
      config: nested dictionaries of plain values.

    Returns:
      The fields, each checked by itself.

    Raises:
      ValueError: naming the field, its value and the nearest valid name.
    """
    if not isinstance(config, Mapping):
        requirement = 'be a dictionary or a ConfigDict'
        raise errors.invalid('config', requirement, errors.text_of(config))
    check(config, EXPERIMENT)
    check_required(config, EXPERIMENT)
    plain_values.check('config', config)
    settings = ExperimentConfig(**config)
    _check_alternatives(config)
    return settings


def _check_alternatives(config: Section) -> None:
    """Raises for two fields of which a config may have only one, or must have one."""
    if ('links' in config) == ('patterns' in config):
        requirement = "have either 'links' or 'patterns'"
        raise errors.invalid('config', requirement, sorted(config))
    if 'seeds' in config and 'num_seeds' in config:
        requirement = 'be left out, or else `config.num_seeds`'
        raise errors.invalid('config.seeds', requirement, config['seeds'])
    rates = config.get('tuning', {}).get('learning_rates')
    rate = config.get('client', {}).get('learning_rate')
    if isinstance(rates, list | tuple) and rate is not None:
        requirement = 'be left out, or else `config.client.learning_rate`'
        value = f'{errors.text_of(list(rates))} beside {errors.text_of(rate)}'
        raise errors.invalid('config.tuning.learning_rates', requirement, value)
