"""Configs of a few small experiments, and what their runs keep."""

from fedjax_links import runs


def values(**changes):
    """Returns a config of FedAvg over Bernoulli links, four rounds; None leaves a field out."""
    base = {
        'title': 'test',
        'problem': {'name': 'digits', 'num_clients': 8, 'alpha': 0.5, 'seed': 0},
        'links': {'name': 'bernoulli', 'probs': {'name': 'equal', 'value': 0.5}},
        'client': {'learning_rate': 0.1, 'local_steps': 2, 'batch_size': 4},
        'algorithms': {'fedavg': {}},
        'num_rounds': 4,
        'eval_every': 2,
        'num_seeds': 2,
    }
    changed = {**base, **changes}
    return {name: value for name, value in changed.items() if value is not None}


def quadratic_values(**changes):
    """Returns the config of `values` on quadratics, whose programs are the smallest."""
    base = {
        'problem': {'name': 'quadratic', 'targets': [[0.0], [1.0], [3.0], [4.0]]},
        'client': {'learning_rate': 0.1, 'local_steps': 2},
    }
    return values(**{**base, **changes})


def tuned(**changes):
    """Returns a config of two algorithms over two kinds of links, with tuned rates."""
    probs = {'name': 'label_dependent', 'seed': 1}
    base = {
        'links': None,
        'patterns': {
            'bernoulli': {'name': 'bernoulli', 'probs': probs},
            'cohort': {'name': 'uniform_cohort', 'cohort_size': 3},
        },
        'client': {'local_steps': 2, 'batch_size': 4, 'decay': 'inverse_sqrt'},
        'algorithms': {'fedavg': {}, 'fedpbc': {}},
        'tuning': {
            'learning_rates': (0.001, 0.1),
            'grow': 0,
            'pattern': 'bernoulli',
            'num_rounds': 8,
            'num_seeds': 2,
        },
        'baseline': 'fedavg',
        'metric': 'eval_accuracy',
        'num_rounds': 8,
        'eval_every': 4,
        'first_seed': 5,
    }
    return values(**{**base, **changes})


def tuned_on_one_pattern(**changes):
    """Returns such a config over Bernoulli links alone."""
    patterns = {'bernoulli': tuned()['patterns']['bernoulli']}
    return tuned(patterns=patterns, **changes)


def files_of(folder):
    """Returns the files of a run by path, except those that say where and when it ran."""
    left_out = 'environment.json', '.lock'
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob('*'))
        if path.is_file() and path.name not in left_out
    }


def last_files_of(folder):
    """Returns the files of a run without earlier saves, whose rounds depend on the clock."""
    last = {
        files[max(files)].relative_to(folder).as_posix()
        for files in runs.saves(folder).values()
    }
    return {
        name: content
        for name, content in files_of(folder).items()
        if '@' not in name or name in last
    }
