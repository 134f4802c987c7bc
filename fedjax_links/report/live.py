"""A run that goes on: where its curves are, in lines and as a page that looks again by itself.

Reads the folder, in which other processes may be at work, and nothing else. Where lanes of several
seeds are not equally far, curves and levels are of those seeds that most have come as far as.
"""

import base64
import dataclasses
import html
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedjax_links import plot, runs
from fedjax_links.report import layouts, source, style
from fedjax_links.report.layouts.page import Page, with_panels
from fedjax_links.report.source import Source
from fedjax_links.storage import checkpoints

PAGE = 'live.html'
_MOST_LINES = 40
_STYLE = 'body{font:15px sans-serif;max-width:76em;margin:2em auto}img{max-width:100%}'


def read(folder: str | Path) -> Source:
    """What a run has so far.

    Args:
      folder: of a run, finished or not.

    Returns:
      Every series that has begun; in `Source.missing` who is not finished; realised links up to
      the round that the first seed has reached.

    Raises:
      ValueError: if the folder holds no run.
    """
    run = runs.read(folder, prove=False)
    found = source.of_run(run, so_far=True)
    has_begun = found.data['begun'].any(('model', 'pattern', 'seed')).values
    data, metric = found.data.isel(series=np.flatnonzero(has_begun)), run.facts['metric']
    if not has_begun.any():
        return dataclasses.replace(found, data=data, links={})
    mains = data['model'].values.tolist(), data['main_model'].values.tolist()
    places = np.array([mains[0].index(model) for model in mains[1]])
    there = np.isfinite(data[metric].values[np.arange(len(places)), places])  # [L, P, S, E]
    count = there.shape[-1]
    ends = np.where(there.any(axis=-1), count - there[..., ::-1].argmax(axis=-1), 0)
    half = np.maximum((ends > 0).sum(axis=-1, keepdims=True) - 1, 0) // 2
    reached = np.take_along_axis(-np.sort(-ends, axis=-1), half, axis=-1)
    begun = data['begun'].copy(data=data['begun'].values & (ends >= reached)[:, None])
    form = data[metric].isel(model=0, seed=0, drop=True)
    data = data.where(form.copy(data=np.arange(count) < reached)).assign_coords(begun=begun)
    first = int(ends[..., 0].max())
    rounds = int(found.rounds[first - 1]) - run.facts.get('at_round', 0) if first else 0
    links = {k: own._replace(mask=own.mask[:rounds]) for k, own in found.links.items() if rounds}
    return dataclasses.replace(found, data=data, links=links)


def levels(found: Source) -> Iterator[str]:
    """A line for the last level of every series under every pattern, and for what diverged.

    Args:
      found: from `read`.
    """
    metric, rows = found.metric(), found.rows()
    for key in rows[:_MOST_LINES]:
        values = found.curve(metric.name, key)
        if end := int(np.isfinite(values).all(axis=0).sum()):
            level = metric.number(values[:, end - 1].mean()) + ' %' * metric.is_share
            who = ', '.join(map(found.name, (key[1], key[0])[: len(found.patterns)]))
            where = f'in round {found.rounds[end - 1]:,}, {len(values)} of {found.num_seeds} seeds'
            yield f'level    {who}: {metric.words} {level} {where}'
    if len(rows) > _MOST_LINES:
        yield f'level    and {len(rows) - _MOST_LINES} more'
    for said in found.diverged[:_MOST_LINES]:
        yield f'diverged {said}'
    if found.missing:
        yield f'open     {", ".join(found.missing)}'


def write(
    found: Source, folder: str | Path, lines: Sequence[str], *, seconds: float | None
) -> None:
    """Writes `PAGE`, one file that needs no other.

    Args:
      found: from `read`.
      folder: where to.
      lines: that stand above the pictures.
      seconds: after which a browser loads it anew; None where nothing more is to come.
    """
    pages = [layouts.curves(found), _participation(found)] if found.members else []
    again = '' if seconds is None else f'<meta http-equiv="refresh" content="{seconds:g}">'
    parts = [f'<!doctype html><html lang="en"><meta charset="utf-8">{again}']
    title = html.escape(found.title)
    parts.append(f'<title>{title}</title><style>{_STYLE}</style><h1>{title}</h1>')
    parts.append(f'<pre>{html.escape(chr(10).join(lines))}</pre>')
    for page in pages:
        if page.draw is not None:
            picture = style.render(page.draw, title='', caption='', size=page.size)
            encoded = base64.b64encode(picture).decode()
            parts.append(f'<h2>{html.escape(page.heading)}</h2>')
            parts.append(f'<img alt="{page.heading}" src="data:image/png;base64,{encoded}">')
            parts += [f'<pre>{html.escape(table.text())}</pre>' for table in page.tables]
    checkpoints.write_whole(Path(folder) / PAGE, '\n'.join(parts).encode())


def _participation(found: Source) -> Page:
    """Who took part so far, of the first seed."""

    def draw(axes: Any, label: str) -> None:
        kept = found.links[label]
        plot.participation_rates(kept.mask, kept.mean_prob, ax=axes)
        axes.set_title(found.name(label), fontsize=10)

    page = Page('Participation of the first seed', layouts.participation(found).tables[:1])
    return with_panels(page, [*found.links], draw, panel=(3.6, 2.8))
