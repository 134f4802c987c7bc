"""Tables and pictures from run folders; nothing here trains.

`write` turns any folder into ``report.md`` with pictures, `table` gives a table of it as data or as
LaTeX, and `check` tells before a run whether the pages that an experiment asks for can be made of
it. A page is made by a layout (`report.layouts`).

Losses of the clients at final models and the exact laws of links need the problem itself: `write`
computes them where it is given the experiment, as by the command ``simulate`` at the end of a run,
and keeps them in the folder (``clients.npz``). Reports of the folder alone show what was kept, and
say where nothing was.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedjax_links import runs
from fedjax_links.core import checks, errors
from fedjax_links.experiment import Experiment

__all__ = ['check', 'table', 'write']


def write(
    run: runs.Results,
    experiment: Experiment | None = None,
    *,
    added: Mapping[str, Any] | None = None,
    allow_imports: bool = False,
) -> str:
    """Writes ``report.md`` and its pictures into the run's folder.

    A folder is data: what its pages name outside the package is not imported, and the report says
    what it lacks for it.

    Args:
      run: from `runs.read`, or `Experiment.run` with a folder.
      experiment: what ran, if it is at hand: then losses and laws (`clients`) are computed anew and
        kept, for this report and all later ones, and pages of its own may name any code.
      added: further pages, in the form of the config's section ``reports``.
      allow_imports: whether the folder may name code outside the package, which is imported.

    Returns:
      The tables as text, and what was written.

    Raises:
      ValueError: if no algorithm is done, or naming the field of a report and its value.
    """
    from fedjax_links.report import client_stats, layouts, run_view

    if experiment is not None:
        client_stats.keep(experiment, run)
    found = run_view.of_run(run, experiment, allow_imports=allow_imports)
    own: Mapping[str, Any] = run.facts['reports']
    lacking: list[str] = []
    if experiment is not None and experiment.reports:
        own = experiment.reports
    elif not allow_imports:
        own, lacking = layouts.recorded(own)
    pages = layouts.build(found, {**(own or layouts.default(found)), **(added or {})})
    shown = [layouts.text(pages), *lacking]
    if run.folder is None:
        return '\n\n'.join(shown)
    written = layouts.write(run.folder, found, pages, lacking)
    return '\n\n'.join(['', *shown, f'Wrote {", ".join(written)} to {run.folder}'])[1:]


def table(
    run: runs.Results | str | Path,
    page: str = 'levels',
    *,
    form: str = 'data',
    number: int = 0,
    allow_imports: bool = False,
    **options: Any,
) -> Any:
    """A table that a report prints.

    ::

      fl.report.table('runs/quickstart').to_csv('levels.csv')
      print(fl.report.table('runs/quickstart', 'metrics', form='latex'))

    Args:
      run: from `runs.read`, or its folder, finished or not.
      page: one of the config's ``reports``, or a layout by its name.
      form: ``'data'`` for a `pandas.DataFrame`, whose numbers are those that are printed and whose
        ``attrs['caption']`` says what they are; ``'csv'`` or ``'latex'`` (package booktabs) for a
        text.
      number: which of the page's tables, from 0.
      allow_imports: as in `write`.
      **options: of the layout, in place of those of the config.

    Returns:
      The table.

    Raises:
      ValueError: if no algorithm is done, for an unknown page, form or option, a page without such
        a table, or one that names code outside the package and may not.
    """
    from fedjax_links.config import bound, resolver
    from fedjax_links.report import layouts, run_view

    run = run if isinstance(run, runs.Results) else runs.read(run)
    checks.choice('form', form, ('data', 'csv', 'latex'))
    checks.choice('page', page, [*run.facts['reports'], *layouts.LAYOUTS])
    kept = run.facts['reports'].get(page, page)
    bound.check_recorded(f'config.reports.{page}', kept, allow_imports=allow_imports)
    section = {**resolver.as_mapping(f'config.reports.{page}', kept), **options}
    named = f'config.reports.{page}', section, layouts.LAYOUTS
    found = resolver.build_named(
        *named, run_view.of_run(run, allow_imports=allow_imports)
    ).tables
    if not 0 <= number < len(found):
        has = f'{len(found)} of {page!r}' if found else f'{page!r}, which has none'
        raise errors.invalid(
            'number', 'be that of a table, from 0', f'{number}, with {has}'
        )
    if form == 'latex':
        return found[number].latex()
    return (
        found[number].data()
        if form == 'data'
        else found[number].data().to_csv(index=False)
    )


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
    from fedjax_links.report import layouts, run_view

    layouts.build(run_view.blank(experiment), experiment.reports)
