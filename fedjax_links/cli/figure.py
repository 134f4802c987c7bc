"""Draws a figure: picture, numbers as CSV, and a short table with its caption.

python -m fedjax_links figure --config=configs/sun2025_figure1.py --workdir=runs/figure1

Without --workdir it writes to runs/NAME of the config. --quick shows the same with less
computation, by the config's section quick, and writes to runs/NAME-quick.
"""

from pathlib import Path

from absl import flags

from fedjax_links.cli import app
from fedjax_links.core.records import Section


def main(values: Section, args: flags.FlagValues) -> None:
    """Computes the figure, prints its table, and writes its files."""
    from fedjax_links.pages import figure, tables
    from fedjax_links.storage import outputs

    figure.check(values)
    folder = Path(args.workdir or '')
    outputs.check('workdir', folder, (figure.PICTURE, figure.NUMBERS, figure.TEXT))
    result = figure.build(values)
    figure.write(folder, values, result)
    caption = tables.wrap(values['caption'], 80)
    print(f'{values["title"]}\n\n{result.table.text()}\n\n{caption}')
    print(f'\nWrote {figure.PICTURE}, {figure.NUMBERS} and {figure.TEXT} to {folder}')


if __name__ == '__main__':
    app.run(main, app.define_workdir, config='figure', has_default_workdir=True)
