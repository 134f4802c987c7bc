"""An experiment of Python objects, and changes of each of its parts."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

import fedjax_links as fl
from fedjax_links import local_training, participation, problems
from fedjax_links.algorithms import common
from fedjax_links.clients import rates
from fedjax_links.core import tree
from fedjax_links.participation.traces.intervals import intervals
from fedjax_links.participation.traces.trace import trace
from tests.runner.changes import change_version

NUM_CLIENTS = 3
NUM_EXAMPLES = 12


def own_algorithm(local_train, scale=1.0):
    """FedAvg as a user writes it, whose server step holds a constant."""

    def round_step(state, ctx, problem):
        deltas, metrics = common.sum_deltas(local_train, ctx, problem, state.server)
        mean = tree.divide(deltas, jnp.maximum(metrics.num_active, 1))
        return state._replace(
            server=tree.add_scaled(state.server, scale, mean)
        ), metrics

    return common.server_only_algorithm(round_step)


def own_links(probs, period=4):
    """Links as a user writes them, whose sampler holds a constant."""

    def sample(carry, key, round):
        now = jnp.where(round % period == 0, 1.0, jnp.asarray(probs, jnp.float32))
        mask = jax.random.uniform(key, (NUM_CLIENTS,)) < now
        return carry, fl.base.LinkSample(mask, now)

    return fl.base.Participation(lambda key: (), sample, NUM_CLIENTS)


class PythonStudy:
    """The parts of an experiment; a change sets some of them before `build`."""

    def __init__(self):
        """Sets all parts as the first run has them."""
        rng = np.random.default_rng(0)
        self.features = rng.normal(size=(NUM_EXAMPLES, 2)).astype(np.float32)
        self.labels = (np.arange(NUM_EXAMPLES) % 2).astype(np.float32)
        self.owners = np.repeat([0, 1, 2], [5, 3, 4])
        self.eval_features = rng.normal(size=(4, 2)).astype(np.float32)
        self.eval_labels = np.array([0.0, 1, 1, 0], np.float32)
        self.penalty = 0.01
        self.floor = 0.0
        self.spread = 1.0
        self.activation = jnp.tanh
        self.hidden = 3
        self.mask = np.array([[1, 0, 1], [1, 1, 0], [0, 1, 1]], bool)
        self.log = np.array([[0, 0, 3], [1, 1, 4], [2, 0, 2]])
        self.tick = 1.0
        self.probs = [0.5, 0.7, 0.9]
        self.wrap = lambda pattern: pattern
        self.period = 4
        self.rate = 0.1
        self.client = {'local_steps': 2, 'batch_size': 2}
        self.algorithm = 'fedavg'
        self.options = {}
        self.scale = 1.0
        self.server = optax.sgd(1.0, momentum=0.9)
        self.fields = {}

    def _problem(self):
        activation = self.activation
        hidden = self.hidden
        spread = self.spread
        penalty = self.penalty
        floor = self.floor

        def init_params(key):
            first, last = jax.random.split(key)
            return {
                'first': spread * jax.random.normal(first, (2, hidden)),
                'last': spread * jax.random.normal(last, (hidden,)),
            }

        def scores(params, features):
            return activation(features @ params['first']) @ params['last']

        def loss(params, batch):
            errors = scores(params, batch.features) - batch.labels
            return jnp.mean(errors**2) + penalty * jnp.sum(params['last'] ** 2)

        def metrics(params, batch):
            errors = scores(params, batch.features) - batch.labels
            return {'error': jnp.maximum(jnp.mean(jnp.abs(errors)), floor)}

        return problems.from_arrays(
            self.features,
            self.labels,
            self.owners,
            init_params=init_params,
            loss_fn=loss,
            metrics=metrics,
            eval_data=(self.eval_features, self.eval_labels),
        )

    def parts(self):
        """Returns problem, patterns and algorithms."""
        client = local_training.local_sgd(self.rate, **self.client)
        log = intervals(*self.log.T, num_clients=NUM_CLIENTS)
        return {
            'problem': self._problem(),
            'patterns': {
                'coin': self.wrap(participation.bernoulli(np.array(self.probs))),
                'played': participation.replay(self.mask),
                'log': trace(log, tick=self.tick),
                'own': own_links(self.probs, self.period),
            },
            'algorithms': {
                'fedavg': fl.ALGORITHMS[self.algorithm](client, **self.options),
                'fedopt': fl.ALGORITHMS['fedopt'](client, server_optimizer=self.server),
                'own': own_algorithm(client, self.scale),
            },
        }

    def build(self, **growth):
        """Returns the experiment with other fields."""
        fields = {
            'title': 'made',
            'num_rounds': 4,
            'eval_every': 2,
            'seeds': [0],
            **self.parts(),
            **self.fields,
            **growth,
        }
        return fl.Experiment(**fields)


def put(**values):
    """Returns a change that gives parts other values."""

    def change(study, monkeypatch):
        for name, value in values.items():
            setattr(study, name, value)

    return change


def put_field(**values):
    """Returns a change of fields of the experiment."""

    def change(study, monkeypatch):
        study.fields.update(values)

    return change


def put_entry(name, index, value):
    """Returns a change of one entry of an array."""

    def change(study, monkeypatch):
        getattr(study, name)[index] = value

    return change


def cast(name, dtype):
    """Returns a change of an array's dtype."""

    def change(study, monkeypatch):
        setattr(study, name, getattr(study, name).astype(dtype))

    return change


def drop_last_example(study, monkeypatch):
    """Takes one training example away."""
    for name in ('features', 'labels', 'owners'):
        setattr(study, name, getattr(study, name)[:-1])


def reverse_examples_of_a_client(study, monkeypatch):
    """Swaps two examples of one client."""
    order = [1, 0, *range(2, NUM_EXAMPLES)]
    study.features = study.features[order]
    study.labels = study.labels[order]


def eval_by_problem(scale):
    """Returns an evaluation that holds a constant."""

    def measure(params, key, problem):
        result = problem.metrics(params, problem.eval_data)
        return {'eval_error': scale * result['error'], 'train_error': result['error']}

    return measure


CHANGES = {
    # name: (change, what the refusal names)
    'rate': (put(rate=0.2), 'rounds of fedavg'),
    'schedule of the rate': (put(rate=rates.inverse_sqrt(0.1)), 'rounds of fedavg'),
    'steps': (put(client={'local_steps': 3, 'batch_size': 2}), 'rounds of fedavg'),
    'batch': (put(client={'local_steps': 2, 'batch_size': 3}), 'rounds of fedavg'),
    'full batch': (put(client={'local_steps': 2}), 'rounds of fedavg'),
    'optimizer of clients': (
        put(client={'local_steps': 2, 'batch_size': 2, 'optimizer': optax.adam}),
        'rounds of fedavg',
    ),
    'algorithm': (put(algorithm='fedavg_all'), 'rounds of fedavg'),
    'server rate': (put(options={'server_lr': 0.5}), 'rounds of fedavg'),
    'weights': (put(options={'weights': 'examples'}), 'rounds of fedavg'),
    'momentum of the server': (
        put(server=optax.sgd(1.0, momentum=0.8)),
        'rounds of fedopt',
    ),
    'own algorithm': (put(scale=0.5), 'rounds of own'),
    'labels': (
        put_entry('labels', slice(0, 2), [1.0, 0.0]),
        'data: 2 of 12 examples differ',
    ),
    'a pixel': (put_entry('features', (4, 1), 0.125), 'data: 1 of 12 examples differ'),
    'an owner': (put_entry('owners', 4, 1), 'partition'),
    'order of examples': (reverse_examples_of_a_client, 'in another order'),
    'fewer examples': (drop_last_example, 'data: 12 examples and not 11'),
    'evaluation data': (
        put_entry('eval_labels', 0, 1.0),
        'evaluation data: 1 of 4 examples differ',
    ),
    'dtype of features': (cast('features', np.float16), 'data'),
    'dtype of labels': (cast('labels', np.int32), 'data'),
    'constant of the loss': (put(penalty=0.02), 'loss'),
    'activation': (put(activation=jax.nn.relu), 'loss'),
    'width of the model': (put(hidden=4), 'initial model'),
    'first model': (put(spread=0.5), 'initial model'),
    'constant of a metric': (put(floor=0.25), 'evaluation of fedavg'),
    'eval_fn': (put_field(eval_fn=eval_by_problem(2.0)), 'evaluation of fedavg'),
    'probability': (put(probs=[0.5, 0.7, 0.8]), 'links coin'),
    'wrapper': (put(wrap=lambda p: participation.cap(p, 2)), 'links coin'),
    'recorded links': (put_entry('mask', (2, 0), True), 'links played'),
    'log': (put_entry('log', 1, [1, 2, 4]), 'links log'),
    'tick of the log': (put(tick=2.0), 'links log'),
    'own links': (put(period=3), 'links own'),
    'version': (change_version, 'fedjax_links is'),
    'precision': (put_field(matmul_precision='highest'), 'matmul_precision'),
    'period of evaluations': (put_field(eval_every=1), 'eval_every'),
    'evaluation at the start': (put_field(evaluate_start=True), 'evaluate_start'),
    'draws': (put_field(redraw={'links': 'fixed'}), 'redraw'),
    'seeds': (put_field(seeds=[7]), 'seeds'),
}


def interleave_clients(study, monkeypatch):
    """Lets clients alternate in the rows; the order within each client stays."""
    sizes = np.bincount(study.owners)
    index_within_client = np.concatenate([np.arange(size) for size in sizes])
    order = np.argsort(index_within_client)
    for name in ('features', 'labels', 'owners'):
        setattr(study, name, getattr(study, name)[order])


def labels_as_a_list(study, monkeypatch):
    """Gives the labels as a list of Python numbers."""
    study.labels = study.labels.tolist()


def maker_of(part):
    """Returns a function without columns that makes a part."""
    return lambda: part


def parts_by_makers(study, monkeypatch):
    """Gives functions without columns in place of the parts."""
    parts = study.parts()
    study.fields['problem'] = maker_of(parts['problem'])
    for name in ('patterns', 'algorithms'):
        study.fields[name] = {
            label: maker_of(part) for label, part in parts[name].items()
        }


def problem_by_pattern(study, monkeypatch):
    """Gives one problem by label of the pattern."""
    parts = study.parts()
    study.fields['problem'] = dict.fromkeys(parts['patterns'], parts['problem'])


HARMLESS = {
    'nothing': put(),
    'title': put_field(title='another'),
    'caption': put_field(caption='A caption.'),
    'names': put_field(names=[('fedavg', 'FedAvg')]),
    'reports': put_field(reports={'mine': {'name': 'comparison'}}),
    'baseline': put_field(baseline='own'),
    'log': put_field(log=['links']),
    'metric': put_field(metric='train_error'),
    'direction': put_field(metric='eval_error', direction='max'),
    'rounds as numbers of NumPy': put_field(
        num_rounds=np.int64(4), eval_every=np.int64(2)
    ),
    'seeds as an array': put_field(seeds=np.array([0])),
    'default draws': put_field(redraw={'links': 'by_seed'}),
    'default way of a grid': put_field(grid_mode='cross'),
    'features in double precision': cast('features', np.float64),
    'labels as a list': labels_as_a_list,
    'probabilities as a tuple': put(probs=(0.5, 0.7, 0.9)),
    'rate as a number of NumPy': put(rate=np.float64(0.1)),
    'default of an algorithm': put(options={'server_lr': 1.0}),
    'clients interleaved': interleave_clients,
    'parts by makers': parts_by_makers,
    'problem by pattern': problem_by_pattern,
}
