"""Says what the links of a config do, before anything is trained: rates, bias, mixing, memory.

python -m fedjax_links theory --config=configs/quickstart.py
"""

from typing import Any, NamedTuple

from fedjax_links.cli import app


class Flags(NamedTuple):
    """Flags of the command.

    Attributes:
      pattern: Label of the links; the first by default.
      rounds: Rounds of the first seed to simulate.
    """

    pattern: str | None = None
    rounds: int = 10_000


def main(values: dict[str, Any], given: Flags) -> None:
    """Builds the experiment, simulates its links without training, and prints the screen."""
    from fedjax_links import experiment
    from fedjax_links.core import checks
    from fedjax_links.report.screens import configured, theory

    checks.static_int('rounds', given.rounds, minimum=32)
    links = configured.of_experiment(experiment.build(values), given.pattern)
    print(theory.text(links, links.record(given.rounds)))


if __name__ == '__main__':
    app.run(main, Flags, config='experiment')
