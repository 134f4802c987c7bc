"""Layers of the papers' networks: shapes and parameters."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links import plot
from fedjax_links.config import resolver
from fedjax_links.core import checks, errors, factory_options, tree
from fedjax_links.core.records import Section
from fedjax_links.pages import tables
from fedjax_links.pages.figure import FigureResult, stack
from fedjax_links.problems.classification import MODELS

_CLASSES = 10


class _Network(NamedTuple):
    """Holds a section of a network."""

    model: str | Section
    image: Sequence[int]


class _Layer(NamedTuple):
    """Describes a layer of a network."""

    name: str
    kernel: str
    output: str
    parameters: int


def network_sizes(*, networks: Mapping[str, Section]) -> FigureResult:
    """Lists the parameters of networks for ten classes, layer by layer.

    Args:
      networks: by label, ``model`` (a network for images: a name in `MODELS`, or
        ``module:factory``) and ``image`` (shape of its input, [height, width, channels]).

    Returns:
      Columns ``network``, ``layer``, ``kernel``, ``output`` and ``parameters``.

    Raises:
      ValueError: naming the field, its value and the nearest valid name.

    References:
      Wang and Ji 2022, Table D.2; Xiang et al. 2024, appendix B; Sun et al., ICLR 2025, section 6.
    """
    checks.not_empty('config.figure.networks', networks)
    layers_by_label = {
        label: _layers(f'config.figure.networks.{label}', section)
        for label, section in networks.items()
    }
    totals = {
        label: sum(layer.parameters for layer in layers)
        for label, layers in layers_by_label.items()
    }
    parts: list[dict[str, Any]] = []
    rows: list[list[str]] = []
    for label, layers in layers_by_label.items():
        for layer in layers:
            parts.append(
                {
                    'network': label,
                    'layer': layer.name,
                    'kernel': layer.kernel,
                    'output': layer.output,
                    'parameters': layer.parameters,
                }
            )
            shapes = [layer.kernel, layer.output]
            rows.append([label, layer.name, *shapes, f'{layer.parameters:,}'])
        rows.append([label, 'total', '', '', f'{totals[label]:,}'])
    columns = stack(parts)

    def draw(figure: Any) -> None:
        row = figure.subplots(1, len(layers_by_label), squeeze=False)[0]
        for axes, (label, layers) in zip(row, layers_by_label.items(), strict=True):
            names = [f'{layer.name}\n{layer.kernel}' for layer in layers]
            sizes = [layer.parameters for layer in layers]
            # A logarithmic axis has no zero.
            axes.plot(sizes, names, 'o', color=plot.COLOURS[0])
            for name, size in zip(names, sizes, strict=True):
                look = {'xytext': (6, 0), 'textcoords': 'offset points', 'va': 'center'}
                axes.annotate(f'{size:,}', (size, name), fontsize=8, **look)
            axes.tick_params(axis='y', labelsize=8)
            axes.invert_yaxis()  # from the input at the top to the output
            # Room for the numbers at the right; all panels have the same axis.
            least = min(100, columns['parameters'].min() / 2)
            most = columns['parameters'].max() * 12
            axes.set(xscale='log', xlim=(least, most), xlabel='parameters')
            axes.grid(axis='x', alpha=0.25)
            axes.set_title(f'{label}: {totals[label]:,}', fontsize=10)

    caption = (
        f'Weights and biases, {_CLASSES} classes; outputs of one image, before pooling.'
    )
    return FigureResult(columns, tables.Table([*columns], rows, caption), draw)


def _layers(where: str, section: Section) -> list[_Layer]:
    """Lists the layers of one network, in the order in which they act."""
    options = resolver.as_mapping(where, section)
    factory_options.check(where, _Network, options)
    network = _Network(**options)
    if len(network.image) != 3:
        requirement = 'be [height, width, channels]'
        raise errors.invalid(f'{where}.image', requirement, list(network.image))
    module = resolver.build_named(f'{where}.model', network.model, MODELS, _CLASSES)
    names: list[str] = []

    def init(key: Any) -> Any:
        images = jnp.zeros((1, *network.image))
        variables = module.init(key, images, mutable=True, capture_intermediates=True)
        # In the order of creation, which an abstract evaluation sorts.
        names.extend(variables['params'])
        return variables

    variables = jax.eval_shape(init, jax.random.key(0))
    params = variables['params']
    outputs = variables['intermediates']
    layers = []
    for name in names:
        shapes = [array.shape for array in jax.tree.leaves(params[name])]
        output = outputs[name]['__call__'][0]
        layer = _Layer(
            name=name,
            kernel=_text(max(shapes, key=np.prod)),
            output=_text(output.shape[1:]),
            parameters=tree.size(params[name]),
        )
        layers.append(layer)
    return layers


def _text(shape: Sequence[int]) -> str:
    return ' x '.join(map(str, shape))
