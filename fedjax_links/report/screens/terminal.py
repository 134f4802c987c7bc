"""Links on a terminal: about 30 lines of 80 columns in Unicode blocks."""

import textwrap

import numpy as np

from fedjax_links import analysis
from fedjax_links.participation.laws import LinkLaw
from fedjax_links.report.screens.link_statistics import chain, foldable, stated_rates
from fedjax_links.report.screens.recording import LinkRecord

_SHADES, _HEIGHTS = ' ░▒▓█', ' ▁▂▃▄▅▆▇█'
_WIDTH, _LABEL = 80, 10
_CELLS = _WIDTH - _LABEL - 2
_MAP_ROWS, _GAP_ROWS, _BAR = 10, 7, 36


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
    period = foldable(law, len(active))
    lines = [title, *textwrap.wrap(f'links: {law.description}', _WIDTH)]
    if record.duplex:
        shares = {'delivers': record.delivers, 'hears': record.hears, 'can train': record.computes}
        means = [f'{name} {mask.mean():.3f}' for name, mask in shares.items()]
        lines.append(', '.join([f'means: takes part {active.mean():.3f}', *means]))
    lines += _map(active, period) + _rates(record, law) + _sizes(active, period)
    lines += _gaps(active, law)
    return '\n'.join(line[:_WIDTH].rstrip() for line in lines)


def _map(active: np.ndarray, period: int | None) -> list[str]:
    """Clients by rate downwards, rounds to the right, the darker the more take part."""
    per_cell = max(1, -(-2 * (period or 0) // _CELLS))
    columns = min(_CELLS, len(active) // per_cell)
    shown = active[: columns * per_cell, np.argsort(-active.mean(axis=0), kind='stable')]
    groups = np.array_split(np.arange(active.shape[1]), min(_MAP_ROWS, active.shape[1]))
    cells = shown.reshape(columns, per_cell, -1).mean(axis=1)
    beside = f', {per_cell} rounds a cell' if per_cell > 1 else ''
    rounds = f'by round 0 to {columns * per_cell - 1}{beside}'
    lines = [f'clients, best first ({len(groups)} bands), {rounds}']
    for group in groups:
        level = np.ceil(cells[:, group].mean(axis=1) * (len(_SHADES) - 1)).astype(int)
        lines.append(_line(_span(group[0] + 1, group[-1] + 1), ''.join(_SHADES[k] for k in level)))
    return lines


def _rates(record: LinkRecord, law: LinkLaw) -> list[str]:
    rates, active = {'realised': record.participates.mean(axis=0)}, record.participates
    order = np.argsort(-rates['realised'], kind='stable')
    name, stated = stated_rates(law, record)
    if stated is not None and not np.isnan(stated).any():
        rates[name] = stated
    most = max(each.max() for each in rates.values())
    lines = [f'rate per client, best first, 0 to {most:.3g}, over {len(active):,} rounds']
    return lines + [_line(name, _spark(each[order], most)) for name, each in rates.items()]


def _sizes(active: np.ndarray, period: int | None) -> list[str]:
    sizes = active.sum(axis=1)
    shown, where = sizes[:_CELLS], f'of the first {min(_CELLS, len(sizes))} rounds'
    if period is not None:
        whole = sizes[: len(sizes) // period * period].reshape(-1, period)
        shown, where = whole.mean(axis=0), f'by round modulo {period}'
    mean, empty = f'{sizes.mean():.3g}', f'{np.mean(sizes == 0):.1%}'
    line = f'participants {where}, 0 to {shown.max():.3g}; mean {mean}, {empty} of rounds empty'
    return [line, _line('', _spark(shown, shown.max()))]


def _gaps(active: np.ndarray, law: LinkLaw) -> list[str]:
    counts = analysis.gap_counts(active)
    if not counts.any():
        return ['gaps: nobody took part twice']
    longest = int(np.flatnonzero(counts)[-1])
    edges = 2 ** np.arange(min(_GAP_ROWS, longest.bit_length()) + 1)
    edges[-1] = max(edges[-1], longest + 1)
    every = [counts[: longest + 1]]
    if (rates := chain(law)) is not None:
        every.append(analysis.expected_gap_counts(*rates, len(active), longest))
    columns = [np.add.reduceat(each, edges[:-1]) / each.sum() for each in every]
    exact = ', exact' if len(every) > 1 else ''
    lines = [f'rounds from one participation to the next: share{exact}']
    for start, stop, *shares in zip(edges[:-1], edges[1:], *columns, strict=True):
        bar = '█' * round(_BAR * shares[0] / columns[0].max())
        numbers = ''.join(f' {share:6.3f}' for share in shares)
        lines.append(_line(_span(start, stop - 1), f'{bar:<{_BAR}}{numbers}'))
    return lines


def _line(label: str, cells: str) -> str:
    return f'{label:>{_LABEL}} |{cells}'


def _span(first: int, last: int) -> str:
    return f'{first}-{last}' if last > first else f'{first}'


def _spark(values: np.ndarray, most: float) -> str:
    """One block per value, or per band of values where there are more than fit."""
    bands = np.array_split(values, min(_CELLS, len(values)))
    means = np.array([band.mean() for band in bands])
    scale = (len(_HEIGHTS) - 1) / most if most > 0 else 0.0
    return ''.join(_HEIGHTS[k] for k in np.ceil(means * scale).astype(int).clip(0, 8))
