"""Draws the links of a config: who takes part when, rates, gaps, memory, course of the day.

python -m fedjax_links links --config=configs/quickstart.py --workdir=runs/links

On the terminal always; with a folder also as a picture and as a table of clients.
"""

from typing import Any

from absl import flags
from ml_collections import config_flags

from fedjax_links.cli import app

PICTURE, TABLE = 'links.png', 'links.csv'

_CONFIG = config_flags.DEFINE_config_file(
    'config', None, 'Config file; --config.field=value overrides.', lock_config=True
)
_WORKDIR = flags.DEFINE_string('workdir', None, f'Folder for {PICTURE} and {TABLE}.')
_PATTERN = flags.DEFINE_string('pattern', None, 'Label of the links; the first by default.')
_ROUNDS = flags.DEFINE_integer(
    'rounds', 10_000, 'Rounds of the first seed to simulate.', lower_bound=2
)


def main(values: dict[str, Any]) -> None:
    """Builds the links, simulates them without training, and draws them."""
    from fedjax_links.report import configured, links, recording, terminal

    folder = None if _WORKDIR.value is None else app.output_folder(_WORKDIR.value)
    found = configured.configured_links(values, _PATTERN.value)
    record = recording.record_links(found.participation, num_rounds=_ROUNDS.value, seed=found.seed)
    law, title = found.law, f'{found.title} ({found.name}, seed {found.seed})'
    print(terminal.picture(title, record, law))
    if folder is not None:
        links.picture(folder / PICTURE, title, record, law)
        links.write_csv(folder / TABLE, record)
        print(f'Wrote {PICTURE} and {TABLE} to {folder}')


if __name__ == '__main__':
    app.run(main, _CONFIG)
