"""Sphinx configuration of the site; pages of methods and of the API are made by `generate`."""

import os
import platform
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
os.environ.setdefault('JAX_PLATFORMS', 'cpu')
# The pictures take small programs that run once: compiled fast, not to be fast.
os.environ.setdefault(
    'XLA_FLAGS',
    '--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true',
)

import generate  # noqa: E402  after the path
import jax  # noqa: E402

import fedjax_links  # noqa: E402

project = 'fedjax_links'
author = 'The fedjax_links authors'
copyright = author
version = release = fedjax_links.__version__

extensions = [
    'myst_parser',
    'sphinx.ext.autodoc',
    'sphinx.ext.napoleon',
    'sphinx.ext.viewcode',
    'sphinx_copybutton',
    'generate.mathml',
    'generate.names',
]
exclude_patterns = ['_build', 'generate', 'templates']
nitpicky = True
nitpick_ignore = [('py:class', 'jax.jaxlib._jax.Array')]  # as jax.Array calls itself
default_role = 'py:obj'
linkcheck_anchors = False

myst_enable_extensions = ['dollarmath']
myst_heading_anchors = 3

autodoc_member_order = 'bysource'
autodoc_typehints = 'none'  # shapes and units stand in the text
python_use_unqualified_type_names = True
napoleon_use_ivar = True
napoleon_use_rtype = False
napoleon_attr_annotations = False
napoleon_custom_sections = [('Fields', 'params_style')]

html_theme = 'furo'
html_title = 'fedjax_links'
html_math_renderer = 'mathml'
html_copy_source = True
html_last_updated_fmt = '%d %B %Y'
html_context = {
    'versions': f'fedjax_links {version}, '
    f'built with jax {jax.__version__} and Python {platform.python_version()}'
}
templates_path = ['templates']
html_static_path = ['static']
html_css_files = ['site.css']
copybutton_exclude = '.linenos, .gp, .go'


def setup(app):
    """Has the generated pages made before any is read, and the index for language models after."""
    app.connect('builder-inited', generate.write_pages)
    app.connect('source-read', generate.link_files)
    app.connect('autodoc-process-docstring', generate.keep_words, priority=400)
    app.connect('autodoc-skip-member', generate.skip_tuple_fields)
    app.connect('html-collect-pages', generate.drop_sourceless, priority=400)
    app.connect('build-finished', generate.write_llms)
