"""Writes a run's last states, metrics and links in formats that other programs read.

python -m fedjax_links export runs/quickstart --to=exported

States, which include the models, and links become npz files, metrics become CSV. With --archive the
command writes a few small files instead, which `report` reads like a run. --metrics=eval_accuracy
archives that metric alone.
"""

from absl import flags

from fedjax_links.cli import app, paths
from fedjax_links.core import errors


def define_flags() -> None:
    """Defines the flags of the command."""
    paths.define('to', 'Folder for the files.')
    flags.DEFINE_bool('archive', False, 'Write an archive, without states and links.')
    flags.DEFINE_list('metrics', None, 'Metrics that an archive keeps; all by default.')


def main(args: flags.FlagValues, *folders: str) -> None:
    """Exports or archives a run folder."""
    if len(folders) != 1:
        raise errors.invalid('export', 'be given one run folder', len(folders))
    if args.to is None:
        requirement = 'name a folder for the files, such as --to=exported'
        raise errors.invalid('to', requirement, None)
    if args.metrics is not None and not args.archive:
        raise errors.invalid('metrics', 'go with --archive', args.metrics)
    from fedjax_links.runs import export

    if args.archive:
        written = export.archive(folders[0], args.to, metrics=args.metrics)
    else:
        written = export.export(folders[0], args.to)
    print(f'Wrote {len(written)} files to {args.to}')


if __name__ == '__main__':
    app.run(main, define_flags, takes_arguments=True)
