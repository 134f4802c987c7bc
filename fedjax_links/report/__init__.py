"""Tables and pictures from run folders; nothing here trains.

`write` turns any folder into ``report.md`` with pictures. `table` returns a table of it as data or
as LaTeX, and `save_pictures` saves its pictures for a paper. `check` dry-runs the pages of an
experiment before it starts. Pages are made by layouts (`report.layouts`).

Losses of the clients at final models need the problem itself. So do the laws of links: the exact
probabilities of who takes part. Given the experiment, `write` computes both and records them in the
folder (``clients.npz``). The command ``simulate`` does so at the end of a run. Reports of the
folder alone show what was recorded, and say if nothing was.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedjax_links import runs
from fedjax_links.core import checks, errors
from fedjax_links.core.records import Section
from fedjax_links.core.registry import current_name
from fedjax_links.experiment import Experiment

if TYPE_CHECKING:
    from fedjax_links.report.layouts.page import Page
    from fedjax_links.report.run_view import RunView

__all__ = ['check', 'save_pictures', 'table', 'write']


def write(
    run: runs.Results,
    experiment: Experiment | None = None,
    *,
    added: Mapping[str, Any] | None = None,
    allow_imports: bool = False,
) -> str:
    """Writes ``report.md`` and its pictures into the run's folder.

    A folder is data, so code outside the package that its pages name is not imported. The report
    says what it lacks without that code.

    Args:
      run: from `runs.read`, or `Experiment.run` with a folder.
      experiment: what ran, if it is at hand. Then losses of clients and laws of links are computed
        and recorded, for this report and all later ones. The experiment's own pages may name any
        code.
      added: further pages, in the form of the config's section ``reports``.
      allow_imports: whether the folder may name code outside the package, which is imported.

    Returns:
      The tables as text, and the names of the files written. Nothing is written if the results have
      no folder.

    Raises:
      ValueError: if no algorithm is done, or naming the field of a report and its value.
    """
    from fedjax_links.report import client_stats, layouts, run_view

    checks.flags(allow_imports=allow_imports)
    if added is not None and not hasattr(added, 'items'):
        raise errors.invalid('added', 'be pages by name', errors.text_of(added))
    if experiment is not None:
        _check_experiment(experiment)
        client_stats.save(experiment, run)
    view = run_view.from_run(run, experiment, allow_imports=allow_imports)
    reports, lacking = _reports_of(view)
    pages = layouts.build(view, {**reports, **(added or {})})
    shown = [layouts.text(pages), *lacking]
    if run.folder is None:
        return '\n\n'.join(shown)
    files = layouts.write(run.folder, view, pages, lacking)
    shown.append(f'Wrote {", ".join(files)} to {run.folder}')
    # A command prints it below the progress of the run.
    return '\n' + '\n\n'.join(shown)


def _check_experiment(experiment: object) -> None:
    """Raises for what is no experiment."""
    if not isinstance(experiment, Experiment):
        requirement = 'be an experiment, such as `experiment.build` returns'
        raise errors.invalid('experiment', requirement, errors.text_of(experiment))


def _reports_of(view: 'RunView') -> tuple[Section, list[str]]:
    """Returns the pages of a run's config, or the default pages, and what these pages lack."""
    from fedjax_links.report import layouts

    reports: Section = view.run.facts['reports'] if view.run is not None else {}
    lacking: list[str] = []
    if view.experiment is not None and view.experiment.reports:
        reports = view.experiment.reports
    elif not view.allow_imports:
        reports, lacking = layouts.pages_of_package(reports)
    return reports or layouts.default(view), lacking


def save_pictures(
    run: runs.Results | str | Path,
    folder: str | Path | None = None,
    *,
    form: str = 'pdf',
    width: float | None = None,
    pages: Sequence[str] = (),
    allow_imports: bool = False,
) -> list[str]:
    """Saves the pictures of a report for a paper, each without its title.

    ::

      fl.report.save_pictures('runs/quickstart', 'paper', width=3.3)

    Args:
      run: from `runs.read`, or its folder, finished or not.
      folder: where the files go, made if missing; the run's folder by default.
      form: ``'pdf'``, ``'svg'`` or ``'png'``, of 300 dots per inch.
      width: the width of a picture in inches, such as 3.3 for a column, from 2 to 20. Letters have
        8 points then, and as many panels stand side by side as fit. By default a picture is as wide
        as in the report.
      pages: pages to save, by name: of the config's ``reports``, ``'links'``, ``'participation'``,
        or layouts. By default all pages of the report.
      allow_imports: as in `write`.

    Returns:
      The names of the files: ``curves.pdf`` and ``curves_caption.tex`` for the page ``curves``.

    Raises:
      ValueError: if no algorithm is done; for an unknown page or form, or pages without a picture.
        Also for a width out of range, or a file in the folder that no command wrote.
    """
    from fedjax_links.report import paper_pictures, run_view
    from fedjax_links.storage import outputs

    run = run if isinstance(run, runs.Results) else runs.read(run)
    checks.flags(allow_imports=allow_imports)
    checks.choice('form', form, paper_pictures.FORMS)
    if width is not None:
        checks.number_within('width', width, 2, 20)
    view = run_view.from_run(run, allow_imports=allow_imports)
    files = paper_pictures.files(
        view, _pages_with_pictures(view, pages), form=form, width=width
    )
    target = run.folder if folder is None else Path(folder)
    if target is None:
        raise errors.invalid('folder', 'be given, as the run is in memory', None)
    return outputs.write('folder', target, list(files))


def _pages_with_pictures(view: 'RunView', pages: Sequence[str]) -> dict[str, 'Page']:
    """Builds pages of a report by name; all pages of the report if none is named."""
    from fedjax_links.planning import validation
    from fedjax_links.report import layouts

    reports, _ = _reports_of(view)
    pages = [_current_page(page, reports) for page in checks.names('pages', pages)]
    link_pages = validation.LINK_PAGES if view.links else ()
    sections = {**{name: name for name in layouts.LAYOUTS}, **reports}
    for page in pages:
        checks.choice('pages', page, [*sections, *link_pages])
    if pages:
        # Layouts of links are not in `reports`: all reports have them.
        reports = {page: sections[page] for page in pages if page not in link_pages}
    built = layouts.build(view, reports)
    chosen = {page: built[page] for page in pages or built}
    if all(page.draw is None for page in chosen.values()):
        raise errors.invalid('pages', 'name one with a picture', ', '.join(chosen))
    return chosen


def _current_page(page: str, reports: Section) -> str:
    """Returns the present name of a layout, unless a page of the config has the former name."""
    return page if page in [*reports] else current_name(page)


def table(
    run: runs.Results | str | Path,
    page: str = 'comparison',
    *,
    form: str = 'data',
    number: int = 0,
    allow_imports: bool = False,
    **options: Any,
) -> Any:
    """Returns a table that a report prints.

    ::

      fl.report.table('runs/quickstart').to_csv('comparison.csv')
      print(fl.report.table('runs/quickstart', 'metrics', form='latex'))

    Args:
      run: from `runs.read`, or its folder, finished or not.
      page: one of the config's ``reports``, or a layout by its name.
      form: ``'data'`` for a `pandas.DataFrame` with the printed numbers, whose
        ``attrs['caption']`` says what they are; ``'csv'`` or ``'latex'`` (package booktabs) for a
        text.
      number: index of the table on its page, from 0.
      allow_imports: as in `write`.
      **options: options of the layout, in place of the config's.

    Returns:
      The table.

    Raises:
      ValueError: if no algorithm is done, for an unknown page, form or option, or for a page
        without such a table. Also for a page that names code outside the package, unless imports
        are allowed.
    """
    from fedjax_links.config import bound, resolver
    from fedjax_links.report import layouts, run_view

    run = run if isinstance(run, runs.Results) else runs.read(run)
    checks.flags(allow_imports=allow_imports)
    checks.choice('form', form, ('data', 'csv', 'latex'))
    reports = run.facts['reports']
    page = _current_page(page, reports)
    checks.choice('page', page, [*reports, *layouts.LAYOUTS])
    path = f'config.reports.{page}'
    report = reports.get(page, page)
    bound.check_recorded(path, report, allow_imports=allow_imports)
    section = resolver.as_mapping(path, report)
    if 'name' in options:
        checks.choice('name', current_name(options['name']), [str(section.get('name'))])
    section = {**section, **options}
    view = run_view.from_run(run, allow_imports=allow_imports)
    built = layouts.build_page(path, section, view)
    if not built.tables:
        raise errors.invalid('page', 'name a page with tables', page)
    checks.static_int('number', number, minimum=0, maximum=len(built.tables) - 1)
    shown = built.tables[number]
    if form == 'latex':
        return shown.latex()
    data = shown.data()
    return data if form == 'data' else data.to_csv(index=False)


def check(experiment: Experiment) -> None:
    """Dry-runs all report pages on zeros, so that mistakes appear before training.

    Default pages are not tried. They need no check, and loading the modules that read results takes
    0.5 s.

    Args:
      experiment: the experiment.

    Raises:
      ValueError: naming the field, its value and the nearest valid name.
    """
    _check_experiment(experiment)
    if not experiment.reports:
        return
    from fedjax_links.report import blank_view, layouts

    layouts.build(blank_view.blank(experiment), experiment.reports)
