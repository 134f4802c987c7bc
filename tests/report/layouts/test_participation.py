"""Tables of links and clients, against counts by hand, plain simulations and exact weights."""

import jax
import numpy as np
import pytest

import fedjax_links as fl
from fedjax_links import analysis, experiment, report, runs, simulation
from fedjax_links.report import client_stats, run_view
from fedjax_links.report.first_seed_links import FirstSeedLinks
from fedjax_links.report.layouts import link_maps, overview, participation
from fedjax_links.results.clients import CLIENTS
from fedjax_links.runs import export
from tests import rendering
from tests.report.made import changed, results, rows_of

FIRST = 0.2
SECOND = 0.8


def config(**changes):
    base = {
        'title': 'clients',
        'problem': {'name': 'counterexample', 'num_clients': 6, 'dimension': 2},
        'links': {
            'name': 'bernoulli',
            'probs': {'name': 'halves', 'first': FIRST, 'second': SECOND},
        },
        'client': {'learning_rate': 0.1, 'local_steps': 2},
        'algorithms': {'fedavg': {}, 'fedpbc': {}},
        'num_rounds': 400,
        'eval_every': 200,
        'num_seeds': 3,
    }
    return {
        name: value for name, value in {**base, **changes}.items() if value is not None
    }


def links_of(masks):
    """Links of the first seed with these masks, [T, N] by pattern, and unknown probabilities."""
    return {
        label: FirstSeedLinks(np.asarray(mask, bool), np.full(len(mask[0]), np.nan))
        for label, mask in masks.items()
    }


def view_of(masks, clients=None):
    links = links_of(masks)
    result = results(
        {'fedavg': np.zeros((len(masks), 1, 1))}, patterns=list(masks), links=links
    )
    return changed(result, clients=clients or {})


def page_of(masks, clients=None):
    return participation(view_of(masks, clients))


def test_counts_gaps_ages_and_effective_clients_by_hand():
    mask = np.zeros((6, 4), bool)
    mask[[0, 2, 5], 0] = True  # gaps 2 and 3, active in the last round
    mask[[1, 2], 1] = True  # gap 1, last active three rounds before the last
    mask[3, 2] = True
    (row,) = rows_of(page_of({'some': mask}).tables[0])
    weights = np.array([1 + 0.5 + 1, 1 + 0.5, 1, 0]) / 5
    assert row == {
        'pattern': 'some',
        'participations': '0, 1.5, 3',
        'mean gap': '1.75',
        'longest': '3',
        'age at end': '3.5, 7',
        'effective': f'{1 / np.sum(weights**2):.1f} of 4',
    }


def test_an_unknown_law_is_given_with_its_reason():
    masks = {
        'inactive': np.zeros((400, 3)),
        'unknown': np.ones((400, 3)),
        'not_kept': np.ones((400, 3)),
        'fixed': np.ones((400, 3)),
    }
    exact = client_stats.Clients(np.full(3, 1 / 3), 'a formula')
    known = {label: exact for label in masks if label != 'not_kept'}
    known['unknown'] = exact._replace(
        weights=np.zeros(0), source='not known: no formula'
    )
    rows = {
        row['pattern']: row
        for row in rows_of(link_maps(view_of(masks, known)).tables[0])
    }
    distances = {label: row['exact'] for label, row in rows.items()}
    assert distances == {
        'inactive': '0.000',
        'unknown': '',
        'not_kept': '',
        'fixed': '0.000',
    }
    assert rows['unknown']['law'] == 'not known: no formula'
    assert rows['not_kept']['law'] == 'not recorded'
    assert rows['fixed']['law'] == 'a formula'
    assert rows['inactive']['distance'] == '-'
    caption = link_maps(view_of(masks)).tables[0].caption
    assert 'report.write(results, experiment)' in caption


def test_weights_stand_beside_their_exact_law(rng):
    probs = np.repeat([FIRST, SECOND], 4)
    mask = rng.random((2000, 8)) < probs
    law = analysis.fedavg_weights(probs)
    view = view_of({'some': mask}, {'some': client_stats.Clients(law, 'a formula')})
    (row,) = rows_of(link_maps(view).tables[0])
    assert row['exact'] == f'{np.abs(law - 1 / 8).sum():.3f}'
    received = mask[mask.any(axis=1)]
    realised = (received / received.sum(axis=1, keepdims=True)).mean(axis=0)
    assert row['distance'] == f'{np.abs(realised - 1 / 8).sum():.3f}'


@pytest.fixture(scope='module')
def finished(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp('clients')
    built = experiment.build(config(redraw=getattr(request, 'param', None)))
    with rendering.skipped():
        report.write(built.run(folder), built)
    return built, folder


def final_models(built, label):
    """The models of an algorithm after the first seed's rounds, from a plain simulation."""
    pattern = built.pattern_at('links', {})
    columns = built.plan.algorithms[label].columns
    algorithm = built.algorithm_at(
        label, {**columns, 'client.learning_rate': np.float32(0.1)}
    )
    run = jax.jit(
        lambda key, problem: simulation.simulate(
            key, algorithm, pattern, problem, num_rounds=400
        )
    )
    seed = built.seeds[0]
    result = run(jax.random.key(seed), built.problem_at('links', {}, seed))
    return algorithm.models(result.state.algorithm)


@pytest.mark.slow
@pytest.mark.parametrize(
    'finished', [None, {'data': 'fixed'}], indirect=True, ids=['redrawn', 'fixed']
)
def test_losses_are_those_of_plain_simulations(finished):
    built, folder = finished
    saved = client_stats.read(folder)['links']
    targets = np.asarray(built.problem_at('links', {}, built.seeds[0]).data, float)
    for label, name in (('fedavg', 'server'), ('fedpbc', 'client_mean')):
        model = np.asarray(final_models(built, label)[name], float)
        expected = 0.5 * ((model - targets) ** 2).sum(axis=1)
        np.testing.assert_allclose(saved.losses[label], expected, rtol=1e-4)
    probs = np.repeat([FIRST, SECOND], 3)
    np.testing.assert_allclose(saved.weights, analysis.fedavg_weights(probs))


@pytest.mark.usefixtures('unrendered')
def test_the_report_of_a_folder_needs_no_problem_again(finished):
    _, folder = finished
    text = (folder / 'report.md').read_text()
    assert '| links | fedavg | ' in text
    assert '| independent links' in text
    (folder / 'report.md').unlink()
    report.write(runs.read(folder))
    assert (folder / 'report.md').read_text() == text


@pytest.mark.usefixtures('unrendered')
def test_an_archive_without_models_keeps_its_client_metrics(finished, tmp_path):
    built, folder = finished
    export.archive(folder, tmp_path / 'archive')
    report.write(runs.read(tmp_path / 'archive'), built)
    saved = (tmp_path / 'archive' / CLIENTS).read_bytes()
    assert saved == (folder / CLIENTS).read_bytes()
    maps = report.table(tmp_path / 'archive', 'link_maps', form='latex')
    assert maps == '% No links are recorded in this folder; an archive has none.\n'


def test_the_worst_clients_are_listed_and_all_are_drawn(draw_page):
    mask = np.ones((4, 20), bool)
    mask[1:, [3, 8]] = False
    losses = np.full(20, 0.1)
    losses[[8, 3]] = 2.0, 1.0
    clients = {'some': client_stats.Clients(np.zeros(0), '', {'fedavg': losses})}
    page = page_of({'some': mask, 'unknown': mask}, clients)
    (line,) = draw_page(page).axes[0].lines
    np.testing.assert_array_equal(line.get_xdata(), mask.sum(axis=0))
    np.testing.assert_array_equal(line.get_ydata(), losses)
    assert page_of({'some': mask}).draw is None
    (row,) = rows_of(page.tables[1])
    rank = row.pop('rank')
    assert float(rank) < -0.9
    assert row == {
        'pattern': 'some',
        'algorithm': 'fedavg',
        'loss': '0.24',
        'worst tenth': '1.5',
        'active': '1',
        'others': '4',
        'clients': '8, 3',
    }


@pytest.mark.parametrize(
    'num_rounds, shown',
    [(200, 'in all rounds of'), (201, 'in the first 200 rounds of')],
)
def test_captions_say_which_rounds_a_map_shows(num_rounds, shown):
    view = view_of({'some': np.ones((num_rounds, 3))})
    assert shown in link_maps(view).caption
    assert shown in overview(view).caption


def test_an_algorithm_looks_the_same_in_all_panels(draw_page, lay_out_page):
    """Also where another has no losses under a pattern; the one legend names both."""
    masks = {'first': np.ones((4, 3)), 'last': np.ones((4, 3))}
    losses = {'mine': np.full(3, 1.0), 'yours': np.full(3, 2.0)}
    stats = {
        'first': client_stats.Clients(np.zeros(0), '', losses),
        'last': client_stats.Clients(np.zeros(0), '', {'yours': losses['yours']}),
    }
    curves = {label: np.zeros((2, 1, 1)) for label in losses}
    view = results(curves, patterns=list(masks), links=links_of(masks))
    page = participation(changed(view, clients=stats))
    figure = draw_page(page)
    first, last = figure.axes
    looks = [
        {line.get_label(): line.get_color() for line in axes.lines}
        for axes in (first, last)
    ]
    assert looks[0] == looks[1]
    assert first.get_legend() is last.get_legend() is None
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [*losses]
    column = lay_out_page(page.resize(3.3))
    assert min(axes.get_position().width for axes in column.axes) > 0.7


@pytest.mark.slow
def test_missing_weights_and_losses_are_given_with_their_reasons(tmp_path):
    target = np.random.default_rng(0).normal(size=(4, 2))
    client = fl.local_training.local_sgd(1e38, local_steps=2)
    built = fl.Experiment(
        title='In Python',
        problem=fl.problems.quadratic(target),
        patterns={'some': fl.participation.bernoulli(np.full(4, 0.5))},
        algorithms={'fedavg': fl.ALGORITHMS['fedavg'](client)},
        num_rounds=4,
        eval_every=4,
    )
    run = built.run(tmp_path / 'python')
    result = client_stats.compute(built, run, tmp_path / 'python')['some']
    assert result.source == 'not known: made in Python, no config names the links'
    assert result.missing == {'fedavg': 'diverged'}
    assert not result.losses

    grid = {'links': {'probs': {'first': (0.1, 0.2)}}}
    changing = experiment.build(
        config(num_rounds=4, eval_every=4, grid=grid, num_seeds=1)
    )
    run = changing.run(tmp_path / 'grid')
    for path in (tmp_path / 'grid' / runs.CHECKPOINTS).glob('*fedpbc*.npz'):
        path.unlink()
    result = client_stats.compute(changing, run, tmp_path / 'grid')['links']
    assert result.source == 'not known: the grid changes links or data'
    assert result.missing == {'fedpbc': 'its last checkpoint is missing or damaged'}
    assert list(result.losses) == ['fedavg']

    batches = config(
        problem={
            'name': 'digits',
            'num_clients': 6,
            'partition': 'dirichlet_per_class',
            'alpha': 0.5,
            'model': {
                'name': 'fedjax_links.papers.architectures:sun_mnist',
                'hidden': [3],
            },
        },
        links='always',
        client={'learning_rate': 0.1, 'local_steps': 1, 'batch_size': 4},
        algorithms={'fedavg': {}},
        num_rounds=1,
        eval_every=1,
        num_seeds=1,
    )
    normalising = experiment.build(batches)
    run = normalising.run(tmp_path / 'normalising')
    result = client_stats.compute(normalising, run, tmp_path / 'normalising')['links']
    assert result.missing == {'fedavg': 'its loss needs batches'}


def test_losses_are_those_of_the_model_that_was_tuned(tmp_path):
    """The mean loss over clients of a quadratic follows from the distance that was evaluated."""
    points = np.array([[0.0, 1.0], [2.0, 0.0], [4.0, 5.0]])
    tuning = {'model': {'fedpbc_server': 'server'}, 'learning_rates': [0.3], 'grow': 0}
    built = experiment.build(
        config(
            problem={'name': 'quadratic', 'targets': points.tolist()},
            links={'name': 'bernoulli', 'probs': [0.2, 0.5, 0.9]},
            client={'local_steps': 2},
            algorithms={'fedpbc': {}, 'fedpbc_server': {'name': 'fedpbc'}},
            tuning={**tuning, 'num_rounds': 5, 'num_seeds': 1},
            names=[['fedpbc', 'FedPBC'], ['fedpbc_server', 'FedPBC, server']],
            num_rounds=5,
            eval_every=5,
            num_seeds=1,
        )
    )
    run = built.run(tmp_path)
    report.write(run, built)
    saved = client_stats.read(tmp_path)['links'].losses
    ends = run.dataset['distance'].isel(pattern=0, seed=0, round=-1)
    spread = 0.5 * ((points - points.mean(axis=0)) ** 2).sum(axis=1).mean()
    for label, model in (('fedpbc', 'client_mean'), ('fedpbc_server', 'server')):
        distance = float(ends.sel(series=label, model=model))
        np.testing.assert_allclose(
            saved[label].mean(), spread + 0.5 * distance**2, rtol=1e-5
        )
    assert abs(saved['fedpbc'] - saved['fedpbc_server']).max() > 0.01
    table = rows_of(participation(run_view.from_run(runs.read(tmp_path))).tables[1])
    losses = {row['algorithm']: row['loss'] for row in table}
    for label, name in built.names:
        assert losses[name] == f'{saved[label].mean():.4g}'
