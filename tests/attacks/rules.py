"""What no accepted config may hold: rules written down without the package's own checks."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_TOP = {
    *(
        'title',
        'problem',
        'problems',
        'patterns',
        'links',
        'algorithms',
        'client',
        'grid',
    ),
    *(
        'grid_mode',
        'num_rounds',
        'eval_every',
        'num_seeds',
        'first_seed',
        'tuning',
        'eval_fn',
    ),
    *('metric', 'direction', 'baseline', 'names', 'reports', 'caption', 'log', 'quick'),
    *('redraw', 'evaluate_start'),
}
_COUNTS = {  # at least one
    *(
        'num_rounds',
        'eval_every',
        'num_seeds',
        'min_examples',
        'num_clients',
        'cohort_size',
        'local_steps',
    ),
    *(
        'period',
        'cutoff',
        'budget',
        'active_rounds',
        'num_groups',
        'size',
        'columns',
        'count',
    ),
    *(
        'dimension',
        'examples_per_client',
        'max_examples',
        'num_train',
        'num_test',
        'num_classes',
    ),
    *('shards_per_client', 'chunk_size', 'kernel_size', 'every', 'buffer_size'),
}
_FROM_ZERO = {
    'first_seed',
    'batch_size',
    'separation',
    'start_round',
    'seed',
    'from_round',
} | {
    *('rounds', 'start', 'stop', 'times', 'cycle_length'),
}
_POSITIVE = {
    'learning_rate',
    'server_lr',
    'amplification',
    'initial',
    'innovation_clip',
    'tick',
}
_SHARES = {
    'up_rate',
    'beta',
    'tail',
    'smoothing',
    'minimum',
    'trough',
    'similarity',
    'share',
} | {
    *('first', 'second', 'difficulty', 'momentum', 'stale_weight'),
}
_TEXT = {
    'title',
    'caption',
    'metric',
    'direction',
    'baseline',
    'grid_mode',
    'rule',
    'design',
} | {
    *('compute', 'memory', 'dataset', 'normalise', 'lines', 'band', 'order', 'match'),
    'resample',
}
_FLAGS = {'reset', 'nesterov', 'log', 'log_rounds', 'all_models', 'kaiming'}
_MAY_BE_NONE = {  # fields whose default is None, which says "as usual"
    *(
        'batch_size',
        'chunk_size',
        'client_steps',
        'optimizer',
        'normalise',
        'innovation_clip',
    ),
    *(
        'max_examples',
        'metric',
        'count',
        'every',
        'groups',
        'weights',
        'clients',
        'wrap',
        'data',
    ),
    *(
        'initial_point',
        'table_dtype',
        'downlink',
        'compute',
        'published',
        'momentum',
        'prob',
    ),
    *(
        'mu_dtype',
        'mask',
        'pattern',
        'accumulator_dtype',
        'cache_dir',
        'data_dir',
        'levels',
    ),
    'server_lr',  # of FOCUS: its local rate
}
_OPTIONS = (
    _COUNTS
    | _FROM_ZERO
    | _POSITIVE
    | _SHARES
    | _TEXT
    | _FLAGS
    | _MAY_BE_NONE
    | {
        *(
            'name',
            'probs',
            'schedule',
            'client',
            'decay',
            'optimizer',
            'server_optimizer',
            'mu',
        ),
        *(
            'gamma',
            'width',
            'alpha',
            'beta',
            'sigma',
            'mean',
            'model',
            'partition',
            'targets',
        ),
        *(
            'value',
            'values',
            'exponent',
            'separation',
            'uplink',
            'patterns',
            'at_rounds',
        ),
        *(
            'intervals',
            'local_epochs',
            'initial_rate',
            'initial_params',
            'origin',
            'utc_offset',
        ),
        *(
            'hidden',
            'channels',
            'shape',
            'augment',
            'metrics',
            'shares',
            'learning_rates',
            'wrap',
        ),
        *(
            'server_lrs',
            'grid',
            'grow',
            'most_seeds',
            'ties',
            'b1',
            'b2',
            'eps',
            'eps_root',
            'weight_decay',
        ),
        *(
            'rounds_per_day',
            'up_hours',
            'phase',
            'peak',
            'dropout_rate',
            'overlaps',
            'shapes',
            'initial_scale',
        ),
        *('initial_accumulator_value', 'max_deviation', 'models', 'deviations'),
        *('above', 'x', 'y', 'bayes_accuracy', 'test_examples', 'test'),
        *(
            'label_noise',
            'rate',
            'path',
            'format',
            'unit',
            'clients',
            'overlaps',
            'match',
            'last',
        ),
        *('holdout_clients', 'holdout_examples', 'encode', 'up', 'down'),
        *('data_seed', 'partition_seed', 'heterogeneity', 'shift', 'redraw'),
    }
)
_LARGEST = 2**32
_MOST_ROUNDS = 10**12


def nonsense(config: Mapping[str, Any], num_clients: int) -> list[str]:
    """What is wrong with a config that was accepted.

    Args:
      config: plain values.
      num_clients: N of its problem.

    Returns:
      One line per fault; none if it may run.
    """
    found = [f'{key!r} is no field' for key in config if key not in _TOP]
    for path, value in _leaves(config):
        found += [
            f'{".".join(map(str, path))} = {value!r} {fault}'
            for fault in _fault(path, value)
        ]
    for field, section in config.items():
        found += [
            f'{field}: {key!r} is no option' for key in _strangers(field, section)
        ]
    return [*found, *_labels(config), *_relations(config, num_clients)]


def _strangers(field: str, section: Any, depth: int = 0) -> Iterator[Any]:
    """Keys that are neither options nor labels."""
    labelled = {'patterns': 1, 'algorithms': 1, 'problems': 1, 'reports': 1}.get(
        field, 0
    )
    if isinstance(section, Mapping) and field not in ('grid', 'quick'):
        for key, value in section.items():
            by_pattern = depth > 0 and field == 'learning_rate'
            if depth >= labelled and key not in _OPTIONS and not by_pattern:
                yield key
            yield from _strangers(field, value, depth + 1)
    elif isinstance(section, list | tuple):
        for part in section:
            yield from _strangers(field, part, depth)


def _leaves(
    value: Any, path: tuple[Any, ...] = ()
) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _leaves(part, (*path, key))
    elif isinstance(value, list | tuple):
        for place, part in enumerate(value):
            yield from _leaves(part, (*path, place))
    else:
        yield path, value


def _fault(path: tuple[Any, ...], value: Any) -> Iterator[str]:
    if path[0] == 'quick':
        return  # this size is not run
    words = [key for key in path if isinstance(key, str)]
    name = words[-1] if words else ''
    if any(not isinstance(key, str | int) or key == '' for key in path):
        yield 'stands under a name that is none'
    if isinstance(value, float) and not math.isfinite(value) and name != 'prob':
        yield 'is not finite'
    if not isinstance(value, bool | int | float | str | None):
        yield 'is no plain value'
    if value is None:
        if name not in _MAY_BE_NONE:
            yield 'is nothing'
        return
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if name in _COUNTS | _FROM_ZERO and not (name == 'period' and 'schedule' in words):
        least = name in _COUNTS
        if not number or isinstance(value, float):
            yield 'is no whole number'
        elif not least <= value <= _LARGEST:
            yield 'is out of range'
    positive = name in _POSITIVE or (name == 'period' and 'schedule' in words)
    if positive and not (number and value > 0):
        yield 'is no positive number'
    is_label = path[0] == 'reports' and len(path) == 2
    is_spread = (path[0], name) == ('problem', 'beta')  # of synthetic data
    share = name in _SHARES and not is_label and not is_spread
    if share and isinstance(value, str | bool):
        yield 'is no number'
    if share and number and 'server_optimizer' not in words and not 0 <= value <= 1:
        yield 'is no share'
    probability = name in ('value', 'values') and 'probs' in words
    if (probability and not number) or (
        (probability or name == 'probs') and number and not 0 <= value <= 1
    ):
        yield 'is no probability'
    if name == 'gamma' and not (number and 0 <= value <= 0.5):
        yield 'leaves [0, 1]'
    if name in _TEXT and len(path) < 4 and not isinstance(value, str | Mapping):
        yield 'is no text'
    if name in _FLAGS and isinstance(path[-1], str) and not isinstance(value, bool):
        yield 'is neither True nor False'


def _labels(config: Mapping[str, Any]) -> Iterator[str]:
    for field in ('patterns', 'algorithms', 'reports'):
        labels = list(config.get(field) or ())
        for label in labels:
            if (
                not isinstance(label, str)
                or not label.strip()
                or label != label.strip()
            ):
                yield f'{field}: {label!r} is no label'
            elif (
                any(c in label for c in '/\\\0\n')
                or '..' in label
                or label.startswith('.')
            ):
                yield f'{field}: {label!r} is no file name'
        if len({str(label).casefold() for label in labels}) < len(labels):
            yield f'{field}: labels overwrite each other'
    if not (config.get('patterns') or config.get('links')) or not config.get(
        'algorithms'
    ):
        yield 'nothing to run'
    if any(str(label).casefold() == 'links' for label in config.get('reports') or ()):
        yield 'a report overwrites the links'
    for field in ('grid', 'tuning'):
        if field in config and not config[field]:
            yield f'{field} is empty'


def _relations(config: Mapping[str, Any], num_clients: int) -> Iterator[str]:
    rounds, seeds = config['num_rounds'], config.get('num_seeds', 1)
    if rounds % config['eval_every']:
        yield 'evaluations do not divide the rounds'
    if config.get('first_seed', 0) + seeds > 2**32:
        yield 'seeds beyond 32 bits'
    if rounds * seeds * len(config['algorithms']) > _MOST_ROUNDS:
        yield 'more rounds than anyone can wait for'
    for label, section in config['algorithms'].items():
        if isinstance(section, Mapping) and section.get('period', 0) > rounds:
            yield f'{label} has a period longer than the run'
    for path, value in _leaves(
        {key: config.get(key, {}) for key in ('patterns', 'links')}
    ):
        if (
            path[-1] in ('cohort_size', 'size')
            and isinstance(value, int)
            and value > num_clients
        ):
            yield f'{path} is a cohort larger than the federation'
        if path[-1] == 'start' and value >= rounds:
            yield f'{path} is an outage after the run'
    tuning = config.get('tuning') or {}
    if tuning and tuning.get('num_rounds', 0) > rounds:
        yield 'tuning is longer than the run'
    if tuning and tuning.get('pattern') not in (
        *(config.get('patterns') or ('links',)),
        None,
    ):
        yield 'tuning on a pattern that is not there'
    if config.get('baseline') not in (*config['algorithms'], None):
        yield 'a baseline that does not run'
    known = {*config['algorithms'], *(config.get('patterns') or ('links',))}
    for pair in config.get('names') or ():
        if not isinstance(pair, Sequence) or len(pair) != 2 or pair[0] not in known:
            yield f'{pair!r} names nothing'
        elif not isinstance(pair[1], str):
            yield f'{pair!r} is no pair of texts'
