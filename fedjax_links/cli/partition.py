"""Shows how a config's data are spread over its clients: volumes, class mixes, distances.

python -m fedjax_links partition --config=configs/comparison.py --workdir=runs/partition

Of the first pattern's problem; classes and distances where it has integer labels. On the terminal
always; with a folder also as a picture.
"""

from pathlib import Path

from absl import flags

from fedjax_links.cli import app
from fedjax_links.core.records import Section


def main(values: Section, args: flags.FlagValues) -> None:
    """Builds the experiment, and describes who holds what."""
    from fedjax_links import experiment
    from fedjax_links.experiment import config_parts, section_seeds
    from fedjax_links.preview import configured_links, partitions
    from fedjax_links.problems.classification import partition_of

    planned = experiment.build(values)
    pattern = next(iter(planned.patterns))
    point = planned.plan.points[0]
    report = partition_of(planned.problem_at(pattern, point))
    sections = config_parts.problem_sections(
        values['problem'], values.get('problems', {}), planned.patterns
    )
    section = section_seeds.at_point(sections[pattern], point, 'problem')
    hidden = ('name', 'dataset', 'data', 'model', 'normalise', 'augment')
    options = [f'{key} {value}' for key, value in section.items() if key not in hidden]
    where = configured_links.describe_first_point(
        planned, planned.plan.problems[pattern]
    )
    name = str(section.get('dataset', section['name']))
    title = ', '.join(text for text in (name, *options, where) if text)
    print(partitions.text(title, report))
    if args.workdir is not None:
        path = Path(args.workdir) / 'partition.png'
        partitions.picture(path, title, report)
        print(f'Wrote {path}')


if __name__ == '__main__':
    app.run(main, app.define_workdir, config='experiment')
