"""Computes what the links of a config do, without training: rates, bias, mixing, memory.

python -m fedjax_links theory --config=configs/quickstart.py
"""

from absl import flags

from fedjax_links.cli import app
from fedjax_links.core.records import Section


def define_flags() -> None:
    """Defines the flags of the command."""
    flags.DEFINE_string('pattern', None, 'Label of the links; the first by default.')
    flags.DEFINE_integer('rounds', 10000, 'Rounds of the first seed to simulate.')
    flags.DEFINE_boolean('theorems', False, 'Also check the theorems of four papers.')


def main(values: Section, args: flags.FlagValues) -> None:
    """Builds the experiment, simulates its links without training, and prints their theory."""
    from fedjax_links import experiment
    from fedjax_links.core import checks
    from fedjax_links.preview import configured_links, theory

    # Standard errors are estimated from 32 batches of rounds.
    checks.static_int('rounds', args.rounds, minimum=32)
    links = configured_links.from_experiment(experiment.build(values), args.pattern)
    record = links.record(args.rounds)
    print(theory.text(links, record))
    if args.theorems:
        from fedjax_links.preview import theorems

        print(theorems.text(links, record))


if __name__ == '__main__':
    app.run(main, define_flags, config='experiment')
