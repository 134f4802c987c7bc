"""Edges in place of uplinks: paired differences of the recorded map, and a code's chance of a step.

python -m studies.connectivity
"""

from collections.abc import Iterator
from pathlib import Path

from fedjax_links import analysis, runs
from fedjax_links.report import run_view

RECORD = Path(__file__).parent / 'records' / 'connectivity'
LOSSES = (0.0, 0.8, 0.95)
EDGES = (0.0, 0.1, 0.3, 1.0)
PAIRS = (
    ('s2s', 'fedpbc'),
    ('s2s', 'gossip'),
    ('s2s', 's2a'),
    ('s2s', 'colrel'),
    ('colrel', 'fedau'),
)
UPLINKS = (0.99, 0.95, 0.9, 0.5)
CLIENT_LINKS = (1.0, 0.99, 0.9)
TOLERANCES = (0, 2, 5, 10)


def differences() -> Iterator[str]:
    """Yields differences by loss and edges, and those to FedPBC whose uplinks lose nothing."""
    view = run_view.from_run(runs.read(RECORD))
    ends = view.final_metrics(None, None)
    (pattern,) = view.patterns

    def difference(
        algorithm: tuple[str, float, float], base: tuple[str, float, float]
    ) -> str:
        label = _label(view, *algorithm)
        other = _label(view, *base)
        key = run_view.FinalKey(pattern, label, view.main_models[label])
        paired = view.paired_difference(ends, key, other)
        if paired is None:
            return ''
        return ends.metric.interval(paired, signed=True, wide=paired.wide)

    titles = [f'{view.name(one)} - {view.name(other)}' for one, other in PAIRS]
    yield f'| lost | edges up | {" | ".join(titles)} | S2S - FedPBC, none lost |'
    yield f'{"| --- " * (3 + len(PAIRS))}|'
    for loss in LOSSES:
        for prob in EDGES:
            cells = [
                difference((one, loss, prob), (other, loss, prob))
                for one, other in PAIRS
            ]
            cells.append(difference(('s2s', loss, prob), ('fedpbc', 0.0, 0.0)))
            yield f'| {loss:g} | {prob:g} | {" | ".join(cells)} |'


def _label(view: run_view.RunView, algorithm: str, loss: float, prob: float) -> str:
    """Returns the label of an algorithm's series at a point of the grid."""
    point = {'links.pattern.loss': loss, 'links.prob': prob}
    for label, (name, series_point) in view.members.items():
        if name == algorithm and dict(series_point) == point:
            return label
    raise KeyError(algorithm, point)


def codes(num_clients: int = 50) -> Iterator[str]:
    """Yields the chance of a step of CoGC by edges, uplinks and tolerance."""
    yield f'| edges up | uplinks up | {" | ".join(f"r = {r}" for r in TOLERANCES)} |'
    yield f'{"| --- " * (2 + len(TOLERANCES))}|'
    for q in CLIENT_LINKS:
        for p in UPLINKS:
            chances = [
                analysis.cogc_probability(num_clients, p, q, r) for r in TOLERANCES
            ]
            yield f'| {q:g} | {p:g} | {" | ".join(f"{100 * each:.1f} %" for each in chances)} |'


if __name__ == '__main__':
    print(*differences(), '', *codes(), sep='\n')
