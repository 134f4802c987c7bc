"""Writes a run's models, metrics and links in formats that other programs read.

python -m fedjax_links export runs/quickstart --to=exported

Models as npz, or as safetensors where that package is installed; metrics as CSV, and as parquet
where pandas and pyarrow are; links as npz. `pip install 'fedjax_links[export]'` brings all three.
With --archive a few small files instead, that `report` reads like a run, to be kept beside a page;
--metrics=eval_accuracy keeps that metric alone.
"""

from absl import flags

from fedjax_links.cli import app
from fedjax_links.core import errors

_FORMAT = flags.DEFINE_string(
    'format', None, 'Of the models: npz, or safetensors; the latter where installed by default.'
)
_ARCHIVE = flags.DEFINE_bool('archive', False, 'Write an archive, without states and links.')
_METRICS = flags.DEFINE_list('metrics', None, 'Metrics that an archive keeps; all by default.')
_TO = flags.DEFINE_string('to', None, 'Folder for the files.')


def main(*folders: str) -> None:
    """Reads and writes."""
    if len(folders) != 1:
        raise errors.invalid('export', 'be given one run folder', len(folders))
    if _TO.value is None:
        raise errors.invalid('to', 'name a folder for the files, such as --to=exported', None)
    from fedjax_links.report import exporting

    if _METRICS.value is not None and not _ARCHIVE.value:
        raise errors.invalid('metrics', 'go with --archive', 'it without')
    if _ARCHIVE.value:
        done = exporting.archive(folders[0], _TO.value, metrics=_METRICS.value)
    else:
        done = exporting.export(folders[0], _TO.value, format=_FORMAT.value)
    for note in done.notes:
        print(note)
    print(f'Wrote {len(done.files)} files to {_TO.value}')


if __name__ == '__main__':
    app.run(main, positional=True)
