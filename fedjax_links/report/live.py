"""Shows a run in progress: as lines, and as a page that reloads itself.

`read` reads the folder of the run, while other processes may write there. If some seeds of a series
are ahead of others, the curve ends with the median seed. It leaves out the seeds behind that one.
"""

import base64
import dataclasses
import html
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from fedjax_links import runs
from fedjax_links.core import paths
from fedjax_links.pages import figure
from fedjax_links.plot import scripts
from fedjax_links.report import layouts, run_view
from fedjax_links.report.run_view import RunView
from fedjax_links.results.dataset import LabelledResults
from fedjax_links.storage import atomic_files

PAGE = 'live.html'
_MOST_LINES = 40
"""Lines of a kind that fit a terminal."""
_STYLE = (
    'body{font:15px sans-serif;max-width:76em;margin:2em auto;padding:0 1em}'
    'img{max-width:100%}'
    'pre{white-space:pre-wrap;padding-left:9ch;margin:0;text-indent:-9ch}'
    'div{overflow-x:auto}td,th{padding:0 1.5em 0 0;text-align:left;font-weight:normal;'
    'vertical-align:top}'
    'table{border-collapse:collapse;border-top:1px solid;border-bottom:1px solid}'
    'th{border-bottom:1px solid}div+p{margin-top:.5em}'
)
_VIEWPORT = '<meta name="viewport" content="width=device-width">'
"""Makes the page readable on a phone."""


def read(folder: str | Path) -> RunView:
    """Reads what a run has measured so far.

    Args:
      folder: the folder of a run, finished or not.

    Returns:
      All series that have started. `RunView.missing` lists the algorithms that are not finished.
      Realised links end at the round that the first seed has reached.

    Raises:
      ValueError: if the folder holds no run.
    """
    run = runs.read(folder, verify=False)
    view = run_view.from_run(run, so_far=True)
    has_started = view.data['started'].any(('model', 'pattern', 'seed')).values
    data = view.data.isel(series=np.flatnonzero(has_started))
    if not has_started.any():
        return dataclasses.replace(view, data=data, links={})
    metric = run.facts['metric']
    # All models are measured at the same time, so the main one shows how far a seed is.
    measured = data[metric].sel(model=data['main_model'])
    counts = np.arange(1, measured.sizes['round'] + 1)
    num_done = np.where(np.isfinite(measured.values), counts, 0).max(axis=-1)
    num_shown = _upper_median(num_done)

    # Curves end with the median seed, and leave out seeds that completed fewer rounds.
    is_seed_shown = _started(data) & (num_done >= num_shown)[:, None]
    one_value_per_curve = data[metric].isel(model=0, seed=0, drop=True)
    is_evaluation_shown = one_value_per_curve.copy(data=counts <= num_shown)
    seed_shown = data['started'].copy(data=is_seed_shown)
    data = data.where(is_evaluation_shown).assign_coords(started=seed_shown)

    # Links end at the round that the first seed has reached.
    num_rounds = 0
    num_done_of_first_seed = num_done[..., 0].max()
    if num_done_of_first_seed:
        last_round = int(view.rounds[num_done_of_first_seed - 1])
        num_rounds = last_round - run.facts.get('at_round', 0)
    links = {}
    if num_rounds:
        links = {
            pattern: recorded._replace(mask=recorded.mask[:num_rounds])
            for pattern, recorded in view.links.items()
        }
    return dataclasses.replace(view, data=data, links=links)


def _started(data: LabelledResults) -> np.ndarray:
    """Returns the lanes (single simulations) that have started: bool[series, model, pattern, seed].

    Where a series has no such lane under a pattern, all seeds count, and the curve there is NaN.
    """
    started = np.asarray(data['started'].values)
    has_model = started.any(axis=(2, 3), keepdims=True)
    has_lanes = started.any(axis=3, keepdims=True)
    return started | (has_model & ~has_lanes)


def _upper_median(num_done: np.ndarray) -> np.ndarray:
    """Returns the upper median over the seeds that have started: int[series, pattern, 1].

    Args:
      num_done: int[series, pattern, seed], evaluations.
    """
    num_started = (num_done > 0).sum(axis=-1, keepdims=True)
    median_index = np.maximum(num_started - 1, 0) // 2
    descending = np.flip(np.sort(num_done, axis=-1), axis=-1)
    return np.take_along_axis(descending, median_index, axis=-1)


def progress_lines(view: RunView) -> Iterator[str]:
    """Yields the last metric of each series and pattern, what diverged, and unfinished algorithms.

    Args:
      view: from `read`.
    """
    metric = view.metric()
    rows = view.rows()
    for key in rows[:_MOST_LINES]:
        values = view.curve(metric.name, key)
        num_done = int(np.isfinite(values).all(axis=0).sum())
        if not num_done:
            continue
        mean = metric.number(values[:, num_done - 1].mean())
        if metric.is_fraction:
            mean += ' %'
        name = view.name(key.series)
        if len(view.patterns) > 1:
            name += f', {view.name(key.pattern)}'
        last_round = view.rounds[num_done - 1]
        seeds = f'{len(values)} of {view.num_seeds} seeds'
        yield f'metric   {name}: {metric.words} {mean} in round {last_round:,}, {seeds}'
    if len(rows) > _MOST_LINES:
        yield f'metric   and {len(rows) - _MOST_LINES} more'
    for phrase in view.diverged[:_MOST_LINES]:
        yield f'diverged {phrase}'
    if len(view.diverged) > _MOST_LINES:
        yield f'diverged and {len(view.diverged) - _MOST_LINES} more'
    if view.missing:
        yield f'open     {", ".join(view.missing)}'


def write(
    view: RunView, folder: str | Path, lines: Sequence[str], *, seconds: float | None
) -> None:
    """Writes `PAGE`, one file that needs no other.

    Args:
      view: from `read`.
      folder: where the page goes.
      lines: the text above the pictures.
      seconds: time after which a browser reloads the page; None if the run has ended.
    """
    refresh = ''
    if seconds is not None:
        refresh = f'<meta http-equiv="refresh" content="{seconds:g}">'
    title = html.escape(view.title)
    parts = [
        f'<!doctype html><html lang="en"><meta charset="utf-8">{_VIEWPORT}{refresh}',
        f'<title>{title}</title><style>{_STYLE}</style><h1>{title}</h1>',
        # A long line wraps below its text.
        *(f'<pre>{html.escape(line)}</pre>' for line in lines),
    ]
    stand_ins: dict[str, str] = {}
    pages = layouts.build(view, {'curves': 'curves'}) if view.members else {}
    for page in pages.values():
        parts.append(f'<h2>{html.escape(page.heading)}</h2>')
        if page.draw is not None:
            picture = figure.render(
                page.draw, title='', caption='', size=page.size, stand_ins=stand_ins
            )
            encoded = base64.b64encode(picture).decode()
            parts.append(f'<img alt="" src="data:image/png;base64,{encoded}">')
        parts += [table.as_html() for table in page.tables]
    parts.append(f'<p>{html.escape(scripts.explanation(stand_ins))}</p>')
    atomic_files.write(paths.as_path(folder) / PAGE, '\n'.join(parts).encode())
