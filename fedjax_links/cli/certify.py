"""Certifies this device: its programs compute what they say, or which of them do not.

python -m fedjax_links certify
python -m fedjax_links certify --config=configs/quickstart.py --workdir=runs/quickstart

Every program takes a few rounds on this device and in double precision on a CPU, in another
process; where theory knows a mean, that of many seeds is compared with it. Without a config: those
of the run in --workdir, or every rule, pattern and model of this package. The report is kept as
certificate.json in --workdir. The exit status is 1 if a program is off by more than its bound.
"""

import sys
from pathlib import Path
from typing import Any

from absl import flags

from fedjax_links.cli import app, paths


def define_flags() -> None:
    """Defines the flags of the command."""
    paths.define(
        'workdir',
        'Folder of a run, or for the report; by default there is none.',
    )
    flags.DEFINE_bool('portable', False, 'As of simulate.')
    flags.DEFINE_bool(
        'allow_imports',
        False,
        'Let the config of the folder name code outside the package, which is imported.',
    )


def main(values: dict[str, Any] | None, given: flags.FlagValues) -> None:
    """Compares, prints and keeps."""
    app.make_portable(given.portable)
    from fedjax_links import runs
    from fedjax_links.certify import certificates
    from fedjax_links.experiment.config import recorded
    from fedjax_links.machines import environment
    from fedjax_links.storage import outputs

    for warning in environment.warnings():
        print(f'warning: {warning}', file=sys.stderr)
    if given.workdir is not None:
        outputs.check('workdir', Path(given.workdir), [certificates.FILE])
        kept = None if values else runs.read_json(Path(given.workdir), runs.CONFIG)
        if kept is not None:
            values = recorded(kept, allow_imports=given.allow_imports)
    found = []
    with app.importing(given.allow_imports):
        for verdict in certificates.certify(values):
            found.append(verdict)
            off = '' if verdict.holds else f'  OFF at {verdict.where}'
            said = f'{verdict.program:<36} {verdict.error:8.1e} of {verdict.bound:.0e}{off}'
            print(said, flush=True)
    are_fine = certificates.keep(found, given.workdir)
    print(f'{sum(verdict.holds for verdict in found)} of {len(found)} programs hold')
    sys.exit(0 if are_fine else 1)


if __name__ == '__main__':
    app.run(main, define_flags, config='experiment', optional=True)
