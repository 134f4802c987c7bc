"""Checks that this device computes correctly, program by program.

python -m fedjax_links certify
python -m fedjax_links certify --config=configs/quickstart.py --workdir=runs/quickstart

Every program takes a few rounds on this device and, in another process, in double precision on a
CPU. If theory gives the exact mean, the mean over many seeds is compared with it. The programs are
those of --config, or else of the config in --workdir. Without a config, as for a run made in
Python, all algorithms, patterns and models of this package are checked. The report goes to
certificate.json in --workdir. The exit status is 1 if a program is off by more than its bound.
"""

import sys
from pathlib import Path

from absl import flags

from fedjax_links.cli import app, paths
from fedjax_links.core.records import Section


def define_flags() -> None:
    """Defines the flags of the command."""
    paths.define(
        'workdir',
        'Folder of a run, or for the report; by default there is none.',
    )
    flags.DEFINE_bool(
        'portable',
        False,
        'Compute the same bits on all CPUs with AVX2 and as many cores, slower; see simulate.',
    )
    flags.DEFINE_bool(
        'allow_imports',
        False,
        'Let the config of the folder name code outside the package, which is imported.',
    )


def main(values: Section | None, args: flags.FlagValues) -> None:
    """Certifies the programs, prints a line for each, and writes the report."""
    app.make_portable(args.portable)
    from fedjax_links import runs
    from fedjax_links.certify import certificates
    from fedjax_links.experiment.config import prepare_recorded
    from fedjax_links.machines import environment
    from fedjax_links.storage import outputs

    for warning in environment.warnings():
        print(f'warning: {warning}', file=sys.stderr)
    if args.workdir is not None:
        folder = Path(args.workdir)
        outputs.check('workdir', folder, [certificates.FILE])
        config = None if values else runs.read_json(folder, runs.CONFIG)
        if config is not None:
            values = prepare_recorded(config, allow_imports=args.allow_imports)
    verdicts = []
    with app.allow_imports(args.allow_imports):
        for verdict in certificates.certify(values):
            verdicts.append(verdict)
            failure = '' if verdict.holds else f'  OFF at {verdict.where}'
            size = f'{verdict.error:8.1e} of {verdict.bound:.0e}'
            print(f'{verdict.program:<36} {size}{failure}', flush=True)
    all_hold = certificates.keep(verdicts, args.workdir)
    num_holding = sum(verdict.holds for verdict in verdicts)
    print(f'{num_holding} of {len(verdicts)} programs hold')
    sys.exit(0 if all_hold else 1)


if __name__ == '__main__':
    app.run(main, define_flags, config='experiment', config_is_optional=True)
