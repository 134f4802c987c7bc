"""Layers of the papers' networks: shapes and parameters."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links import plot
from fedjax_links.config import resolver
from fedjax_links.core import checks, tree
from fedjax_links.pages import tables
from fedjax_links.pages.figure import FigureResult, stack
from fedjax_links.problems.classification import MODELS

_CLASSES = 10


def network_sizes(*, networks: Mapping[str, resolver.Section]) -> FigureResult:
    """Lists the parameters of networks for ten classes, layer by layer.

    Args:
      networks: by label, ``model`` (a name in `MODELS`, or ``module:factory``) and ``image`` (shape
        of its input, [height, width, channels]).

    Returns:
      Columns ``network``, ``layer``, ``kernel``, ``output`` and ``parameters``.

    Raises:
      ValueError: naming the field, its value and the nearest valid name.

    References:
      Wang and Ji 2022, Table D.2; Xiang et al. 2024, appendix B; Sun et al., ICLR 2025, section 6.
    """
    checks.not_empty('config.figure.networks', networks)
    layers_by_label = {
        label: _layers(label, f'config.figure.networks.{label}', section)
        for label, section in networks.items()
    }
    columns = stack([layer for layers in layers_by_label.values() for layer in layers])
    totals = {
        label: sum(layer['parameters'] for layer in layers)
        for label, layers in layers_by_label.items()
    }

    def draw(figure: Any) -> None:
        row = figure.subplots(1, len(layers_by_label), squeeze=False)[0]
        for axes, (label, layers) in zip(row, layers_by_label.items(), strict=True):
            names = ['{layer}\n{kernel}'.format_map(layer) for layer in layers]
            sizes = [layer['parameters'] for layer in layers]
            # A logarithmic axis has no zero.
            axes.plot(sizes, names, 'o', color=plot.COLOURS[0])
            for name, size in zip(names, sizes, strict=True):
                look = {'xytext': (6, 0), 'textcoords': 'offset points', 'va': 'center'}
                axes.annotate(f'{size:,}', (size, name), fontsize=8, **look)
            axes.tick_params(axis='y', labelsize=8)
            axes.invert_yaxis()  # from the input at the top to the output
            largest = columns['parameters'].max()
            axes.set(xscale='log', xlim=(100, largest * 12), xlabel='parameters')
            axes.grid(axis='x', alpha=0.25)
            axes.set_title(f'{label}: {totals[label]:,}', fontsize=10)

    rows = []
    for label, layers in layers_by_label.items():
        for *texts, parameters in (layer.values() for layer in layers):
            rows.append([*texts, f'{parameters:,}'])
        rows.append([label, 'total', '', '', f'{totals[label]:,}'])
    caption = (
        f'Weights and biases, {_CLASSES} classes; outputs of one image, before pooling.'
    )
    return FigureResult(columns, tables.Table([*columns], rows, caption), draw)


def _layers(label: str, where: str, section: resolver.Section) -> list[dict[str, Any]]:
    """Lists the layers of one network, in the order in which they act."""
    module = resolver.build_named(f'{where}.model', section['model'], MODELS, _CLASSES)
    names: list[str] = []

    def init(key: Any) -> Any:
        images = jnp.zeros((2, *section['image']))
        variables = module.init(key, images, mutable=True, capture_intermediates=True)
        # In the order of creation, which an abstract evaluation sorts.
        names.extend(variables['params'])
        return variables

    variables = jax.eval_shape(init, jax.random.key(0))
    params = variables['params']
    outputs = variables['intermediates']
    return [
        {
            'network': label,
            'layer': name,
            'kernel': _shape(
                max((p.shape for p in params[name].values()), key=np.prod)
            ),
            'output': _shape(outputs[name]['__call__'][0].shape[1:]),
            'parameters': tree.size(params[name]),
        }
        for name in names
    ]


def _shape(shape: Sequence[int]) -> str:
    return ' x '.join(map(str, shape))
