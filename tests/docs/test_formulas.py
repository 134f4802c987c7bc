"""Formulas of docstrings on the site: the same formula as mathematics, and code stays code."""

import inspect
import re
import sys
from importlib import import_module

import pytest

from fedjax_links.algorithms import ALGORITHMS
from tests.docs.pages import DOCS

sys.path.append(str(DOCS))
import generate
from generate import api, formulas, options

LATEX = {
    'x <- x + (eta_g / N) sum_{i in A} Delta_i': (
        r'x \leftarrow x + \frac{\eta_{g}}{N} \sum_{i \in A} \Delta_{i}'
    ),
    'x^{t+1} = x^t - eta Y': r'x^{t + 1} = x^{t} - \eta Y',
    'x += eta_g v': r'x \leftarrow x + \eta_{g} v',
    'c_i^+ = c_i - c + (x - y_i) / (s eta)': (
        r'c_{i}^{+} = c_{i} - c + \frac{x - y_{i}}{s \eta}'
    ),
    # A sum of quotients and a quotient of sums.
    'sum_{i in S} Delta_i / r_i': r'\sum_{i \in S} \frac{\Delta_{i}}{r_{i}}',
    'sum_i n_i F_i / sum_i n_i': r'\sum_{i} n_{i} F_{i} / \sum_{i} n_{i}',
    '(t + 1) B / N': '(t + 1) B / N',
    '1 / ((t + 1) B)': r'\frac{1}{(t + 1) B}',
    '(1 - (1 - p_i)^K) / p_i': r'\frac{1 - (1 - p_{i})^{K}}{p_{i}}',
    '(1/N)^2': r'\left(\frac{1}{N}\right)^{2}',
    'a / b / c': 'a / b / c',
    'a / b c': 'a / b c',
    'f(1/4)': r'f \left(\frac{1}{4}\right)',
    'exp(s) / (1 + mu)': r'\frac{\exp(s)}{1 + \mu}',
    'log sum_c exp(s_c)': r'\log \sum_{c} \exp(s_{c})',
    'E[1{i in A} given A not empty]': (
        r'\mathbb{E}\left[\mathbb{1}\{i \in A\} \mid A \neq \emptyset\right]'
    ),
    '1 / |A|': r'\frac{1}{\left\lvert A \right\rvert}',
    'E ||grad F(x)||^2': r'\mathbb{E} \left\lVert \nabla F (x) \right\rVert^{2}',
    '<g_i, w>': r'\left\langle g_{i} , w \right\rangle',
    'c |w - x|^2': r'c \left\lvert w - x \right\rvert^{2}',
    'x_ref + tau_ji ybar': r'x_{\mathrm{ref}} + \tau_{ji} \bar{y}',
    'r + beta 1_S': r'r + \beta \mathbb{1}_{S}',
    '(1 + tau_i)^{-1/2}': r'(1 + \tau_{i})^{- 1 / 2}',
    'i + 1, ..., i + r': r'i + 1 , \ldots , i + r',
    'q = q* (1 - p)': 'q = q^{*} (1 - p)',
    'b1 m': 'b_{1} m',
    '2 [sum_A x_i / p_i]': r'2 \left[\sum_{A} \frac{x_{i}}{p_{i}}\right]',
    'betabar_i h_i': r'\bar{\beta}_{i} h_{i}',
}
CODE = [
    'server',
    'beta',
    'server_lr',
    'start_round',
    'max_age=a',
    "compute='all'",
    'budget / N',
    '2 tolerance',
    'links.prob',
    'optax.sgd(1.0)',
    'optax.sgd(eta_g, momentum=0.9)',
    'round -> rate',
    'N // B',
    'x_2g - y',
    '[N, 1]',
    'float[N]',
    '(x + y',
    'x + y)',
    '|x',
    'x +',
    'grad',
    '',
]
OPERATORS = re.compile(r'\+=|<-|[+*/^=]|\bsum_')


IN_WORDS = {
    r'\neq \emptyset': 'not empty',
    r'\mid': 'given',
    r'\nabla': 'grad',
    r'\in ': 'in ',
}
SILENT = (
    r'\\(?:left|right|leftarrow|mathrm|text|operatorname|frac|mathbb|bar|[lr]vert|[lr]Vert|'
    r'[lr]angle|leq|geq|ldots|cdot)\b'
)
"""Commands of LaTeX that stand for no letter of a formula."""


def literals(thing):
    """The literals of a docstring, each on one line."""
    found = re.findall(r'``([^`]+)``', inspect.getdoc(thing) or '')
    return [' '.join(literal.split()) for literal in found]


def factory(name):
    """The function that the page of an algorithm describes."""
    entry = ALGORITHMS[name]
    return entry.client_program or entry.factory


@pytest.mark.parametrize(('formula', 'latex'), LATEX.items(), ids=LATEX)
def test_a_formula_is_translated(formula, latex):
    assert formulas.to_latex(formula) == latex


@pytest.mark.parametrize('words', CODE)
def test_what_is_no_formula_stays_code(words):
    with pytest.raises(formulas.NoFormulaError):
        formulas.to_latex(words)


@pytest.mark.parametrize('name', ALGORITHMS)
def test_every_formula_of_an_algorithm_is_mathematics(name):
    """Options and calls, which have a quote, a dot or a long name, are none."""
    options_of_all = {
        parameter
        for other in ALGORITHMS
        for parameter in inspect.signature(factory(other)).parameters
    }
    for literal in literals(factory(name)):
        words = set(re.findall(r'[A-Za-z_]\w+', literal))
        is_code = bool(re.search(r"['.]\w", literal)) or words & (
            options_of_all - {'beta', 'mu', 'alpha'}
        )
        if OPERATORS.search(literal) and not is_code:
            formulas.to_latex(literal)


@pytest.mark.parametrize('name', api.public_modules())
def test_a_translation_keeps_letters_and_their_order(name):
    """Only ``+=`` writes its left side twice, and brackets around a fraction go."""
    module = import_module(api._module(name).__name__)
    things = [module, *(getattr(module, offer) for offer in dir(module))]
    for literal in {word for thing in things for word in literals(thing)}:
        try:
            latex = formulas.to_latex(literal)
        except formulas.NoFormulaError:
            continue
        plain = literal.partition('+=')[2] or literal
        plain = re.sub(r'(?<=[a-zH])bar(?![a-z])', '', plain)
        back = latex.partition('+')[2] if '+=' in literal else latex
        for command, words in IN_WORDS.items():
            back = back.replace(command, words)
        back = re.sub(SILENT, '', back)
        assert re.findall(r'[A-Za-z0-9]', back) == re.findall(r'[A-Za-z0-9]', plain)


def test_latex_becomes_mathml():
    converter = pytest.importorskip('latex2mathml.converter')
    for latex in LATEX.values():
        assert '\\' not in converter.convert(latex)


def test_an_indicator_is_a_letter_that_browsers_draw():
    pytest.importorskip('latex2mathml')
    from generate import mathml

    text = mathml.to_mathml(r'\mathbb{1}_{A}')
    assert '<mn>\N{MATHEMATICAL DOUBLE-STRUCK DIGIT ONE}</mn>' in text


def test_formulas_of_a_docstring_are_set():
    text = (
        'Adds ``a /\n  b`` to x_i, ybar and tau_i, never `x_i`, ``x_i_of`` or 1/r_i^2.\n\n'
        'Args:\n  n_i: that c_i^+ has; float[N_c].\n\n  >>> x_i = y_i\n'
    )
    assert formulas.set_as_math(text) == (
        r'Adds :math:`\frac{a}{b}` to :math:`x_{i}`, :math:`\bar{y}` and :math:`\tau_{i}`, '
        r'never `x_i`, ``x_i_of`` or :math:`\frac{1}{r_{i}^{2}}`.'
        '\n\nArgs:\n  n_i: that :math:`c_{i}^{+}` has; float[N_c].\n\n  >>> x_i = y_i\n'
    )


def test_pages_and_options_have_mathematics():
    lines = ['Adds.', '', 'It adds ``x <- x +', 'eta v``. End.']
    generate.keep_words(None, 'function', '', None, None, lines)
    assert lines == ['Adds.', '', r'It adds :math:`x \leftarrow x + \eta v`. End.']
    fedavg = ALGORITHMS['fedavg'].factory
    assert r':math:`\sum_{i} w_{i} F_{i}`' in options.before_arguments(fedavg)
    meanings = {option.name: option.meaning for option in options.of(fedavg)}
    assert meanings['server_lr'].startswith(r':math:`\eta_{g}`, positive')
