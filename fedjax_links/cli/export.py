"""Writes a run's last states, metrics and links in formats that other programs read.

python -m fedjax_links export runs/quickstart --to=exported

States (models among their leaves) and links as npz, metrics as CSV. With --archive a few small
files instead, that `report` reads like a run, to be kept beside a page; --metrics=eval_accuracy
keeps that metric alone.
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
    """Reads and writes."""
    if len(folders) != 1:
        raise errors.invalid('export', 'be given one run folder', len(folders))
    if args.to is None:
        raise errors.invalid(
            'to', 'name a folder for the files, such as --to=exported', None
        )
    from fedjax_links.runs import export

    if args.metrics is not None and not args.archive:
        raise errors.invalid('metrics', 'go with --archive', 'it without')
    if args.archive:
        done = export.archive(folders[0], args.to, metrics=args.metrics)
    else:
        done = export.export(folders[0], args.to)
    print(f'Wrote {len(done)} files to {args.to}')


if __name__ == '__main__':
    app.run(main, define_flags, positional=True)
