"""Shows names in any script: with fonts that have the characters, or as numbers if none has."""

import functools
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fedjax_links.plot.panels import Figure

_NO_LETTERS = 'Last Resort'  # a font of boxes
_UNSEEN = {'Cf', 'Cc', 'Mn', 'Me', 'Zs', 'Zl', 'Zp'}
"""Unicode categories of characters that need no glyph."""


def make_legible(figure: Figure, stand_ins: dict[str, str]) -> None:
    """Draws every text of a figure with fonts that have its characters.

    Words that no installed font can write become ``#1``, ``#2``, ...

    Args:
      figure: a matplotlib figure on which everything is drawn.
      stand_ins: the number that stands for a word, by word; new ones are added.
    """
    from matplotlib import rcParams
    from matplotlib.text import Text

    texts = figure.findobj(Text)
    axes = figure.get_axes()
    axis_lines = [part.xaxis for part in axes] + [part.yaxis for part in axes]
    labels = [*(text.get_text() for text in texts), *map(_tick_labels, axis_lines)]
    families = list(rcParams['font.family'])
    absent = frozenset(_without_glyph(''.join(labels), _files(families)))
    if not absent:
        return
    others = _fonts_for(absent)
    absent = frozenset(_without_glyph(''.join(absent), others.values()))
    numbered = functools.partial(_replaced, absent=absent, stand_ins=stand_ins)
    for text in texts:
        text.set_text(numbered(text.get_text()))
        text.set_fontfamily([*families, *others])
    for axis in axis_lines:
        axis.set_tick_params(which='both', labelfontfamily=[*families, *others])
        if absent.intersection(_tick_labels(axis)):
            _renumber(axis, numbered)


def explanation(stand_ins: Mapping[str, str]) -> str:
    """Says in a line which names the numbers stand for; nothing where there are none."""
    if not stand_ins:
        return ''
    listed = ', '.join(f'{number} is {name}' for name, number in stand_ins.items())
    return (
        f'In pictures {listed}: no installed font has these characters. Install one that has '
        'them, such as Noto Sans.'
    )


def _files(families: Iterable[str]) -> list[str]:
    """Finds the files of fonts by their families."""
    from matplotlib import font_manager
    from matplotlib.font_manager import FontProperties

    return [
        font_manager.findfont(FontProperties(family=[family])) for family in families
    ]


def _without_glyph(text: str, files: Iterable[str]) -> set[str]:
    """Finds the characters of a text that no font of these files has."""
    from matplotlib import font_manager

    fonts = [font_manager.get_font(file) for file in files]
    characters = {
        character
        for character in text
        if unicodedata.category(character) not in _UNSEEN
    }
    return {
        character
        for character in characters
        if not any(font.get_char_index(ord(character)) for font in fonts)
    }


@functools.lru_cache
def _fonts_for(characters: frozenset[str]) -> dict[str, str]:
    """Finds installed fonts that have some of these characters: files by family, upright first."""
    from matplotlib import font_manager

    def rank(entry: Any) -> tuple[bool, bool, str]:
        is_plain = entry.style == 'normal' and entry.weight in (
            400,
            'normal',
            'regular',
        )
        return not is_plain, 'Sans' not in entry.name, entry.name

    font_files: dict[str, str] = {}
    remaining = set(characters)
    for entry in sorted(font_manager.fontManager.ttflist, key=rank):
        if not remaining:
            break
        if entry.name.startswith(_NO_LETTERS) or entry.name in font_files:
            continue
        missing = _without_glyph(''.join(remaining), [entry.fname])
        if missing < remaining:
            font_files[entry.name] = entry.fname
            remaining = missing
    return font_files


def _replaced(text: str, absent: frozenset[str], stand_ins: dict[str, str]) -> str:
    """Replaces words of absent characters by numbers."""
    if not absent.intersection(text):
        return text

    def number(match: re.Match[str]) -> str:
        return stand_ins.setdefault(match[0], f'#{len(stand_ins) + 1}')

    characters = re.escape(''.join(sorted(absent)))
    unseen = ''.join(
        sorted({c for c in text if unicodedata.category(c) in _UNSEEN} - {'\n'})
    )
    between = f'[{re.escape(unseen)}{characters}]*'
    return re.sub(f'[{characters}](?:{between}[{characters}])?', number, text)


def _tick_labels(axis: Any) -> str:
    """Returns the texts of an axis' labels, which need not be artists of the figure yet."""
    return ''.join(label.get_text() for label in axis.get_majorticklabels())


def _renumber(axis: Any, numbered: Callable[[str], str]) -> None:
    """Replaces words in the labels of an axis by numbers."""
    formatter = axis.get_major_formatter()
    axis.set_major_formatter(lambda value, index: numbered(formatter(value, index)))
