"""Lanes of a run compared with plain simulations of their patterns."""

import jax
import numpy as np

from fedjax_links import simulation


def rows(results, **labels):
    """Returns the lines of metrics with these labels."""
    chosen = np.ones(len(results['round']), bool)
    for name, value in {'stage': 'main', **labels}.items():
        chosen &= results[name] == value
    return {name: column[chosen] for name, column in results.columns.items()}


def alone(planned, label, pattern, point):
    """Returns ``seed -> result`` of a plain simulation, whose rates are arguments as in a sweep."""
    problem = planned.problem_at(pattern, point)
    columns = {name: np.float32(value) for name, value in point.items()}
    run = jax.jit(
        lambda key, problem, columns: simulation.simulate(
            key,
            planned.algorithm_at(label, columns),
            planned.pattern_at(pattern, {}),
            problem,
            num_rounds=planned.num_rounds,
            eval_every=planned.eval_every,
            eval_fn=planned.plan.eval_fn(problem),
        )
    )
    return lambda seed: run(jax.random.key(seed), problem, columns)


def assert_lanes_are_plain_simulations(planned, results, label, points):
    """Checks that all lanes of an algorithm have the bits of plain simulations.

    Args:
      planned: the experiment.
      results: of its run.
      label: the algorithm.
      points: by pattern, the values of the columns.
    """
    for pattern, point in points.items():
        simulate = alone(planned, label, pattern, point)
        for seed in planned.seeds:
            lane = rows(results, algorithm=label, pattern=pattern, seed=seed)
            plain = simulate(seed)
            for name, value in point.items():
                np.testing.assert_array_equal(lane[name], value)
            active = np.asarray(plain.rounds.num_active).reshape(-1, planned.eval_every)
            np.testing.assert_array_equal(lane['rounds/num_active'], active.sum(axis=1))
            for model, named in plain.evals.items():
                for metric, curve in named.items():
                    np.testing.assert_array_equal(
                        np.float32(lane[f'{model}/{metric}']), curve, err_msg=metric
                    )
