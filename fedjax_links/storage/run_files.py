"""Names of the files and folders of a run, and which of its facts may change."""

CONFIG = 'config.json'
EXPERIMENT = 'experiment.json'
ENVIRONMENT = 'environment.json'
IDENTITY = 'identity.json'
EXAMPLES = 'examples.npz'
METRICS = 'metrics.jsonl'
LINKS = 'links.npz'
CHECKPOINTS = 'checkpoints'
LANES = 'lanes.json'
CLAIMS = 'claims'
FAILURES = 'failures'
LOCK = '.lock'  # held by the processes that run
OPENING = '.opening'  # held by a process while it opens a folder that several share

WRITTEN_BY_RUNS = (
    CONFIG,
    EXPERIMENT,
    ENVIRONMENT,
    IDENTITY,
    EXAMPLES,
    LINKS,
    METRICS,
    LANES,
)
"""Files that a run writes beside its checkpoints."""

CHANGED = 'changed'
"""The fact that says what differed when a user resumed with ``--allow_changed``."""

MAY_DIFFER = (
    'baseline',
    'caption',
    CHANGED,
    'forked_from',
    'log',
    'names',
    'reports',
    'title',
)
"""Facts in ``experiment.json`` and fields of configs that change no result.

These facts only change how results are shown or kept.
"""

MAY_GROW = {'num_rounds': 'rounds', 'num_seeds': 'seeds'}
"""Fields that a later start may make larger: existing rounds and seeds stay as they are."""
