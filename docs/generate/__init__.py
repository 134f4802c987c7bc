"""Write the pages that are generated when the site is built, such as one for each algorithm."""

import re
import shutil
from pathlib import Path
from typing import Any

from generate import (
    api,
    commands,
    configs,
    examples,
    fields,
    formulas,
    llms,
    methods,
    patterns,
    registries,
    studies,
)

_DOCS = Path(__file__).parent.parent
_GENERATED = _DOCS / 'generated'


def write_pages(app: Any) -> None:
    """Write all generated pages and pictures from the package."""
    del app
    shutil.rmtree(_GENERATED, ignore_errors=True)
    for name, write in (
        ('algorithms', methods.write),
        ('patterns', patterns.write),
        ('api', api.write),
        ('commands', commands.write),
        ('config', fields.write),
        ('config/names', registries.write),
        ('config/shipped', configs.write),
    ):
        folder = _GENERATED / name
        folder.mkdir(parents=True)
        write(folder)
    examples.write(_DOCS.parent / 'examples', _GENERATED / 'examples')
    studies.write(_DOCS.parent / 'studies', _GENERATED / 'studies')


def link_files(app: Any, name: str, source: list[str]) -> None:
    """Point links to studies and configs at their pages, and those of studies to the pages."""
    del app, name
    text = re.sub(
        r'\]\(((?:\.\./)*)\.\./studies/', r'](\1generated/studies/', source[0]
    )
    text = re.sub(
        r'\]\(((?:\.\./)*)\.\./configs/(\w+)\.py\)',
        r'](\1generated/config/shipped/\2.rst)',
        text,
    )
    source[0] = re.sub(r'\]\(((?:\.\./)+)docs/', r'](\1../', text)


def write_llms(app: Any, exception: Exception | None) -> None:
    """Write ``llms.txt`` beside the start page: each page with its title and first sentence."""
    if exception is None and app.builder.format == 'html':
        llms.write(app.env, Path(app.outdir) / 'llms.txt')


def drop_sourceless(app: Any) -> list[Any]:
    """Drop modules without a source page, such as builtins, from the list of sources."""
    sources = getattr(app.env, '_viewcode_modules', {})
    for name in [name for name, source in sources.items() if not source]:
        del sources[name]
    return []


def keep_words(
    app: Any, what: str, name: str, member: Any, options: Any, lines: Any
) -> None:
    """Keep words of a docstring from being parsed as markup, and set its formulas.

    Docstrings state shapes and units in words, but Napoleon expects ``type: description`` for
    returned values and variables. The N of ``num_clients: N.`` must not begin a list.
    """
    del app, name, member, options
    starts = [i + 1 for i, line in enumerate(lines) if line == 'Returns:']
    for i in [0] if what in ('data', 'property') else starts:
        if i < len(lines):
            lines[i] = lines[i].replace(': ', ' \N{EN DASH} ', 1)
    for i, line in enumerate(lines):
        unlisted = re.sub(r'^((?:\s+\w+: )?)([A-Za-z]\.(\s|$))', r'\1\\\2', line)
        lines[i] = re.sub(r'\bdocs/([\w/]+)\.md', r':doc:`/\1`', unlisted)
    lines[:] = formulas.set_as_math('\n'.join(lines)).split('\n')


def skip_tuple_fields(
    app: Any, what: str, name: str, member: Any, skip: bool, options: Any
) -> bool | None:
    """Skip the fields of named tuples, which ``Attributes`` of the class describes."""
    del app, what, name, skip, options
    return True if type(member).__name__ == '_tuplegetter' else None
