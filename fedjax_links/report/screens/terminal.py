"""Links on a terminal: about 30 lines of 80 columns in Unicode blocks."""

import numpy as np

from fedjax_links import analysis
from fedjax_links.participation.laws import LinkLaw
from fedjax_links.report.screens import link_statistics
from fedjax_links.report.screens.recording import LinkRecord

_SHADES, _HEIGHTS = ' ░▒▓█', ' ▁▂▃▄▅▆▇█'
_WIDTH, _LABEL = 80, 12
_CELLS = _WIDTH - _LABEL
_MAP_ROWS, _GAP_ROWS, _BAR = 10, 8, 36
_SHOWN_LAGS = (1, 2, 5, 10, 20, 50)


def picture(title: str, record: LinkRecord, law: LinkLaw) -> str:
    """The page as text.

    Args:
      title: first line.
      record: the links.
      law: what is known exactly.

    Returns:
      Lines of at most 80 columns.
    """
    active = record.participates
    period = link_statistics.foldable(law, record.num_rounds)
    lines = [title[:_WIDTH], f'links: {law.description}'[:_WIDTH]]
    if record.duplex:
        shares = (active, record.delivers, record.hears, record.computes)
        names = ('takes part', 'delivers', 'hears', 'can train')
        pairs = zip(names, shares, strict=True)
        lines.append('means: ' + ', '.join(f'{name} {mask.mean():.3f}' for name, mask in pairs))
    lines += _map(active, period)
    lines += _rates(record, law)
    lines += _sizes(active, period)
    lines += _gaps(active, law)
    lines += _memory(active, law)
    return '\n'.join(line.rstrip() for line in lines)


def _map(active: np.ndarray, period: int | None) -> list[str]:
    """Clients by rate downwards, rounds to the right, the darker the more take part."""
    per_cell = max(1, -(-2 * (period or 0) // _CELLS))
    columns = min(_CELLS, len(active) // per_cell)
    shown = active[: columns * per_cell, np.argsort(-active.mean(axis=0), kind='stable')]
    groups = np.array_split(np.arange(active.shape[1]), min(_MAP_ROWS, active.shape[1]))
    cells = shown.reshape(columns, per_cell, -1).mean(axis=1)
    lines = [
        f'clients, best first ({len(groups)} bands), by round 0 to {columns * per_cell - 1}'
        + (f', {per_cell} rounds a cell' if per_cell > 1 else '')
    ]
    for group in groups:
        level = np.ceil(cells[:, group].mean(axis=1) * (len(_SHADES) - 1)).astype(int)
        ranks = f'{group[0] + 1}-{group[-1] + 1}' if len(group) > 1 else f'{group[0] + 1}'
        lines.append(f'{ranks:>{_LABEL - 2}} |' + ''.join(_SHADES[k] for k in level))
    return lines


def _rates(record: LinkRecord, law: LinkLaw) -> list[str]:
    realised = record.participates.mean(axis=0)
    order = np.argsort(-realised, kind='stable')
    nominal, name = law.rates, 'exact'
    if nominal is None and not np.isnan(record.nominal_rates).any():
        nominal, name = record.nominal_rates, 'nominal'
    most = max(realised.max(), 0 if nominal is None else nominal.max())
    lines = [f'rate per client, best first, 0 to {most:.3g}, over {record.num_rounds:,} rounds']
    lines.append(_labelled('realised', _spark(realised[order], most)))
    if nominal is not None:
        lines.append(_labelled(name, _spark(nominal[order], most)))
    return lines


def _sizes(active: np.ndarray, period: int | None) -> list[str]:
    sizes = active.sum(axis=1)
    if period is None:
        shown, where = (
            sizes[:_CELLS].astype(float),
            f'of the first {min(_CELLS, len(sizes))} rounds',
        )
    else:
        shown, where = link_statistics.fold(sizes, period).mean, f'by round modulo {period}'
    empty = np.mean(sizes == 0)
    return [
        f'participants {where}, 0 to {shown.max():.3g}; mean {sizes.mean():.3g}, '
        f'{empty:.1%} of rounds empty',
        _labelled('participants', _spark(shown, shown.max())),
    ]


def _gaps(active: np.ndarray, law: LinkLaw) -> list[str]:
    counts = analysis.gap_counts(active)
    if not counts.any():
        return ['gaps: nobody took part twice']
    longest = int(np.flatnonzero(counts)[-1])
    edges = [1]
    while edges[-1] <= longest and len(edges) < _GAP_ROWS:
        edges.append(edges[-1] * 2)
    edges[-1] = max(edges[-1], longest + 1)
    starts = edges[:-1]
    realised = np.add.reduceat(counts[: longest + 1], starts) / counts.sum()
    expected = link_statistics.expected_gap_counts(law, len(active), longest)
    exact = None if expected is None else np.add.reduceat(expected, starts) / expected.sum()
    lines = [
        'rounds from one participation to the next: share' + ('' if exact is None else ', exact')
    ]
    for row, (start, stop) in enumerate(zip(starts, edges[1:], strict=True)):
        name = f'{start}' if stop == start + 1 else f'{start}-{stop - 1}'
        bar = '█' * round(_BAR * realised[row] / realised.max())
        beside = '' if exact is None else f' {exact[row]:6.3f}'
        lines.append(f'{name:>{_LABEL - 2}} |{bar:<{_BAR}} {realised[row]:6.3f}{beside}')
    return lines


def _memory(active: np.ndarray, law: LinkLaw) -> list[str]:
    lags = [lag for lag in _SHOWN_LAGS if lag <= len(active) // 2]
    measured = analysis.autocorrelation(active, lags[-1])
    if np.isnan(measured).all():
        return ['autocorrelation: nobody ever changes']
    exact = link_statistics.expected_autocorrelation(law, lags[-1])
    lines = [f'{"lag":<{_LABEL + 4}}' + ''.join(f'{lag:>9}' for lag in lags)]
    lines.append(
        f'{"autocorrelation":<{_LABEL + 4}}' + ''.join(f'{measured[k]:>9.3f}' for k in lags)
    )
    if exact is not None:
        lines.append(f'{"exact":<{_LABEL + 4}}' + ''.join(f'{exact[k]:>9.3f}' for k in lags))
    return lines


def _labelled(label: str, cells: str) -> str:
    return f'{label:>{_LABEL - 2}} |{cells}' if len(label) <= _LABEL - 2 else f'{"":>10} |{cells}'


def _spark(values: np.ndarray, most: float) -> str:
    """One block per value, or per band of values where there are more than fit."""
    bands = np.array_split(values, min(_CELLS, len(values)))
    means = np.array([band.mean() for band in bands])
    scale = (len(_HEIGHTS) - 1) / most if most > 0 else 0.0
    return ''.join(_HEIGHTS[k] for k in np.ceil(means * scale).astype(int).clip(0, 8))
