"""Parts of a simulation that a caller gets wrong, and what the error must name."""

import jax
import jax.numpy as jnp
import numpy as np

import fedjax_links as fl
from fedjax_links import local_training, participation, problems, simulation
from fedjax_links.base import (
    ClientKinds,
    CohortLinkSample,
    LinkSample,
    Participation,
    PeerLinkSample,
)

KEY = jax.random.key(0)
PROBLEM = problems.quadratic([[1.0, 0.0], [0.0, 1.0]])
PROGRAM = local_training.local_sgd(0.5, local_steps=1)
FEDAVG = fl.ALGORITHMS['fedavg'](PROGRAM)
COINS = participation.bernoulli([0.5, 0.5])
MASK = np.ones((2, 2), bool)
FULL = LinkSample(MASK, np.ones((2, 2)))
ONE_ROUND = LinkSample(np.ones(2, bool), np.ones(2))


def run(algorithm=FEDAVG, links=COINS, problem=PROBLEM, **options):
    """Simulates two rounds; by default nothing is wrong."""
    return fl.simulate(KEY, algorithm, links, problem, **{'num_rounds': 2, **options})


def begin(algorithm=FEDAVG, links=COINS):
    """Makes the state before the first round."""
    return simulation.init(KEY, algorithm, links, PROBLEM)


def drawing(**fields):
    """Makes a pattern of two clients whose samples have these fields."""
    sample = LinkSample(jnp.array([True, False]), jnp.array([0.5, 0.5]))
    links = sample._replace(**fields)
    return Participation(lambda key: (), lambda carry, key, round: (carry, links), 2)


def sampling(sample, carry=()):
    """Makes a pattern of two clients from its function."""
    return Participation(lambda key: carry, sample, 2)


def halves_its_carry(carry, key, round):
    """Returns a carry of another dtype than it takes."""
    return carry * 0.5, LinkSample(jnp.ones(2, bool), jnp.ones(2))


def peers(**fields):
    """As `drawing`, with links between the two clients."""
    neighbours = jnp.array([[1], [0]])
    edges = jnp.ones((2, 1), bool)
    links = PeerLinkSample(jnp.ones(2, bool), jnp.ones(2), neighbours, edges)._replace(
        **fields
    )
    return Participation(lambda key: (), lambda carry, key, round: (carry, links), 2)


def cohort(chance, kinds=None):
    """Makes links of two rounds that name one of two clients."""
    ids = jnp.zeros((2, 1), jnp.int32)
    if kinds is not None:
        kinds = ClientKinds(np.array(kinds, np.int32).tobytes())
    return CohortLinkSample(ids, chance, num_clients=2, kinds=kinds)


def stepping(step):
    """Makes FedAvg with another function of a round."""
    return FEDAVG._replace(round_step=step)


def loses_its_state(state, ctx, problem):
    """Returns the model in place of the state."""
    return FEDAVG.round_step(state, ctx, problem)[0].server, None


def halves_its_state(state, ctx, problem):
    """Returns a state of half the precision."""
    after, metrics = FEDAVG.round_step(state, ctx, problem)
    return after._replace(server=after.server.astype(jnp.bfloat16)), metrics


MISTAKES = {
    'a mask': (
        'participation',
        ['replay(mask)', 'bool[2, 2]'],
        lambda: run(links=MASK),
    ),
    'a mask to advance under': (
        'links',
        ['realised_links', 'bool[2, 2]'],
        lambda: simulation.advance(begin(), KEY, MASK, FEDAVG, PROBLEM),
    ),
    'a mask to begin with': (
        'participation',
        ['bool[2, 2]'],
        lambda: begin(links=MASK),
    ),
    'a mask to look at': (
        'participation',
        ['bool[2, 2]'],
        lambda: simulation.realised_links(KEY, MASK, num_rounds=2),
    ),
    'a result': (
        'initial_state',
        ['result.state', 'SimulationResult'],
        lambda: run(initial_state=run()),
    ),
    "another algorithm's state": (
        'initial_state.algorithm',
        ['fit `algorithm`', 'ServerState', 'clients', 'float32[2, 2]'],
        lambda: run(fl.ALGORITHMS['fedpbc'](PROGRAM), initial_state=begin()),
    ),
    "another pattern's state": (
        'initial_state.participation',
        ['fit `participation`', 'up', 'bool[2]'],
        lambda: run(links=participation.markov([0.5, 0.5]), initial_state=begin()),
    ),
    "another algorithm's state to advance": (
        'state.algorithm',
        ['fit `algorithm`', 'ServerState', 'clients', 'float32[2, 2]'],
        lambda: simulation.advance(
            begin(), KEY, FULL, fl.ALGORITHMS['fedpbc'](PROGRAM), PROBLEM
        ),
    ),
    "a state of another problem's to advance": (
        'state.algorithm',
        ['fit `algorithm` and `problem`', 'float32[2]', 'float32[1]'],
        lambda: simulation.advance(
            begin(), KEY, FULL, FEDAVG, problems.quadratic([[1.0], [0.0]])
        ),
    ),
    'a rate for a program': (
        'local_train',
        ['local_sgd', '0.1'],
        lambda: fl.ALGORITHMS['fedavg'](0.1),
    ),
    'a rate for the program of a factory': (
        'local_train',
        ['local_sgd', '0.1'],
        lambda: run(fl.algorithms.fedavg(0.1)),
    ),
    'a program that is not called': (
        'local_train',
        ['local_training.local_sgd(', 'the function local_sgd'],
        lambda: fl.ALGORITHMS['fedavg'](local_training.local_sgd),
    ),
    'no program': ('local_train', ['None'], lambda: fl.ALGORITHMS['mifa']()),
    'an entry that is not called': (
        'algorithm',
        ["ALGORITHMS['fedavg'](client_program)", 'AlgorithmEntry'],
        lambda: run(fl.ALGORITHMS['fedavg']),
    ),
    'a pattern that is not called': (
        'participation',
        ['participation.bernoulli(probs)', 'ParticipationEntry'],
        lambda: run(links=participation.PARTICIPATION['always']),
    ),
    'a problem of a sweep that is not called': (
        'problem',
        ['fl.problems', 'the function quadratic'],
        lambda: fl.sweep(
            lambda: FEDAVG, lambda: COINS, problems.quadratic, seeds=[0], num_rounds=2
        ),
    ),
    'no problem': (
        'problem',
        ['fl.problems', 'float32[2, 2]'],
        lambda: run(problem=np.eye(2, 2, dtype='f')),
    ),
    'a soft mask': (
        'participation',
        ['`mask`', 'bool[2]'],
        lambda: run(links=drawing(mask=jnp.ones(2))),
    ),
    'a mask of others': (
        'participation',
        ['`mask`', 'bool[3]'],
        lambda: run(links=drawing(mask=jnp.ones(3, bool))),
    ),
    'whole percentages': (
        'participation',
        ['`prob`', 'float[2]', 'int32[2]'],
        lambda: run(links=drawing(prob=jnp.array([30, 60]))),
    ),
    'one probability': (
        'participation',
        ['`prob`', 'float[2]', 'float32[]'],
        lambda: run(links=drawing(prob=0.5)),
    ),
    'no probability': (
        'participation',
        ['`prob`', 'None'],
        lambda: run(links=drawing(prob=None)),
    ),
    'durations of clients': (
        'participation',
        ['`duration`', 'float[]'],
        lambda: run(links=drawing(duration=jnp.ones(2))),
    ),
    'no sample': (
        'participation',
        ['LinkSample', 'bool[2]'],
        lambda: run(
            links=sampling(lambda carry, key, round: (carry, jnp.ones(2, bool)))
        ),
    ),
    'no carry': (
        'participation',
        ['carry and links', 'LinkSample'],
        lambda: run(
            links=sampling(
                lambda carry, key, round: LinkSample(jnp.ones(2), jnp.ones(2))
            )
        ),
    ),
    'another carry': (
        'participation',
        ['carry', 'int32[2]', 'float32[2]'],
        lambda: run(links=sampling(halves_its_carry, jnp.arange(2))),
    ),
    'edges of others': (
        'participation',
        ['`edges`'],
        lambda: run(links=peers(edges=MASK)),
    ),
    'edges that are no flags': (
        'participation',
        ['`edges`', 'bool[2, 1]'],
        lambda: run(links=peers(edges=jnp.ones((2, 1)))),
    ),
    'probabilities of other edges': (
        'participation',
        ['`edge_prob`'],
        lambda: run(links=peers(edge_prob=jnp.ones(2))),
    ),
    'given links with a soft mask': (
        'participation',
        ['`mask`', 'bool[2, 2]'],
        lambda: run(links=LinkSample(np.ones((2, 2)), np.ones((2, 2)))),
    ),
    'a cohort of three kinds of two clients': (
        'participation',
        ['`chance`', '1 or 2 kinds', 'got 3'],
        lambda: run(links=cohort(jnp.ones((2, 3)))),
    ),
    'a cohort with the kinds of three clients': (
        'participation',
        ['`kinds` of 2 clients', 'from 0 to 1', 'got [0, 1, 1]'],
        lambda: run(links=cohort(jnp.ones((2, 2)), [0, 1, 1])),
    ),
    'a cohort with a kind that has no chance': (
        'participation',
        ['`kinds` of 2 clients', 'from 0 to 1', 'got [0, 2]'],
        lambda: run(links=cohort(jnp.ones((2, 2)), [0, 2])),
    ),
    'a cohort with whole percentages': (
        'participation',
        ['`chance`', 'float[2, 1]', 'int32[2, 1]'],
        lambda: run(links=cohort(jnp.ones((2, 1), int))),
    ),
    'a round without a state': (
        'state',
        ['FederationState', 'got 3'],
        lambda: simulation.run_round(3, KEY, FEDAVG, COINS, PROBLEM),
    ),
    'a round without a key': (
        'key',
        ['jax.random.key(0)', 'got 3'],
        lambda: simulation.run_round(begin(), 3, FEDAVG, COINS, PROBLEM),
    ),
    'no function to extrapolate': (
        'make_algorithm',
        ['a function'],
        lambda: fl.algorithms.richardson(FEDAVG),
    ),
    'no algorithm to extrapolate': (
        'algorithm',
        ['got 3'],
        lambda: fl.algorithms.richardson(lambda rate: 3)(0.1),
    ),
    'no optimizer of a rate': (
        'optimizer',
        ['an optax transformation', 'got 3'],
        lambda: run(
            fl.ALGORITHMS['fedavg'](
                local_training.local_sgd(0.1, local_steps=1, optimizer=lambda rate: 3)
            )
        ),
    ),
    'links of one round': (
        'participation',
        ['links of all rounds', '[2]'],
        lambda: run(links=ONE_ROUND),
    ),
    'links of one round to advance under': (
        'links',
        ['links of all rounds', '[2]'],
        lambda: simulation.advance(begin(), KEY, ONE_ROUND, FEDAVG, PROBLEM),
    ),
    'links of no round to advance under': (
        'links',
        ['at least one round', 'got 0'],
        lambda: simulation.advance(
            begin(),
            KEY,
            LinkSample(np.ones((0, 2), bool), np.ones((0, 2))),
            FEDAVG,
            PROBLEM,
        ),
    ),
    'links of other clients to advance under': (
        'links',
        ['2 clients', 'got 3'],
        lambda: simulation.advance(
            begin(),
            KEY,
            LinkSample(np.ones((2, 3), bool), np.ones((2, 3))),
            FEDAVG,
            PROBLEM,
        ),
    ),
    'links of other clients in a round': (
        'participation',
        ['`mask` as bool[2]', 'bool[3]'],
        lambda: simulation.run_round(
            begin(), KEY, FEDAVG, LinkSample(np.ones(3, bool), np.ones(3)), PROBLEM
        ),
    ),
    'a pattern of other clients in a round': (
        'participation',
        ['`mask` as bool[2]', 'bool[3]'],
        lambda: simulation.run_round(
            begin(), KEY, FEDAVG, participation.always(3), PROBLEM
        ),
    ),
    'far more rounds between evaluations than there are': (
        'eval_every',
        ['nearest smaller divisor is 2'],
        lambda: run(eval_every=2**31 - 1),
    ),
    'another state from a round': (
        'algorithm',
        ['round_step', 'server'],
        lambda: run(stepping(loses_its_state)),
    ),
    'a state of other numbers': (
        'algorithm',
        ['bfloat16[2] at .server', 'float32[2]'],
        lambda: run(stepping(halves_its_state)),
    ),
    'no server model': (
        'algorithm',
        ['`server`', 'mean'],
        lambda: run(FEDAVG._replace(models=lambda state: {'mean': state.server})),
    ),
    'a schedule to extrapolate': (
        'learning_rate',
        ['schedule'],
        lambda: fl.algorithms.richardson(lambda rate: FEDAVG)(
            fl.learning_rates.inverse_sqrt(0.1)
        ),
    ),
    'more rounds to wait than there are clients': (
        'separation',
        ['at most 2, got 7'],
        lambda: participation.minimum_separation(
            np.ones(6), separation=7, cohort_size=2
        ),
    ),
}
"""By mistake: the field, words of the message, and a function that makes the mistake."""
