"""Shows how a config's data are spread over its clients: volumes, class mixes, distances.

python -m fedjax_links partition --config=configs/comparison.py --workdir=runs/partition

The command shows the problem of the first pattern. Class mixes and distances need integer labels.
With --workdir it also draws a picture.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from absl import flags

from fedjax_links.cli import app
from fedjax_links.core.records import Section

if TYPE_CHECKING:
    from fedjax_links.experiment import Experiment

_PICTURE = 'partition.png'
_HIDDEN_OPTIONS = ('name', 'dataset', 'data', 'model', 'normalise', 'augment')
"""Options of a problem that do not belong to the title."""


def main(values: Section, args: flags.FlagValues) -> None:
    """Shows the data of the clients, as text and as a picture."""
    from fedjax_links import experiment
    from fedjax_links.preview import partitions
    from fedjax_links.problems.classification import partition_of
    from fedjax_links.storage import outputs

    if args.workdir is not None:
        outputs.check('workdir', Path(args.workdir), [_PICTURE])
    planned = experiment.build(values)
    pattern = next(iter(planned.patterns))
    problem = planned.problem_at(pattern, planned.plan.points[0])
    report = partition_of(problem)
    title = _title(planned, values, pattern)
    print(partitions.text(title, report))
    if args.workdir is not None:
        path = Path(args.workdir) / _PICTURE
        partitions.picture(path, title, report)
        print(f'Wrote {path}')


def _title(planned: 'Experiment', values: Section, pattern: str) -> str:
    """Names the data of a pattern, the options of its problem, and the grid point."""
    from fedjax_links.experiment import config_parts, section_seeds
    from fedjax_links.preview import configured_links

    sections = config_parts.problem_sections(
        values['problem'], values.get('problems', {}), planned.patterns
    )
    section = section_seeds.at_point(
        sections[pattern], planned.plan.points[0], 'problem'
    )
    parts = [str(section.get('dataset', section['name']))]
    for name, value in section.items():
        if name not in _HIDDEN_OPTIONS:
            parts.append(f'{name} {value}')
    problem_maker = planned.plan.problems[pattern]
    grid_point = configured_links.describe_first_point(planned, problem_maker)
    if grid_point:
        parts.append(grid_point)
    return ', '.join(parts)


if __name__ == '__main__':
    app.run(main, app.define_workdir, config='experiment')
