"""What no accepted config may hold: rules written down without the package's own checks."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Path = tuple[Any, ...]
"""Keys and positions that lead to a value."""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_TOP = _names("""
    title problem problems patterns links algorithms client grid grid_mode num_rounds
    eval_every num_seeds first_seed tuning eval_fn metric direction baseline names
    reports caption log quick redraw evaluate_start
""")
_COUNTS = _names("""
    num_rounds eval_every num_seeds min_examples num_clients cohort_size local_steps
    period cutoff budget active_rounds num_groups size columns count dimension
    examples_per_client max_examples num_train num_test num_classes shards_per_client
    chunk_size kernel_size every buffer_size min_steps classes_per_client
""")
"""Whole numbers of at least one."""
_FROM_ZERO = _names("""
    first_seed batch_size separation start_round seed from_round rounds start stop times
    cycle_length
""")
_POSITIVE = _names("""
    learning_rate server_lr amplification initial innovation_clip tick
""")
_FRACTIONS = _names("""
    up_rate beta tail smoothing minimum trough similarity share first second difficulty
    momentum stale_weight loss_memory
""")
_TEXT = _names("""
    title caption metric direction baseline grid_mode rule design compute memory dataset
    normalise lines band order match resample
""")
_FLAGS = _names('reset nesterov log log_rounds all_models kaiming')
_MAY_BE_NONE = _names("""
    batch_size chunk_size client_steps min_steps optimizer normalise innovation_clip max_examples
    metric count every groups weights clients wrap data initial_point table_dtype
    downlink compute published momentum prob mu_dtype mask pattern accumulator_dtype
    cache_dir data_dir levels server_lr correlations
""")
"""Fields whose default is None: "as usual". FOCUS's server rate is its local rate."""
_OTHER_OPTIONS = _names("""
    name probs schedule client decay optimizer server_optimizer mu gamma width alpha beta
    sigma mean model partition targets value values exponent separation uplink patterns
    at_rounds intervals local_epochs initial_rate initial_params origin utc_offset hidden
    channels shape augment metrics shares learning_rates wrap server_lrs grid grow
    most_seeds ties b1 b2 eps eps_root weight_decay rounds_per_day up_hours phase peak
    dropout_rate overlaps shapes initial_scale initial_accumulator_value max_deviation
    models deviations above x y bayes_accuracy test_examples test label_noise rate path
    format unit clients last holdout_clients holdout_examples encode up down data_seed
    partition_seed heterogeneity shift redraw stale_decay stale_patience late_decay
    late_patience bias_weight optimal_losses tolerance
""")
_OPTIONS = _OTHER_OPTIONS.union(
    _COUNTS, _FROM_ZERO, _POSITIVE, _FRACTIONS, _TEXT, _FLAGS, _MAY_BE_NONE
)
_LABELLED = ('patterns', 'algorithms', 'problems', 'reports')
"""Fields whose keys are labels."""
_LARGEST = 2**32
_MOST_ROUNDS = 10**12


def nonsense(config: Mapping[str, Any], num_clients: int) -> list[str]:
    """Returns what is wrong with a config that was accepted.

    Args:
      config: plain values.
      num_clients: N of its problem.

    Returns:
      One line per fault; none if it may run.
    """
    faults = [f'{key!r} is no field' for key in config if key not in _TOP]
    for path, value in _leaves(config):
        where = '.'.join(map(str, path))
        faults += [
            f'{where} = {value!r} {fault}' for fault in _leaf_faults(path, value)
        ]
    for field, section in config.items():
        faults += [
            f'{field}: {key!r} is no option' for key in _unknown_keys(field, section)
        ]
    faults += _label_faults(config)
    faults += _missing_faults(config)
    faults += _size_faults(config)
    faults += _tuning_faults(config)
    faults += _name_faults(config)
    return [*faults, *_pattern_faults(config, num_clients)]


def _unknown_keys(field: str, section: Any, depth: int = 0) -> Iterator[Any]:
    """Yields keys that are neither options nor labels."""
    if isinstance(section, Mapping) and field not in ('grid', 'quick'):
        for key, value in section.items():
            is_label = depth == 0 and field in _LABELLED
            is_pattern = depth > 0 and field == 'learning_rate'
            if key not in _OPTIONS and not is_label and not is_pattern:
                yield key
            yield from _unknown_keys(field, value, depth + 1)
    elif isinstance(section, list | tuple):
        for item in section:
            yield from _unknown_keys(field, item, depth)


def _leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yields the values that are no containers, and their paths."""
    if isinstance(value, Mapping):
        children = value.items()
    elif isinstance(value, list | tuple):
        children = enumerate(value)
    else:
        yield path, value
        return
    for key, child in children:
        yield from _leaves(child, (*path, key))


def _leaf_faults(path: Path, value: Any) -> Iterator[str]:
    """Yields what is wrong with one value."""
    if path[0] == 'quick':
        return  # This size is not run.
    if any(not isinstance(key, str | int) or key == '' for key in path):
        yield 'stands under a name that is empty or no text'
    words = [key for key in path if isinstance(key, str)]
    name = words[-1] if words else ''
    if value is not None:
        yield from _type_faults(path, name, value)
        yield from _number_faults(path, words, value)
    elif name not in _MAY_BE_NONE:
        yield 'is nothing'


def _type_faults(path: Path, name: str, value: Any) -> Iterator[str]:
    """Yields what is wrong with the type of a value."""
    if isinstance(value, float) and not math.isfinite(value) and name != 'prob':
        yield 'is not finite'
    if not isinstance(value, bool | int | float | str):
        yield 'is no plain value'
    if name in _TEXT and len(path) < 4 and not isinstance(value, str | Mapping):
        yield 'is no text'
    if name in _FLAGS and isinstance(path[-1], str) and not isinstance(value, bool):
        yield 'is neither True nor False'


def _number_faults(path: Path, words: Sequence[str], value: Any) -> Iterator[str]:
    """Yields what is wrong with a value whose name asks for a number."""
    name = words[-1] if words else ''
    is_number = _is_number(value)
    # A schedule's period is a length of time; all other periods count rounds.
    is_duration = name == 'period' and 'schedule' in words
    if name in _COUNTS | _FROM_ZERO and not is_duration:
        yield from _count_faults(value, least=1 if name in _COUNTS else 0)
    if (name in _POSITIVE or is_duration) and not (is_number and value > 0):
        yield 'is no positive number'
    if name in _FRACTIONS:
        yield from _fraction_faults(path, words, value)
    yield from _probability_faults(words, value)
    if name == 'gamma' and not (is_number and 0 <= value <= 0.5):
        yield 'leaves [0, 1]'


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _count_faults(value: Any, least: int) -> Iterator[str]:
    if not _is_number(value) or isinstance(value, float):
        yield 'is no whole number'
    elif not least <= value <= _LARGEST:
        yield 'is out of range'


def _fraction_faults(path: Path, words: Sequence[str], value: Any) -> Iterator[str]:
    is_label = path[0] == 'reports' and len(path) == 2
    is_spread = (path[0], words[-1]) == ('problem', 'beta')  # Of synthetic data.
    if is_label or is_spread:
        return
    if isinstance(value, str | bool):
        yield 'is no number'
    is_bounded = _is_number(value) and 'server_optimizer' not in words
    if is_bounded and not 0 <= value <= 1:
        yield 'is no fraction'


def _probability_faults(words: Sequence[str], value: Any) -> Iterator[str]:
    name = words[-1] if words else ''
    must_be_number = name in ('value', 'values') and 'probs' in words
    if not must_be_number and name != 'probs':
        return
    if _is_number(value):
        if not 0 <= value <= 1:
            yield 'is no probability'
    elif must_be_number:
        yield 'is no probability'


def _label_faults(config: Mapping[str, Any]) -> Iterator[str]:
    """Yields labels that cannot name files of a run."""
    for field in ('patterns', 'algorithms', 'reports'):
        labels = list(config.get(field) or ())
        for label in labels:
            if not isinstance(label, str) or not _is_trimmed(label):
                yield f'{field}: {label!r} is no label'
            elif not _is_file_name(label):
                yield f'{field}: {label!r} is no file name'
        if len({str(label).casefold() for label in labels}) < len(labels):
            yield f'{field}: labels overwrite each other'
    if any(str(label).casefold() == 'links' for label in config.get('reports') or ()):
        yield 'a report overwrites the links'


def _missing_faults(config: Mapping[str, Any]) -> Iterator[str]:
    """Yields what a run needs and the config leaves empty."""
    has_pattern = config.get('patterns') or config.get('links')
    if not has_pattern or not config.get('algorithms'):
        yield 'nothing to run'
    for field in ('grid', 'tuning'):
        if field in config and not config[field]:
            yield f'{field} is empty'


def _is_trimmed(label: str) -> bool:
    return label != '' and label == label.strip()


def _is_file_name(label: str) -> bool:
    if '..' in label or label.startswith('.'):
        return False
    return not any(character in label for character in '/\\\0\n')


def _size_faults(config: Mapping[str, Any]) -> Iterator[str]:
    """Yields numbers of rounds and seeds that do not fit together."""
    rounds = config['num_rounds']
    seeds = config.get('num_seeds', 1)
    if rounds % config['eval_every']:
        yield 'evaluations do not divide the rounds'
    if config.get('first_seed', 0) + seeds > 2**32:
        yield 'seeds beyond 32 bits'
    if rounds * seeds * len(config['algorithms']) > _MOST_ROUNDS:
        yield 'more rounds than anyone can wait for'
    for label, section in config['algorithms'].items():
        if isinstance(section, Mapping) and section.get('period', 0) > rounds:
            yield f'{label} has a period longer than the run'


def _pattern_faults(config: Mapping[str, Any], num_clients: int) -> Iterator[str]:
    """Yields cohorts and outages that do not fit the federation and the run."""
    patterns = {key: config.get(key, {}) for key in ('patterns', 'links')}
    for path, value in _leaves(patterns):
        is_cohort = path[-1] in ('cohort_size', 'size') and isinstance(value, int)
        if is_cohort and value > num_clients:
            yield f'{path} is a cohort larger than the federation'
        if path[-1] == 'start' and value >= config['num_rounds']:
            yield f'{path} is an outage after the run'


def _tuning_faults(config: Mapping[str, Any]) -> Iterator[str]:
    tuning = config.get('tuning')
    if not tuning:
        return
    if tuning.get('num_rounds', 0) > config['num_rounds']:
        yield 'tuning is longer than the run'
    if tuning.get('pattern') not in (*_pattern_labels(config), None):
        yield 'tuning on a pattern that is not there'


def _name_faults(config: Mapping[str, Any]) -> Iterator[str]:
    """Yields references to algorithms and patterns that do not exist."""
    if config.get('baseline') not in (*config['algorithms'], None):
        yield 'a baseline that does not run'
    labels = {*config['algorithms'], *_pattern_labels(config)}
    for pair in config.get('names') or ():
        if not isinstance(pair, Sequence) or len(pair) != 2 or pair[0] not in labels:
            yield f'{pair!r} names nothing'
        elif not isinstance(pair[1], str):
            yield f'{pair!r} is no pair of texts'


def _pattern_labels(config: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(config.get('patterns') or ('links',))
