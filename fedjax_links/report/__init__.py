"""Tables and pictures from run folders; nothing here trains.

`write` turns any folder into ``report.md`` with pictures; `check` tells before a run whether the
pages that an experiment asks for can be made of it. A page is made by a layout
(`report.layouts`).

Losses of the clients at final models and the exact laws of links need the problem itself: `write`
computes them where it is given the experiment, as by the command ``simulate`` at the end of a run,
and keeps them in the folder (``clients.npz``). Reports of the folder alone show what was kept, and
say where nothing was.
"""

from collections.abc import Mapping
from typing import Any

from fedjax_links import runs
from fedjax_links.experiment import Experiment

__all__ = ['check', 'write']


def write(
    run: runs.Results,
    experiment: Experiment | None = None,
    *,
    added: Mapping[str, Any] | None = None,
) -> str:
    """Writes ``report.md`` and its pictures into the run's folder.

    Args:
      run: from `runs.read`, or `Experiment.run` with a folder.
      experiment: what ran, if it is at hand: then losses and laws (`clients`) are computed anew and
        kept, for this report and all later ones.
      added: further pages, in the form of the config's section ``reports``.

    Returns:
      The tables as text, and what was written.

    Raises:
      ValueError: if no algorithm is done, or naming the field of a report and its value.
    """
    from fedjax_links.report import clients, layouts, source

    if experiment is not None:
        clients.keep(experiment, run)
    found = source.of_run(run, experiment)
    own = run.facts['reports']
    pages = layouts.build(found, {**(own or layouts.default(found)), **added} if added else own)
    if run.folder is None:
        return layouts.text(pages)
    written = layouts.write(run.folder, found, pages)
    return f'\n{layouts.text(pages)}\n\nWrote {", ".join(written)} to {run.folder}'


def check(experiment: Experiment) -> None:
    """Makes every page of an experiment from zeros, so that mistakes show before anything runs.

    Pages that nobody asked for have no mistakes, and what reads results (0.5 s) is not loaded.

    Args:
      experiment: the experiment.

    Raises:
      ValueError: naming the field, its value and the nearest valid name.
    """
    if not experiment.reports:
        return
    from fedjax_links.report import layouts, source

    layouts.build(source.blank(experiment), experiment.reports)
