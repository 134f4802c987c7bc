"""Pictures write every name so that it can be read."""

import warnings

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib import font_manager

from fedjax_links.pages import figure
from fedjax_links.plot import scripts
from fedjax_links.report import layouts
from tests.report.made import results

CHINESE = '联邦平均'
HINDI = 'हिन्दी'
ROCKET = '🚀'


@pytest.fixture(autouse=True)
def bare_fonts(monkeypatch):
    """Only the fonts that come with matplotlib."""
    bundled = [e for e in font_manager.fontManager.ttflist if 'matplotlib' in e.fname]
    monkeypatch.setattr(font_manager.fontManager, 'ttflist', bundled)
    scripts._fonts_for.cache_clear()
    yield
    scripts._fonts_for.cache_clear()


def draw(names):
    """Returns a function that draws every kind of text with these names."""

    def draw_on(page):
        legend, ticks, categories = page.subplots(1, 3)
        for index, name in enumerate(names):
            legend.plot([0, 1], [index, index], label=f'{name} (client mean)')
        legend.legend()
        legend.set_title(names[0])
        ticks.set_yticks(range(len(names)), names)
        ticks.annotate(names[-1], (0.5, 0.5))
        categories.barh(list(names), np.arange(len(names)))

    return draw_on


def assert_all_shown(names, stand_ins):
    with warnings.catch_warnings():
        # Matplotlib warns of each sign that it draws as a box.
        warnings.simplefilter('error')
        picture = figure.render(
            draw(names),
            title=names[0],
            caption=f'{names[-1]} of this run',
            size=(9, 4),
            stand_ins=stand_ins,
        )
        assert picture[1:4] == b'PNG'


def test_signs_that_no_font_has_become_numbers():
    stand_ins = {}
    assert_all_shown([f'a {CHINESE}', f'{HINDI} B', f'{CHINESE} 2', ROCKET], stand_ins)
    assert set(stand_ins) == {CHINESE, HINDI, ROCKET}
    assert sorted(stand_ins.values()) == ['#1', '#2', '#3']
    before = dict(stand_ins)
    # The next picture has the same numbers.
    assert_all_shown([HINDI, CHINESE], stand_ins)
    assert stand_ins == before
    message = scripts.explanation(stand_ins)
    assert all(f'{number} is {name}' in message for name, number in stand_ins.items())
    assert '\n' not in message


def test_signs_that_a_font_has_are_drawn():
    names = ['é', 'Straße', 'мир', 'متوسط', 'עברית', 'a ≤ b', 'a\u200bb']
    stand_ins = {}
    assert_all_shown(names, stand_ins)
    assert stand_ins == {}
    assert scripts.explanation(stand_ins) == ''


def test_an_installed_font_that_has_the_signs_is_taken():
    """Signs that DejaVu has are drawn by it where the picture's own font has none of them."""
    name = 'мир'
    page = plt.figure()
    axes = page.add_subplot()
    axes.set_title(name)
    axes.set_yticks([0], [name])
    with plt.rc_context(
        {'font.family': ['cmr10'], 'axes.formatter.use_mathtext': True}
    ):
        stand_ins = {}
        scripts.make_legible(page, stand_ins)
        assert stand_ins == {}
        families = axes.title.get_fontfamily()
        assert families[0] == 'cmr10'
        files = [
            font_manager.findfont(font_manager.FontProperties(family=[f]))
            for f in families
        ]
        fonts = [font_manager.get_font(file) for file in files]
        assert all(
            any(font.get_char_index(ord(sign)) for font in fonts) for sign in name
        )
        with warnings.catch_warnings():
            warnings.simplefilter('error')
            page.canvas.draw()
    plt.close(page)


def test_a_report_says_what_numbers_stand_for(tmp_path):
    curves = {label: np.full((1, 2, 3), 0.5) for label in (CHINESE, 'fedpbc')}
    view = results(curves, names={'fedpbc': HINDI})
    with warnings.catch_warnings():
        warnings.filterwarnings('error', message='Glyph')
        layouts.write(tmp_path, view, layouts.build(view, {}))
    text = (tmp_path / 'report.md').read_text()
    assert f'is {CHINESE}' in text.split('##')[0]
    assert f'is {HINDI}' in text.split('##')[0]
    assert f'| {CHINESE} |' in text
