"""Says what the links of a config do, before anything is trained: rates, bias, mixing, memory.

python -m fedjax_links.cli.theory --config=configs/quickstart.py
"""

from typing import Any

from absl import flags
from ml_collections import config_flags

from fedjax_links.cli import app

_CONFIG = config_flags.DEFINE_config_file(
    'config', None, 'Config file; --config.field=value overrides.', lock_config=True
)
_ROUNDS = flags.DEFINE_integer(
    'rounds', 10_000, 'Rounds of the first seed to simulate.', lower_bound=32
)


def main(values: dict[str, Any]) -> None:
    """Builds the links, simulates them without training, and prints the screen."""
    from fedjax_links import experiment
    from fedjax_links.report import recording, theory

    plan = experiment.build(experiment.parse(values))
    record = recording.record_links(
        plan.participation, num_rounds=_ROUNDS.value, seed=plan.config.first_seed
    )
    print(theory.text(plan, record))


if __name__ == '__main__':
    app.run(main, _CONFIG)
