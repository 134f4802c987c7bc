"""Names in any script: fonts that have their signs, and numbers in the place of what none has."""

import functools
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fedjax_links.plot.panels import Figure

_NO_LETTERS = 'Last Resort'  # a font of boxes
_UNSEEN = {'Cf', 'Cc', 'Mn', 'Me', 'Zs', 'Zl', 'Zp'}
"""Categories of Unicode of signs that need no glyph of their own."""


def make_legible(figure: Figure, stand_ins: dict[str, str]) -> None:
    """Draws every text of a figure with fonts that have its signs.

    What no installed font has becomes ``#1``, ``#2``, ...

    Args:
      figure: a matplotlib figure on which everything is drawn.
      stand_ins: what stands for which name, by name; new ones are added.
    """
    from matplotlib import rcParams
    from matplotlib.text import Text

    texts = figure.findobj(Text)
    axes = [one for each in figure.get_axes() for one in (each.xaxis, each.yaxis)]
    shown = ''.join([*(text.get_text() for text in texts), *map(_tick_labels, axes)])
    families = list(rcParams['font.family'])
    absent = frozenset(_without_glyph(shown, _files(families)))
    if not absent:
        return
    others = _fonts_for(absent)
    absent -= {sign for sign in absent if not _without_glyph(sign, others.values())}
    numbered = functools.partial(_replaced, absent=absent, stand_ins=stand_ins)
    for text in texts:
        text.set_text(numbered(text.get_text()))
        text.set_fontfamily([*families, *others])
    for axis in axes:
        axis.set_tick_params(which='both', labelfontfamily=[*families, *others])
        if absent.intersection(_tick_labels(axis)):
            _renumber(axis, numbered)


def explanation(stand_ins: Mapping[str, str]) -> str:
    """Says in a line which names the numbers stand for; nothing where there are none."""
    if not stand_ins:
        return ''
    listed = ', '.join(f'{number} is {name}' for name, number in stand_ins.items())
    cure = 'once a font that has them is installed, such as Noto Sans, pictures take it'
    return f'In pictures {listed}: no installed font has these signs; {cure}.'


def _files(families: Iterable[str]) -> list[str]:
    """Finds the files of fonts by their families."""
    from matplotlib import font_manager
    from matplotlib.font_manager import FontProperties

    return [
        font_manager.findfont(FontProperties(family=[family])) for family in families
    ]


def _without_glyph(text: str, files: Iterable[str]) -> set[str]:
    """Finds the signs of a text that no font of these has."""
    from matplotlib import font_manager

    fonts = [font_manager.get_font(file) for file in files]
    signs = {sign for sign in text if unicodedata.category(sign) not in _UNSEEN}
    return {
        sign
        for sign in signs
        if not any(font.get_char_index(ord(sign)) for font in fonts)
    }


@functools.lru_cache
def _fonts_for(signs: frozenset[str]) -> dict[str, str]:
    """Finds installed fonts that have some of these signs: files by family, upright ones first."""
    from matplotlib import font_manager

    def rank(entry: Any) -> tuple[bool, bool, str]:
        is_plain = entry.style == 'normal' and entry.weight in (
            400,
            'normal',
            'regular',
        )
        return not is_plain, 'Sans' not in entry.name, entry.name

    font_files: dict[str, str] = {}
    left = set(signs)
    for entry in sorted(font_manager.fontManager.ttflist, key=rank):
        if not left:
            break
        if entry.name.startswith(_NO_LETTERS) or entry.name in font_files:
            continue
        still = _without_glyph(''.join(left), [entry.fname])
        if still < left:
            font_files[entry.name] = entry.fname
            left = still
    return font_files


def _replaced(text: str, absent: frozenset[str], stand_ins: dict[str, str]) -> str:
    """Puts numbers in the place of words of absent signs."""
    if not absent.intersection(text):
        return text

    def number(match: re.Match[str]) -> str:
        return stand_ins.setdefault(match[0], f'#{len(stand_ins) + 1}')

    signs = re.escape(''.join(sorted(absent)))
    unseen = ''.join(
        sorted({c for c in text if unicodedata.category(c) in _UNSEEN} - {'\n'})
    )
    between = f'[{re.escape(unseen)}{signs}]*' if unseen else f'[{signs}]*'
    return re.sub(f'[{signs}](?:{between}[{signs}])?', number, text)


def _tick_labels(axis: Any) -> str:
    """Gives the signs of an axis' labels, which need not be texts of the figure yet."""
    return ''.join(label.get_text() for label in axis.get_majorticklabels())


def _renumber(axis: Any, numbered: Callable[[str], str]) -> None:
    """Lets an axis write numbers for names."""
    formatter = axis.get_major_formatter()
    axis.set_major_formatter(lambda value, index: numbered(formatter(value, index)))
