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

from fedjax_links import runs
from fedjax_links.core import paths
from fedjax_links.pages import figure
from fedjax_links.plot import scripts
from fedjax_links.report import layouts, run_view
from fedjax_links.report.run_view import RunView
from fedjax_links.storage import checkpoints

PAGE = 'live.html'
_MOST_LINES = 40
_STYLE = 'body{font:15px sans-serif;max-width:76em;margin:2em auto}img{max-width:100%}'


def read(folder: str | Path) -> RunView:
    """What a run has so far.

    Args:
      folder: of a run, finished or not.

    Returns:
      Every series that has begun; in `Source.missing` who is not finished; realised links up to
      the round that the first seed has reached.

    Raises:
      ValueError: if the folder holds no run.
    """
    run = runs.read(folder, verify=False)
    found = run_view.of_run(run, so_far=True)
    has_begun = found.data['begun'].any(('model', 'pattern', 'seed')).values
    data, metric = (
        found.data.isel(series=np.flatnonzero(has_begun)),
        run.facts['metric'],
    )
    if not has_begun.any():
        return dataclasses.replace(found, data=data, links={})
    shown = data[metric].sel(model=data['main_model'])  # [L, P, S, E]
    place = np.arange(1, shown.sizes['round'] + 1)
    ends = (np.isfinite(shown.values) * place).max(axis=-1)
    half = np.maximum((ends > 0).sum(axis=-1, keepdims=True) - 1, 0) // 2
    reached = np.take_along_axis(-np.sort(-ends, axis=-1), half, axis=-1)
    begun = data['begun'].copy(data=data['begun'].values & (ends >= reached)[:, None])
    form = data[metric].isel(model=0, seed=0, drop=True)
    data = data.where(form.copy(data=place <= reached)).assign_coords(begun=begun)
    first = int(ends[..., 0].max())
    rounds = int(found.rounds[first - 1]) - run.facts.get('at_round', 0) if first else 0
    links = {
        k: own._replace(mask=own.mask[:rounds])
        for k, own in found.links.items()
        if rounds
    }
    return dataclasses.replace(found, data=data, links=links)


def levels(found: RunView) -> Iterator[str]:
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
    found: RunView, folder: str | Path, lines: Sequence[str], *, seconds: float | None
) -> None:
    """Writes `PAGE`, one file that needs no other.

    Args:
      found: from `read`.
      folder: where to.
      lines: that stand above the pictures.
      seconds: after which a browser loads it anew; None where nothing more is to come.
    """
    pages = layouts.build(found, {'curves': 'curves'}).values() if found.members else ()
    again = (
        '' if seconds is None else f'<meta http-equiv="refresh" content="{seconds:g}">'
    )
    parts = [f'<!doctype html><html lang="en"><meta charset="utf-8">{again}']
    title = html.escape(found.title)
    parts.append(f'<title>{title}</title><style>{_STYLE}</style><h1>{title}</h1>')
    parts.append(f'<pre>{html.escape(chr(10).join(lines))}</pre>')
    stand_ins: dict[str, str] = {}
    for page in pages:
        parts.append(f'<h2>{html.escape(page.heading)}</h2>')
        if page.draw is not None:
            around: dict[str, Any] = {'title': '', 'caption': '', 'size': page.size}
            picture = figure.render(page.draw, **around, stand_ins=stand_ins)
            encoded = base64.b64encode(picture).decode()
            parts.append(f'<img alt="" src="data:image/png;base64,{encoded}">')
        parts += [f'<pre>{html.escape(table.text())}</pre>' for table in page.tables]
    parts.append(f'<p>{html.escape(scripts.explanation(stand_ins))}</p>')
    checkpoints.write_atomically(
        paths.as_path(folder) / PAGE, '\n'.join(parts).encode()
    )
