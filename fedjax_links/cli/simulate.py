"""Runs what a config describes: algorithms over link patterns, a grid of values and seeds.

python -m fedjax_links simulate --config=configs/quickstart.py --workdir=runs/quickstart

An interrupted run goes on where it was when the same command is given again.
"""

from typing import Any

from absl import flags
from ml_collections import config_flags

from fedjax_links.cli import app

_CONFIG = config_flags.DEFINE_config_file(
    'config', None, 'Config file; --config.field=value overrides.', lock_config=True
)
_WORKDIR = flags.DEFINE_string('workdir', None, 'Folder of the run; an interrupted run goes on.')
_DRY_RUN = flags.DEFINE_bool('dry_run', False, 'Say what would run and what it needs, then stop.')


def main(values: dict[str, Any]) -> None:
    """Builds, predicts, runs and reports."""
    from fedjax_links import experiment, report
    from fedjax_links.cli import progress
    from fedjax_links.experiment import description
    from fedjax_links.report import theory

    planned = experiment.build(values)
    report.check(planned)
    print(planned.describe())
    print(theory.prediction(values))
    description.refuse_if_too_large(planned)
    if _DRY_RUN.value:
        for line in description.costs(planned):
            print(line)
        return
    if _WORKDIR.value is None:
        raise ValueError('`workdir` must name a folder for the run, such as --workdir=runs/first.')
    folder = app.output_folder(_WORKDIR.value)
    results = planned.run(folder, [progress.Progress()])
    print(report.write(results))


if __name__ == '__main__':
    app.run(main, _CONFIG)
