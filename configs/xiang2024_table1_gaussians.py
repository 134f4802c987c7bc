"""Table 1 of Xiang et al. (2024) in its regime: classes that overlap, all redrawn by seed.

  python -m fedjax_links simulate --config=configs/xiang2024_table1_gaussians.py \
      --workdir=runs/table1

Twenty minutes on two CPU cores. With --quick a minute or two: tables of the same form, without
their meaning.

The paper reports FedPBC ahead of all algorithms without memory on every pattern of SVHN.
Deviations: ten Gaussian classes replace images. No model can reach more than 64 % on them, so that
data cannot be interpolated. As in the paper, there are N = 100 clients, Dirichlet(0.1), links that
follow the labels, and six patterns. Client rates are tuned on every pattern at full length, by
three seeds and until the best lies inside the grid. The paper has grids on one pattern. FedPBC's
server model has a separate rate. SCAFFOLD and FedVARP, with more memory, are added. Each of the ten
seeds draws data, partition, class weights, initial model, links and batches. The paper column is
SVHN's test accuracy, to compare orders. After a colon, as_released (:table,as_released) or
first_commit run what the released code does differently, as for xiang2024_table1.py. `rules`
compares FedAvg known and F3AST as written with the same two as released. `decided` has time-varying
Bernoulli links alone, FedPBC against all others and as many seeds as each verdict needs.
studies/table1_gaussians.md has the outcome.

Two parts are shorter, a minute or two each: five seeds, 1,023 rounds, time-varying Bernoulli links,
and 0.08, the rate that tuning chose for these algorithms in `table`. `betas` has F3AST at the six
values that the paper tunes over. `samples` has FedAvg and FedPBC with a minibatch per step and with
one per round, as the listing draws.
"""

from ml_collections import ConfigDict

from fedjax_links.papers import common
from fedjax_links.papers.xiang2024 import presets

_SHORT = ('betas', 'samples')


def get_config(argument: str = '') -> ConfigDict:
    """Returns the comparison's settings.

    Args:
      argument: ``as_released`` or ``first_commit`` for the algorithms of the released code;
        ``rules`` for two algorithms as written beside the same as released; ``decided`` for one
        pattern, with as many seeds as verdicts need; ``betas`` for F3AST at the six values of beta
        of the paper; ``samples`` for a minibatch per step beside one per round.
    """
    parts = ('table', 'rules', 'decided', 'betas', 'samples')
    code, which = common.chosen(argument, presets.CODES, parts)
    if which in _SHORT:
        return ConfigDict(_short(which, code))
    shared = presets.small_experiment(code) | presets.small_tuning(code)
    algorithms = shared['algorithms']
    tuning = dict(shared['tuning'])
    quick = {
        'learning_rates': (0.1, 0.01),
        'num_rounds': 102,
        'num_seeds': 1,
        'grow': 0,
    }
    seeds = {'num_seeds': 2}
    more: common.PaperSection = {}
    if which == 'rules':
        written = presets.algorithms('paper')
        released = presets.algorithms('as_released')
        algorithms = {label: written[label] for label in ('fedavg_known', 'f3ast')}
        algorithms |= {f'{label}_released': released[label] for label in algorithms}
        names = {
            'fedavg_known_released': 'FedAvg known, last client for all',
            'f3ast_released': 'F3AST, positions for ids',
        }
        del tuning['model']
        more = {
            'baseline': 'fedavg_known',
            'reports': {'comparison': {'name': 'comparison'}},
        }
    else:
        names = {
            'scaffold': 'SCAFFOLD',
            'fedvarp': 'FedVARP',
            'fedpbc_server': 'FedPBC, server',
        }
        algorithms |= {
            'scaffold': {},
            'fedvarp': {},
            'fedpbc_server': {'name': 'fedpbc'},
        }
        tuning['model'] = {'fedpbc': 'client_mean', 'fedpbc_server': 'server'}
    if which == 'decided':
        tuning |= {'most_seeds': 6, 'ties': 2}
        seeds = {'seeds': {'least': 4, 'most': 5}}
        more = {
            'patterns': {'bernoulli_sine': shared['patterns']['bernoulli_sine']},
            'baseline': 'fedpbc',
            'reports': {name: {'name': name} for name in ('comparison', 'rates')},
            'seeds': {'until': 'decided', 'least': 5, 'most': 20, 'margin': 0.005},
            'caption': (
                'Time-varying Bernoulli links of Table 1 of Xiang et al. (2024) on '
                f'{presets.data_deviations("gaussians").partition(";")[0]}. Deviations: '
                f'{presets.TUNING_DEVIATION}{presets.SAMPLES_DEVIATION}{presets.GAMMA_DEVIATION}'
                f'{presets.LABEL_LINKS_DEVIATION}{presets.F3AST_DEVIATION}'
                'no other pattern.'
            ),
        }
    deviations = presets.deviations(
        presets.data_deviations('gaussians'),
        '{config.num_rounds} rounds, evaluated every {config.eval_every}, so that all of a cycle '
        'is seen, in place of 4,000; ',
        presets.TUNING_DEVIATION,
        *presets.TABLE1_DEVIATIONS,
    )
    paper = (
        'The paper column is SVHN, test accuracy (Xiang et al. 2024, Table 1), to compare orders, '
        'not levels. '
    )
    labels = {**dict(shared['names']), **names}
    patterns = more.get('patterns', shared['patterns'])
    config = {
        'title': 'Table 1 of Xiang et al. 2024 on Gaussian classes that overlap',
        **shared,
        **presets.setting('gaussians', code),
        'algorithms': algorithms,
        'tuning': tuning,
        'num_rounds': 3_999,
        'eval_every': 93,
        'names': tuple(n for n in labels.items() if n[0] in {*patterns, *algorithms}),
        'caption': (
            f'{paper if which == "table" else ""}{deviations}'
            f'{presets.departures(code, "links", "training")}'
        ),
        'quick': {
            'problem': {'num_clients': 20, 'examples_per_client': 50},
            'tuning': quick,
            'num_rounds': 102,
            'eval_every': 51,
            **seeds,
        },
        **more,
    }
    if which == 'decided':
        del config['num_seeds']
    return ConfigDict(config)


def _short(which: str, code: str) -> common.PaperSection:
    """Returns a part that is neither tuned nor run to the end."""
    shared = presets.small_experiment(code)
    if which == 'betas':
        algorithms = {
            f'beta{k}': {**shared['algorithms']['f3ast'], 'beta': beta}
            for k, beta in enumerate(presets.F3AST_BETAS, start=1)
        }
        for section in algorithms.values():
            section.setdefault('name', 'f3ast')
        names = {
            label: f'F3AST, beta {section["beta"]:g}'
            for label, section in algorithms.items()
        }
        title = 'F3AST at six values of beta (Xiang et al. 2024, appendix B)'
        clause = ''
    else:
        algorithms, names = presets.sample_pairs()
        names = {'fedavg': 'FedAvg', 'fedpbc': 'FedPBC', **names}
        title = 'A minibatch per step and per round (Xiang et al. 2024, Algorithm 1)'
        clause = presets.PAIRED_SAMPLES_DEVIATION
    deviations = presets.deviations(
        presets.data_deviations('gaussians'),
        '{config.num_rounds} rounds in place of 4,000, and links of one kind; client rate '
        '{config.client.learning_rate}, which tuning chose for these algorithms in Table 1 in '
        'small, server rate 1; ',
        presets.SAMPLES_DEVIATION,
        clause,
        presets.GAMMA_DEVIATION,
        presets.LABEL_LINKS_DEVIATION,
    )
    return {
        **{name: value for name, value in shared.items() if name != 'tuning'},
        **presets.setting('gaussians', code),
        'title': title,
        'patterns': {'bernoulli_sine': shared['patterns']['bernoulli_sine']},
        'client': {**shared['client'], 'learning_rate': 0.08},
        'algorithms': algorithms,
        'baseline': next(iter(algorithms)),
        'num_rounds': 1_023,
        'eval_every': 93,
        'num_seeds': 5,
        'names': (
            ('bernoulli_sine', 'Bernoulli time-varying'),
            *names.items(),
        ),
        'reports': {'comparison': {'name': 'comparison'}, 'curves': {'name': 'curves'}},
        'caption': f'{deviations}{presets.departures(code, "training")}',
        'quick': {
            'problem': {'num_clients': 20, 'examples_per_client': 50},
            'num_rounds': 102,
            'eval_every': 51,
            'num_seeds': 2,
        },
    }
