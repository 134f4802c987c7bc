"""Trains every algorithm of a config over the same links, all seeds in one program each.

python -m fedjax_links.cli.simulate --config=configs/quickstart.py --workdir=runs/quickstart
"""

from typing import Any

from absl import flags
from ml_collections import config_flags

from fedjax_links.cli import app

_CONFIG = config_flags.DEFINE_config_file(
    'config', None, 'Config file; --config.field=value overrides.', lock_config=True
)
_WORKDIR = flags.DEFINE_string('workdir', None, 'Folder of the run; an interrupted run goes on.')
_DRY_RUN = flags.DEFINE_bool('dry_run', False, 'Say what would run and what it costs, then stop.')


def main(values: dict[str, Any]) -> None:
    """Builds, predicts, trains and reports."""
    from fedjax_links import experiment, runs
    from fedjax_links.cli import training

    plan = experiment.build(experiment.parse(values))
    print(training.describe(plan))
    if _DRY_RUN.value:
        training.print_costs(plan)
        return
    if _WORKDIR.value is None:
        raise ValueError('`workdir` must name a folder for the run, such as --workdir=runs/first.')
    folder = runs.RunFolder(app.output_folder(_WORKDIR.value), values)
    training.train(plan, folder)
    training.report(plan, folder)


if __name__ == '__main__':
    app.run(main, _CONFIG)
