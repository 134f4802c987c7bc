"""Run folders as a stranger might make them: each way changes a copy of a finished run.

Digests are recomputed, as they are no secret. Code that a folder names would create a file, the
canary.
"""

import numpy as np

from fedjax_links import runs
from tests.attacks.spoiling import (
    CANARY,
    Pickled,
    about_with,
    archive_with,
    checksummed,
    clients_with,
    config_with,
    facts_with,
    facts_without,
    json_of,
    lanes_with,
    leaves_as_texts,
    leaves_of_kind,
    lines_with,
    links_with,
    moved_lanes,
    pickled,
    renamed_lane,
    rows_with,
    symlink,
    text,
)

MODULE = 'stranger_module'
SOURCE = f"""
import pathlib

pathlib.Path({CANARY!r}).write_text('imported')


def make(*args, **options):
    pathlib.Path({CANARY!r}).write_text('called')
    return {{}}


def get_config():
    return make()
"""
COMMAND = {'name': 'os:system', 'command': f'touch {CANARY}'}
IMPORT = {'name': 'runpy:run_module', 'mod_name': MODULE}
LOAD = {
    'name': 'fedjax_links.cli.configs:load',
    'config_flag': f'{MODULE}.py',
    'overrides': {},
}
OWN = {'name': f'{MODULE}:make'}
BORROWED = {
    'name': 'fedjax_links.papers.xiang2024.released:bernoulli',
    'schedule': [0.5],
}
"""A function that a module of papers only imports."""

HTML = '</title><script>alert(1)</script>[x](javascript:alert(2))<img src=x onerror=alert(3)>'

PAGES = {
    'a page is a command': facts_with(reports={'x': COMMAND}),
    'a page is a module of the folder': facts_with(reports={'x': OWN}),
    'a page is a text': facts_with(reports={'x': OWN['name']}),
    'printed numbers are a command': facts_with(
        reports={'comparison': {'name': 'comparison', 'published': COMMAND}}
    ),
    'printed numbers are a text': facts_with(
        reports={
            'first': {
                'name': 'first_rounds',
                'targets': [0.5],
                'published': OWN['name'],
            }
        }
    ),
    'printed rates are a module': facts_with(
        reports={'r': {'name': 'rates', 'published': OWN}}
    ),
    'Python imports for a stranger': facts_with(
        reports={'comparison': {'name': 'comparison', 'published': IMPORT}}
    ),
    'the package runs a file for a stranger': facts_with(
        reports={'comparison': {'name': 'comparison', 'published': LOAD}}
    ),
    'a module of papers imports a function': facts_with(
        reports={'comparison': {'name': 'comparison', 'published': BORROWED}}
    ),
    'speeds of devices are a module': facts_with(
        log=['links'],
        reports={'p': {'name': 'cost', 'step': OWN, 'uplink': 1e6, 'downlink': 1e6}},
    ),
    'a page lies outside': facts_with(
        reports={'../../outside': {'name': 'comparison'}}
    ),
    'a page is absolute': facts_with(reports={'/tmp/outside': {'name': 'comparison'}}),
    'a callback is a module': facts_with(log=[OWN['name']]),
}
TEXTS = {
    'a title with scripts': facts_with(title=HTML),
    'a title for terminals': facts_with(title='\x1b]0;owned\x07\x1b[2J'),
    'names with scripts': facts_with(names=[['fedavg', HTML], ['links', '| a | b']]),
    'names that are half a formula': facts_with(
        names=[['fedavg', '$x_$'], ['fedpbc', '$']]
    ),
    'a caption with scripts': facts_with(caption=HTML),
    'a caption that is a list': facts_with(caption=[1]),
    'a title that is a number': facts_with(title=3),
}
FACTS = {
    'no facts but a list': json_of(runs.EXPERIMENT, [1, 2]),
    'no facts at all': json_of(runs.EXPERIMENT, {}),
    'facts without algorithms': facts_without('algorithms'),
    'facts without models': facts_without('models', 'seeds'),
    'algorithms lie outside': facts_with(algorithms=['../../outside', 'fedpbc']),
    'patterns lie outside': facts_with(patterns=['/tmp/outside']),
    'algorithms are numbers': facts_with(algorithms=[1, 2]),
    'seeds are texts': facts_with(seeds=['a', 'b']),
    'seeds are many': facts_with(seeds=3),
    'rounds are a text': facts_with(num_rounds='../x'),
    'rounds are endless': facts_with(num_rounds=10**15, eval_every=1),
    'no rounds between evaluations': facts_with(eval_every=0),
    'an unknown metric': facts_with(metric='__class__'),
    'directions are a list': facts_with(directions=['loss']),
    'models of an unknown algorithm': facts_with(models={'x': ['server']}),
    'a grid of texts': facts_with(grid='client'),
    'an endless grid': facts_with(grid={f'c{k}': list(range(1000)) for k in range(8)}),
    'tuning is a text': facts_with(tuning='x'),
    'tuning lacks its grid': facts_with(tuning={'num_rounds': 4}),
    'decided is a text': facts_with(until='decided'),
    'forked from elsewhere': facts_with(forked_from='/etc', at_round='x'),
    'names are a number': facts_with(names=3),
    'reports are a list': facts_with(reports=[1]),
    'a page is a number': facts_with(reports={'x': 3}),
    'a page without a name': facts_with(reports={'x': {}}),
    'an unknown baseline': facts_with(baseline='x'),
}
CONFIGS = {
    'an algorithm is a command': config_with('algorithms.fedavg', COMMAND),
    'an algorithm is labelled as a module': config_with(
        f'algorithms.{OWN["name"]}', {}
    ),
    'a client is a module': config_with('client.name', OWN['name']),
    'a decay is a module': config_with('client.decay', OWN),
    'an optimizer is a module': config_with('client.optimizer', OWN),
    "a server's optimizer is a module": config_with(
        'algorithms.fedavg.server_optimizer', OWN
    ),
    'a problem is a module': config_with('problem.name', OWN['name']),
    'a model is a module': config_with('problem.model', OWN),
    'a list of augmentations has a module': config_with(
        'problem.augment', ['flip', OWN]
    ),
    'links are a module': config_with('links', OWN['name']),
    'probabilities are a module': config_with('links.probs', OWN),
    'a schedule is a module': config_with('links.schedule', OWN),
    'a format of logs is a module': config_with(
        'links', {'name': 'trace', 'path': 'x', 'format': OWN}
    ),
    'nested links are a module': config_with(
        'links', {'name': 'all_of', 'patterns': ['always', OWN]}
    ),
    'a measure is a module': config_with('eval_fn', OWN['name']),
    'a grid has a module': config_with(
        'grid', {'links': {'name': ['bernoulli', OWN['name']]}}
    ),
    'tuning has a module': config_with(
        'tuning', {'grid': {'client': {'decay': [OWN]}}}
    ),
    'a callback of the config is a module': config_with('log', [OWN['name']]),
    'the config is a list': json_of(runs.CONFIG, [1]),
    'the config is empty': json_of(runs.CONFIG, {}),
}
FILES = {
    'states are pickled': lanes_with(pickled),
    'saves say nothing': lanes_with(
        lambda arrays: {'about': text('{}'), 'lines': text('')}
    ),
    'saves are lists': lanes_with(lambda arrays: {**arrays, 'about': text('[1]')}),
    'saves lack their text': lanes_with(lambda arrays: {'x': np.zeros(1)}),
    'labels lie outside': about_with(
        labels={'stage': 'main', 'algorithm': '../x', 'pattern': 'links', 'seed': 0}
    ),
    'labels are missing': about_with(labels=None),
    'labels are a list': about_with(labels=[1]),
    'a position is a text': about_with(place='ab'),
    'leaves are objects': leaves_of_kind('O'),
    'leaves are texts': lanes_with(leaves_as_texts),
    'leaves are keys of a stranger': leaves_of_kind('key:os'),
    'parts lie outside': about_with(parts=[{'sha256': 'x', 'rows': {'../x': [0, 1]}}]),
    'lines are no JSON': lines_with(lambda line: line[:-3]),
    'lines are lists': lines_with(lambda line: '[1]'),
    'rounds of lines are texts': rows_with(round='x'),
    'metrics are texts': rows_with(**{'server/loss': 'x'}),
    'algorithms of lines are strangers': rows_with(algorithm='x'),
    'seeds of lines are lists': rows_with(seed=[1]),
    'lines have columns with paths': rows_with(**{'../../x': 1.0, 'a/b/c': 2.0}),
    'links have names with paths': links_with(
        lambda arrays: {'mask/../x': np.zeros((2, 1), 'u1')}
    ),
    'links have other shapes': links_with(
        lambda arrays: {
            name: array[..., :1] for name, array in arrays.items() if array.ndim
        }
    ),
    'links are pickled': links_with(pickled),
    'clients are pickled': clients_with(
        {'losses/links/fedavg': np.array([Pickled()], object)}
    ),
    'clients clash': clients_with(
        {'losses/links': np.zeros(2), 'losses/links/fedavg': np.zeros(2)}
    ),
    'clients of two lengths of a run': clients_with(
        {'num_rounds/links': np.array([1, 2])}
    ),
    'clients of another kind': clients_with({'anything/links/fedavg': np.zeros(2)}),
    'a save elsewhere': moved_lanes,
    'a save with a strange name': renamed_lane('..@20.npz'),
    'the report is a link': symlink('report.md'),
    'what becomes the report is a link': symlink('report.md.partial'),
    'what becomes the lines is a link': symlink('metrics.jsonl.partial'),
    'what becomes clients is a link': symlink('clients.npz.partial'),
    'what becomes a page is a link': symlink('live.html.partial'),
    'the lock is a link': symlink('.lock'),
    'the lines are a link': symlink(runs.METRICS),
    'a picture is a link': symlink('overview.png'),
    'the identity is a list': json_of('identity.json', [1]),
    'the identity has no lanes': json_of(
        'identity.json', {'lanes': 1, 'sizes': {}, 'modules': {}}
    ),
    'the identity names texts for sizes': json_of(
        'identity.json',
        {
            'lanes': {},
            'sizes': {
                'links': {
                    'name': '<script>',
                    'clients': 'x',
                    'examples': [],
                    'digest': 1,
                }
            },
            'modules': {},
        },
    ),
    'the identity names commands': json_of(
        'identity.json',
        {
            'lanes': {},
            'sizes': {
                'links': {
                    'name': '![](x)<b>',
                    'clients': 1,
                    'examples': 1,
                    'digest': '|`x`',
                }
            },
            'modules': {'os:system': 'x'},
        },
    ),
    'identities of lanes are lists': about_with(identity=[1]),
    'identities of lanes lack parts': about_with(identity={'version': '1'}),
    'examples are pickled': lambda folder: (folder / 'examples.npz').write_bytes(
        checksummed({'links/data': np.array([Pickled()], object)})
    ),
    'what was written is a list': json_of('.written.json', [1]),
    'the environment is a list': json_of(runs.ENVIRONMENT, [1]),
    'shards are a list': json_of('lanes.json', [1]),
    'shards lie outside': json_of(
        'lanes.json',
        {'count': 2, 'by': 'program', 'lanes': {'../../x': 0, '/tmp/y': 7}},
    ),
    'shards are endless': json_of(
        'lanes.json', {'count': 10**9, 'by': 'program', 'lanes': {}}
    ),
    'a holder is a list': json_of('.lock', [1]),
    'an archive is pickled': archive_with(x=np.array([Pickled()], object)),
    'an archive holds no JSON': archive_with(**{'json:x': np.array(['{', '['])}),
    'an archive has columns of other lengths': archive_with(seed=np.zeros(1, int)),
}
ALL = {**PAGES, **TEXTS, **FACTS, **CONFIGS, **FILES}
