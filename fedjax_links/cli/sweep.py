"""Compares algorithms over link patterns: the same links for all, one program per algorithm.

python -m fedjax_links.cli.sweep --config=configs/comparison.py --workdir=runs/comparison
"""

from pathlib import Path
from typing import Any

from absl import flags
from ml_collections import config_flags

from fedjax_links.cli import app

_CONFIG = config_flags.DEFINE_config_file(
    'config', None, 'Config file; --config.field=value overrides.', lock_config=True
)
_WORKDIR = flags.DEFINE_string(
    'workdir', None, 'Folder of the results; finished algorithms are not run again.'
)
_DRY_RUN = flags.DEFINE_bool('dry_run', False, 'Say what would run, then stop.')


def main(values: dict[str, Any]) -> None:
    """Builds, tunes, runs and reports."""
    from fedjax_links import comparison, runs
    from fedjax_links.cli import comparing

    plan = comparison.build(values)
    comparing.check(plan)
    print(comparing.describe(plan))
    if _DRY_RUN.value:
        return
    if _WORKDIR.value is None:
        raise ValueError('`workdir` must name a folder for the results, such as runs/comparison.')
    comparing.refuse_if_too_large(plan, Path(_WORKDIR.value))
    folder = runs.RunFolder(
        app.output_folder(_WORKDIR.value), values, may_differ=comparing.MAY_DIFFER
    )
    print(comparing.report(plan, comparing.run(plan, folder.path), folder.path))


if __name__ == '__main__':
    app.run(main, _CONFIG)
