"""Shows how a config's data are spread over its clients: volumes, class mixes, distances.

python -m fedjax_links partition --config=configs/comparison.py --workdir=runs/partition

For any config with a section ``problem``; classes and distances where its problem has integer
labels. On the terminal always; with a folder also as a picture and as a table of clients.
"""

from collections.abc import Mapping
from typing import Any

from absl import flags

from fedjax_links.cli import app, configs
from fedjax_links.core import errors

PICTURE, TABLE = 'partition.png', 'partition.csv'

_CONFIG = configs.ConfigFlags()
_WORKDIR = flags.DEFINE_string('workdir', None, f'Folder for {PICTURE} and {TABLE}.')


def main(values: dict[str, Any]) -> None:
    """Builds the problem alone, and describes who holds what."""
    from fedjax_links.experiment import config_parts
    from fedjax_links.report.screens import configured, partitions

    section = values.get('problem')
    if not isinstance(section, Mapping):
        raise errors.invalid('config', "have a section 'problem'", sorted(values))
    folder = None if _WORKDIR.value is None else app.output_folder(_WORKDIR.value)
    alone = {name: v for name, v in values.items() if name not in ('patterns', 'problems')}
    parts = config_parts.parts({**alone, 'links': 'always'})
    section = config_parts.at_point(section, parts.first, 'problem')
    problem = parts.problems[config_parts.LINKS]
    report = partitions.of_problem(problem.make(**problem.at(parts.first)))
    where = configured.first_point(values, 'problem')
    title = ', '.join([describe(section), *([where] if where else [])])
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
