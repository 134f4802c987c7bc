"""Says what the links of a config do, before anything is trained: rates, bias, mixing, memory.

python -m fedjax_links theory --config=configs/quickstart.py
"""

from typing import Any

from absl import flags

from fedjax_links.cli import app, configs

_CONFIG = configs.ConfigFlags()
_PATTERN = flags.DEFINE_string('pattern', None, 'Label of the links; the first by default.')
_ROUNDS = flags.DEFINE_integer(
    'rounds', 10_000, 'Rounds of the first seed to simulate.', lower_bound=32
)


def main(values: dict[str, Any]) -> None:
    """Builds the links, simulates them without training, and prints the screen."""
    from fedjax_links.report.screens import configured, recording, theory

    links = configured.of_config(values, _PATTERN.value)
    record = recording.record_links(links.participation, num_rounds=_ROUNDS.value, seed=links.seed)
    print(theory.text(links, record))


if __name__ == '__main__':
    app.run(main, _CONFIG)
