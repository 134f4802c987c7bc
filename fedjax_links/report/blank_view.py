"""Shows what a report will look like before its run starts."""

import dataclasses
import itertools

import numpy as np

from fedjax_links import runs
from fedjax_links.experiment import Experiment
from fedjax_links.report import run_view
from fedjax_links.report.first_seed_links import FirstSeedLinks
from fedjax_links.report.run_view import RunView
from fedjax_links.results import recorded


def blank(experiment: Experiment) -> RunView:
    """Returns the view of a run that measures zero everywhere, without training anything."""
    facts = experiment.plan.facts()
    num_rounds = facts['num_rounds']
    # Each lane (a simulation) has a single line, which stands for all of its evaluations.
    facts_of_lines = {**facts, 'eval_every': num_rounds, 'evaluate_start': False}
    schedule = experiment.plan.schedule
    lines: list[str] = []
    for label in experiment.algorithms:
        models = facts['models'][label]
        metrics = facts['directions']
        names = map('/'.join, itertools.product(models, metrics))
        zeros = dict.fromkeys(names, 0.0)
        lanes = schedule.first_trials(label) + schedule.first_main(label)
        lines += [runs.line_of(lane.labels, lane.num_rounds, zeros) for lane in lanes]
    results = runs.Results(runs.as_columns(lines), facts_of_lines)
    view = run_view.from_run(results, experiment)
    rounds = recorded.rounds_of(facts)
    data = view.data.isel(round=[0] * len(rounds)).assign_coords(round=rounds)
    no_links = FirstSeedLinks(np.zeros((1, 1), bool), np.zeros(1))
    links = dict.fromkeys(view.patterns, no_links)
    return dataclasses.replace(view, data=data, links=links)
