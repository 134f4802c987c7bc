"""Links of lanes are those of their patterns, and one program draws those of all seeds."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_links import experiment, runs, simulation
from fedjax_links.participation import PARTICIPATION
from fedjax_links.runner import compilation, hooks, realised_links
from fedjax_links.runner.program_cache import Programs
from tests.experiment.configs import values
from tests.runner.made_in_python import quadratic
from tests.tiers import cases

PROBS = {'name': 'label_dependent', 'minimum': 0.2}
QUALITY = {'links_quality': 'by_seed'}


def by_seed(num_seeds, **changes):
    """Link probabilities that every seed draws for itself."""
    settings = {'links': {'name': 'bernoulli', 'probs': PROBS}, 'redraw': QUALITY}
    return experiment.build(values(**{**settings, 'num_seeds': num_seeds, **changes}))


def compiled_by(caplog, run):
    """Names of what is compiled meanwhile."""
    caplog.set_level('WARNING', logger='jax')
    caplog.clear()
    with jax.log_compiles():
        run()
    messages = [record.getMessage() for record in caplog.records]
    return [text.split()[1] for text in messages if text.startswith('Compiling')]


def test_one_program_draws_the_links_of_all_seeds(caplog):
    planned = by_seed(5, algorithms={'fedavg': {}})
    compiled = compiled_by(caplog, planned.run)
    probs = [
        planned.pattern_at('links', {}, seed).sample((), jax.random.key(0), 0)[1].prob
        for seed in range(5)
    ]
    assert len({np.asarray(prob).tobytes() for prob in probs}) == 5
    assert compiled.count('jit(draw_links)') == 1, compiled
    assert compiled.count('jit(start)') == 1, compiled  # of the links
    assert compiled.count('jit(make_state)') == 1, compiled


@pytest.mark.slow
def test_500_seeds_of_a_pattern_have_one_program_and_one_key():
    planned = by_seed(500, algorithms={'fedavg': {}})
    programs = Programs(planned.plan)
    lanes = planned.plan.schedule.main('fedavg')
    patterns = [programs.links(planned.plan.pattern_of(lane)) for lane in lanes]
    assert len({id(programs.link_program(pattern)) for pattern in patterns}) == 1
    assert len({pattern.structure for pattern in patterns}) == 1
    assert (
        len({np.asarray(pattern.constants[1][0]).tobytes() for pattern in patterns})
        > 300
    )


@pytest.mark.parametrize(
    'name', cases(PARTICIPATION, ['bernoulli', 'markov', 'peers', 'uniform_cohort'])
)
def test_links_are_those_of_the_pattern_to_the_bit(name):
    """Beside a program in which the pattern's arrays are built in."""
    pattern = PARTICIPATION[name].example(8)
    key = jax.random.key(3)
    expected = jax.jit(lambda: simulation.realised_links(key, pattern, num_rounds=12))()
    as_traced = compilation.trace_pattern(pattern)
    program = compilation.link_program(as_traced, 4, None)
    carry = program.start(as_traced.constants, key)
    pieces = []
    for first, count in ((0, 2), (8, 1)):
        rounds = np.int32(first), np.int32(count)
        carry, links = program.draw(
            as_traced.constants, carry, key, *rounds, max_periods=2
        )
        pieces.append(
            jax.tree.map(lambda a, n=count: a[:n].reshape(-1, *a.shape[2:]), links)
        )
    result = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *pieces)
    jax.tree.map(np.testing.assert_array_equal, result, expected)


def test_mean_probabilities_of_many_rounds_keep_their_digits():
    """A sum of 20,000 equal numbers of float32 would be off in the fifth digit."""
    programs = Programs(quadratic(rounds=20_000).plan)
    links = realised_links.record_links(programs, hooks.InitialStates())
    expected = np.array([0.5, 0.3], np.float32)
    np.testing.assert_array_equal(links['mean_prob/links'], expected)


def test_links_that_were_logged_stay_without_the_log(tmp_path):
    quadratic(seeds=[0, 1], log=('links',)).run(tmp_path, devices=1)
    logged = (tmp_path / runs.LINKS).read_bytes()
    quadratic(seeds=[0, 1]).run(tmp_path, devices=1)
    assert (tmp_path / runs.LINKS).read_bytes() == logged
    quadratic(seeds=[0, 1], rounds=6).run(tmp_path, devices=1)
    masks = runs.links(tmp_path).masks['links']
    assert [*masks] == [0]
    assert len(masks[0]) == 6


@pytest.mark.slow
def test_links_that_a_folder_has_are_not_drawn_again(tmp_path, monkeypatch):
    samples = []
    draw = realised_links._record_seed

    def noted(programs, label, seed, origin):
        samples.append((label, seed))
        return draw(programs, label, seed, origin)

    def run(folder, **changes):
        samples.clear()
        by_seed(**{'num_seeds': 2, 'algorithms': {'fedavg': {}}, **changes}).run(folder)
        return (folder / runs.LINKS).read_bytes()

    monkeypatch.setattr(realised_links, '_record_seed', noted)
    first = run(tmp_path / 'run')
    assert samples == [('links', 0)]
    assert run(tmp_path / 'run') == first
    assert samples == []
    file = tmp_path / 'run' / runs.LINKS
    file.write_bytes(first[:40] + b'?' + first[41:])
    assert run(tmp_path / 'run') == first
    assert samples == [('links', 0)]
    logged = {'num_seeds': 3, 'log': ('links',)}
    for changes in (logged, {**logged, 'num_rounds': 8}):
        file = run(tmp_path / 'run', **changes)
        assert samples == [('links', 0), ('links', 1), ('links', 2)]
        assert file == run(tmp_path / f'unbroken{len(changes)}', **changes)
