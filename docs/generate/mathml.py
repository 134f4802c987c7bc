"""Formulas as MathML, which browsers draw by themselves: nothing is loaded from elsewhere."""

from typing import Any

from docutils import nodes
from latex2mathml.converter import convert


def _inline(self: Any, node: nodes.math) -> None:
    self.body.append(convert(node.astext()))
    raise nodes.SkipNode


def _block(self: Any, node: nodes.math_block) -> None:
    formula = convert(node.astext(), display='block')
    self.body.append(f'<div class="math">{formula}</div>')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Registers the renderer."""
    app.add_html_math_renderer('mathml', (_inline, None), (_block, None))
    return {'parallel_read_safe': True, 'parallel_write_safe': True}
