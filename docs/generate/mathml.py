"""Formulas as MathML, which browsers draw by themselves: nothing is loaded from elsewhere."""

from typing import Any

from docutils import nodes
from latex2mathml.converter import convert

_LONG = 40
"""Letters of LaTeX from which a formula may be wider than a phone, and scrolls there."""

_LETTERS = {
    r'\mathbb{1}': '\N{MATHEMATICAL DOUBLE-STRUCK DIGIT ONE}',
    r'\emptyset': '\N{EMPTY SET}',
}
"""Symbols whose translation browsers do not draw, or draw as an operator with space around."""


def to_mathml(latex: str, display: str = 'inline') -> str:
    """Translate a formula."""
    for command, letter in _LETTERS.items():
        latex = latex.replace(command, letter)
    return convert(latex, display=display)


def _inline(self: Any, node: nodes.math) -> None:
    latex = node.astext()
    formula = to_mathml(latex)
    is_long = len(latex) >= _LONG
    self.body.append(f'<span class="formula">{formula}</span>' if is_long else formula)
    raise nodes.SkipNode


def _block(self: Any, node: nodes.math_block) -> None:
    formula = to_mathml(node.astext(), display='block')
    self.body.append(f'<div class="math">{formula}</div>')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Registers the renderer."""
    app.add_html_math_renderer('mathml', (_inline, None), (_block, None))
    return {'parallel_read_safe': True, 'parallel_write_safe': True}
