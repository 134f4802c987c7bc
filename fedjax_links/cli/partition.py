"""Shows how a config's data are spread over its clients: volumes, class mixes, distances.

python -m fedjax_links partition --config=configs/comparison.py --workdir=runs/partition

For any config with a section ``problem`` whose problem has integer labels. On the terminal always;
with a folder also as a picture and as a table of clients.
"""

from collections.abc import Mapping
from typing import Any

from absl import flags
from ml_collections import config_flags

from fedjax_links import errors
from fedjax_links.cli import app

PICTURE, TABLE = 'partition.png', 'partition.csv'

_CONFIG = config_flags.DEFINE_config_file(
    'config', None, 'Config file; --config.field=value overrides.', lock_config=True
)
_WORKDIR = flags.DEFINE_string('workdir', None, f'Folder for {PICTURE} and {TABLE}.')


def main(values: dict[str, Any]) -> None:
    """Builds the problem alone, and describes who holds what."""
    from fedjax_links import sections
    from fedjax_links.experiment import redrawn_sections
    from fedjax_links.experiment.config_parts import first_draws
    from fedjax_links.report import partitions

    section = values.get('problem')
    if not isinstance(section, Mapping):
        raise errors.invalid('config', "have a section 'problem'", sorted(values))
    folder = None if _WORKDIR.value is None else app.output_folder(_WORKDIR.value)
    drawn = redrawn_sections.problem(section, first_draws(values))
    report = partitions.of_problem(sections.problem(drawn), str(section.get('name')))
    title = describe(section)
    print(partitions.text(title, report))
    if folder is not None:
        partitions.picture(folder / PICTURE, title, report)
        partitions.write_csv(folder / TABLE, report)
        print(f'Wrote {PICTURE} and {TABLE} to {folder}')


def describe(section: Mapping[str, Any]) -> str:
    """The data set and its partition in a line: what the config says, option by option."""
    hidden = ('name', 'dataset', 'data', 'model', 'normalise', 'augment', 'store')
    options = [f'{key} {value}' for key, value in section.items() if key not in hidden]
    return ', '.join([str(section.get('dataset', section['name'])), *options])


if __name__ == '__main__':
    app.run(main, _CONFIG)
