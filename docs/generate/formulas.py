"""Turn the formulas of docstrings into mathematics.

A docstring is read in terminals too, so its formulas are plain text between double backticks, such
as ``x <- x + (eta_g / N) sum_{i in A} Delta_i``. This module reads their grammar and writes LaTeX.
What is no formula, such as the name of an option, stays code.

The grammar, from loose to tight::

  formula   ``a = b``, ``a <- b``, ``a += b``, ``a <= b``, ``i in A``, ``a, ..., b``
  sum       ``a + b - c``
  product   ``a b``, ``a * b``, ``a / b``; ``sum_i``, ``mean_A`` and ``log`` apply to what follows
  scripts   ``x_i^{t+1}``, ``y_ref``
  atom      ``2``, ``x``, ``eta``, ``ybar``, ``log(a)``, ``E[a given b]``, ``1{i in A}``
  group     ``(a)``, ``[a]``, ``|a|``, ``||a||``, ``<a, b>``
"""

import re
from typing import NamedTuple

_GREEK = re.findall(
    r'\w+',
    'alpha beta gamma delta epsilon eta theta kappa lambda mu nu pi rho sigma tau phi '
    'Delta Lambda Phi Sigma Omega',
)
_OPERATORS = {
    'sum': r'\sum',
    'prod': r'\prod',
    'mean': r'\operatorname{mean}',
    'grad': r'\nabla',
}
_FUNCTIONS = {'max': r'\max', 'min': r'\min', 'exp': r'\exp', 'log': r'\log'}
_PREFIXES = _OPERATORS | _FUNCTIONS
_SYMBOLS = {
    **{name: rf'\{name}' for name in _GREEK},
    'last': r'\mathrm{last}',
    'start': r'\mathrm{start}',
}
_WORDS = 'last', 'start'
"""Symbols that are also parts of names of options: a script of theirs is a letter."""

_RELATIONS = {
    '=': '=',
    '<-': r'\leftarrow',
    '<=': r'\leq',
    '>=': r'\geq',
    'in': r'\in',
    'given': r'\mid',
    'not empty': r'\neq \emptyset',
    ',': ',',
}
_BARS = {
    '|': (r'\left\lvert', r'\right\rvert'),
    '||': (r'\left\lVert', r'\right\rVert'),
    '<': (r'\left\langle', r'\right\rangle'),
}
_CLOSING = {'(': ')', '[': ']', '{': '}', '<': '>', '|': '|', '||': '||'}
_INDICATOR = r'\mathbb{1}'
_TOKEN = re.compile(
    r'not empty|\d+(?:\.\d+)?(?![A-Za-z])|[A-Za-z]+\d*|'
    r'\.\.\.|<-|<=|>=|\+=|\|\||[-+*/=<>,_^(){}|\[\]]'
)
_CODE = re.compile(r'``([^`]+)``|(`[^`]+`_?)')
_LETTER = rf'(?:{"|".join(_GREEK)}|[A-Za-z])'
_SCRIPT = r'[_^](?:\{[^{}]*\}|\+|[A-Za-z0-9]{1,3}(?![A-Za-z0-9]))'
_SYMBOL = re.compile(
    rf'(?<![\w`^/.\[\\-])(?:1/)?(?:{_LETTER}(?:{_SCRIPT})+|{_LETTER}bar(?:{_SCRIPT})*)'
    rf'(?:\({_LETTER}\))?(?![\w`(\[=*:])'
)


class NoFormulaError(Exception):
    """The text is no formula."""


def set_as_math(text: str) -> str:
    """Write the formulas of a docstring as reStructuredText's ``:math:``.

    Symbols with a script or a bar, such as x_i and xbar, need no backticks.

    Args:
      text: a docstring, or a part of one. Doctests stay as they are.
    """
    paragraphs = re.split(r'(\n[ \t]*\n)', text)
    return ''.join(
        part if re.search(r'^\s*>>> ', part, flags=re.M) else _in_paragraph(part)
        for part in paragraphs
    )


def to_latex(formula: str) -> str:
    """Translate a formula.

    Args:
      formula: in the grammar of this module.

    Raises:
      NoFormulaError: for text that the grammar has no rule for, and for a name alone.
    """
    parser = _Parser(_tokens(formula))
    latex = parser.formula()
    is_name = len(parser.tokens) == 1 and not parser.tokens[0].endswith('bar')
    if parser.peek() or is_name:
        raise NoFormulaError(formula)
    return latex


def _in_paragraph(text: str) -> str:
    parts: list[str] = []
    position = 0
    for code in _CODE.finditer(text):
        parts.append(_SYMBOL.sub(_symbol, text[position : code.start()]))
        parts.append(_as_role(code[1], code[0]) if code[1] else code[0])
        position = code.end()
    parts.append(_SYMBOL.sub(_symbol, text[position:]))
    return ''.join(parts)


def _symbol(match: re.Match[str]) -> str:
    return _as_role(match[0], match[0])


def _as_role(formula: str, otherwise: str) -> str:
    try:
        return f':math:`{to_latex(formula)}`'
    except NoFormulaError:
        return otherwise


def _tokens(formula: str) -> list[str]:
    text = ' '.join(formula.split())
    text = re.sub(r'(?<=\w)\*(?=[ )]|$)', '^*', text)  # the star of ``q* (1 - p)``
    tokens = _TOKEN.findall(text)
    if ''.join(tokens).replace(' ', '') != text.replace(' ', ''):
        raise NoFormulaError(formula)
    return tokens


class _Factor(NamedTuple):
    """LaTeX of a factor, and that without the brackets around all of it."""

    latex: str
    bare: str


class _Parser:
    """Reads tokens from left to right; each method reads one rule of the grammar."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens
        self.position = 0
        self.open_groups: list[str] = []
        self.last_fraction = ''

    def peek(self) -> str:
        """Return the next token; '' at the end of the formula or of the group."""
        if self.position == len(self.tokens):
            return ''
        token = self.tokens[self.position]
        return '' if token in self.open_groups[-1:] else token

    def after_next(self) -> str:
        """Return the token after the next; '' at the end of the formula."""
        return ''.join(self.tokens[self.position + 1 : self.position + 2])

    def take(self) -> str:
        """Read a token."""
        token = self.peek()
        if not token:
            raise NoFormulaError(' '.join(self.tokens))
        self.position += 1
        return token

    def formula(self) -> str:
        """Read sums and the relations between them."""
        first = self.sum()
        parts = [first]
        while self.peek():
            relation = self.take()
            if relation == '+=':
                parts += [r'\leftarrow', first, '+', self.sum()]
            elif relation == 'not empty':
                parts.append(_RELATIONS[relation])
            elif relation in _RELATIONS:
                parts += [_RELATIONS[relation], self.sum()]
            else:
                raise NoFormulaError(relation)
        return ' '.join(parts)

    def sum(self) -> str:
        """Read terms with signs."""
        parts = [self.take()] if self.peek() in ('-', '+') else []
        parts.append(self.product())
        while self.peek() in ('+', '-'):
            parts += [self.take(), self.product()]
        return ' '.join(parts)

    def product(self) -> str:
        """Read factors; an operator such as a sum begins a product within the product."""
        parts: list[str] = []
        while self.begins_factor():
            if self.begins_prefix():
                parts += [self.operator(), self.product()]
                break
            is_first = not parts
            factor = self.factor(is_first)
            parts.append(factor.latex)
            if self.peek() == '*':
                self.take()
                parts.append(r'\cdot')
            elif self.peek() == '/':
                self.take()
                parts[-1:] = self.quotient(factor, is_first)
            while self.peek() == '/':
                self.take()
                parts += ['/', self.factor(False).latex]
        if not parts or parts[-1] == r'\cdot':
            raise NoFormulaError(' '.join(self.tokens))
        return ' '.join(parts)

    def quotient(self, dividend: _Factor, is_first: bool) -> list[str]:
        """Read a divisor: a fraction if the product is one factor by another, else a slash."""
        if self.begins_prefix():
            return [dividend.latex, '/', self.operator(), self.product()]
        divisor = self.factor(False)
        is_last = not self.begins_factor() and self.peek() not in ('/', '*')
        in_script = self.open_groups[-1:] == ['}']
        if is_first and is_last and not in_script:
            self.last_fraction = rf'\frac{{{dividend.bare}}}{{{divisor.bare}}}'
            return [self.last_fraction]
        return [dividend.latex, '/', divisor.latex]

    def begins_factor(self) -> bool:
        """Returns whether a factor begins here."""
        token = self.peek()
        if token in _RELATIONS:
            return False
        # A list in brackets alone is the shape of an array.
        is_bracket = token == '[' and self.position > 0
        return (
            token[:1].isalnum() or is_bracket or token in ('(', '|', '||', '<', '...')
        )

    def begins_prefix(self) -> bool:
        """Returns whether a sum, or a function without brackets, begins here."""
        token = self.peek()
        is_call = self.after_next() == '('
        return token in _OPERATORS or (token in _FUNCTIONS and not is_call)

    def operator(self) -> str:
        """Read ``sum_{i in A}``, ``mean_A``."""
        return _PREFIXES[self.take()] + self.scripts()

    def factor(self, is_first: bool) -> _Factor:
        """Read an atom and its scripts; a fraction in brackets that comes first loses these."""
        if self.peek() not in ('(', '['):
            latex = self.atom() + self.scripts()
            return _Factor(latex, latex)
        opening = self.peek()
        inside = self.group()
        scripts = self.scripts()
        bracketed = _in_brackets(inside, opening)
        if scripts:
            return _Factor(bracketed + scripts, bracketed + scripts)
        if is_first and inside == self.last_fraction:
            return _Factor(inside, inside)
        return _Factor(bracketed, inside)

    def scripts(self) -> str:
        """Read subscripts and superscripts."""
        scripts: dict[str, str] = {}
        while self.peek() in ('_', '^'):
            mark = self.take()
            if mark in scripts:
                raise NoFormulaError(' '.join(self.tokens))
            scripts[mark] = f'{mark}{{{self.script()}}}'
        return ''.join(scripts.values())

    def script(self) -> str:
        """Read what stands after a mark of a script."""
        if self.peek() == '{':
            return self.group()
        token = self.take()
        if token in ('+', '*'):
            return token
        if token in _SYMBOLS:
            return _SYMBOLS[token]
        if not token.isalnum():
            raise NoFormulaError(token)
        return token if len(token) <= 2 or token.isdigit() else rf'\mathrm{{{token}}}'

    def group(self) -> str:
        """Read a formula between brackets, without these."""
        closing = _CLOSING[self.take()]
        self.open_groups.append(closing)
        words = ''
        if self.peek() == 'all':
            self.take()
            words = r'\text{all } '
        inside = words + self.formula()
        if self.tokens[self.position : self.position + 1] != [closing]:
            raise NoFormulaError(' '.join(self.tokens))
        self.position += 1
        self.open_groups.pop()
        return inside

    def atom(self) -> str:
        """Read a number, a symbol, or a group in bars."""
        if self.peek() in _BARS:
            left, right = _BARS[self.peek()]
            return f'{left} {self.group()} {right}'
        token = self.take()
        if token == '...':
            return r'\ldots'
        return self.number(token) if token[0].isdigit() else self.symbol(token)

    def number(self, token: str) -> str:
        """Read the rest of a number; ``1{i in A}`` and ``1_A`` are indicators."""
        if token == '1' and self.peek() == '{':
            return rf'{_INDICATOR}\{{{self.group()}\}}'
        return _INDICATOR if token == '1' and self.peek() == '_' else token

    def symbol(self, token: str) -> str:
        """Read the rest of a symbol, an expectation or a function's call."""
        if token in _FUNCTIONS:
            return _FUNCTIONS[token] + _in_brackets(self.group())
        if token == 'E' and self.peek() == '[':
            return rf'\mathbb{{E}}\left[{self.group()}\right]'
        if token == 'E' and self.peek() in ('|', '||'):
            return r'\mathbb{E}'
        if token in _WORDS and self.peek() == '_' and len(self.after_next()) > 1:
            raise NoFormulaError(token)
        return _letter(token)


def _letter(token: str) -> str:
    if token in _SYMBOLS:
        return _SYMBOLS[token]
    if len(token) > 3 and token.endswith('bar'):
        return rf'\bar{{{_letter(token.removesuffix("bar"))}}}'
    if len(token) == 1 and token.isalpha():
        return token
    if token[1:].isdigit():
        return f'{token[0]}_{{{token[1:]}}}'
    raise NoFormulaError(token)


def _in_brackets(inside: str, opening: str = '(') -> str:
    """Add brackets, which grow with fractions and sums."""
    closing = _CLOSING[opening]
    if r'\frac' in inside or r'\sum' in inside:
        return rf'\left{opening}{inside}\right{closing}'
    return f'{opening}{inside}{closing}'
