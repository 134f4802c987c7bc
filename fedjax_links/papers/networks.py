"""Layers of the papers' networks: shapes and parameters, as built and as listed."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_links import plot
from fedjax_links.config import sections
from fedjax_links.core import errors, tree
from fedjax_links.problems.classification import MODELS
from fedjax_links.report.figure import FigureResult, stack
from fedjax_links.report.tables import Table


class Layer(NamedTuple):
    """One layer with parameters.

    Attributes:
      name: its kind and number, such as ``Conv_0``.
      kernel: shape of its largest array.
      output: shape of what it returns for one image, before pooling.
      size: number of its parameters.
      listed: the same by the list of layers.
    """

    name: str
    kernel: tuple[int, ...]
    output: tuple[int, ...]
    size: int
    listed: int


def _convolution(*, inputs: int, outputs: int, side: int) -> tuple[str, int]:
    return 'Conv', side**2 * inputs * outputs + outputs


def _dense(*, inputs: int, outputs: int) -> tuple[str, int]:
    return 'Dense', inputs * outputs + outputs


def _batch_norm(*, features: int) -> tuple[str, int]:
    return 'BatchNorm', 2 * features


LAYERS: Mapping[str, Callable[..., tuple[str, int]]] = {
    'convolution': _convolution,
    'dense': _dense,
    'batch_norm': _batch_norm,
}


def network_sizes(
    *, networks: Mapping[str, sections.Section], num_classes: int = 10
) -> FigureResult:
    """Parameters of networks, layer by layer, counted in two ways.

    One count is that of the arrays that the network is made of here, the other follows from the
    widths that a paper or its code lists.

    Args:
      networks: by label, ``model`` (a name in `MODELS`, or ``module:factory``), ``image`` (shape of
        its input, [height, width, channels]) and ``layers`` (the listed ones in order, each a
        section of `LAYERS`).
      num_classes: outputs of the last layer.

    Returns:
      Columns ``network``, ``layer``, ``kernel``, ``output``, ``parameters`` and ``listed``.

    Raises:
      ValueError: naming the field, its value and the nearest valid name.

    References:
      Wang and Ji 2022, Table D.2; Xiang et al. 2024, appendix B; Sun et al., ICLR 2025, section 6.
    """
    found = {
        label: _layers(f'config.figure.networks.{label}', section, num_classes)
        for label, section in networks.items()
    }

    def draw(figure: Any) -> None:
        row = figure.subplots(1, len(found), squeeze=False)[0]
        largest = max(layer.size for layers in found.values() for layer in layers)
        for axes, (label, layers) in zip(row, found.items(), strict=True):
            _draw_layers(axes, layers, largest)
            total = sum(layer.size for layer in layers)
            axes.set_title(f'{label}: {total:,}', fontsize=10)

    rows = []
    for label, layers in found.items():
        rows += [
            [label, layer.name, *map(_shape, layer[1:3]), f'{layer.size:,}', f'{layer.listed:,}']
            for layer in layers
        ]
        totals = (sum(layer.size for layer in layers), sum(layer.listed for layer in layers))
        rows.append([label, 'total', '', '', *(f'{total:,}' for total in totals)])
    return FigureResult(
        columns=stack(
            [
                {
                    'network': label,
                    'layer': layer.name,
                    'kernel': _shape(layer.kernel),
                    'output': _shape(layer.output),
                    'parameters': layer.size,
                    'listed': layer.listed,
                }
                for label, layers in found.items()
                for layer in layers
            ]
        ),
        table=Table(
            ['network', 'layer', 'kernel', 'output', 'parameters', 'by the list'],
            rows,
            f'Weights and biases, {num_classes} classes; outputs of one image, before pooling.',
        ),
        draw=draw,
    )


def _layers(where: str, section: sections.Section, num_classes: int) -> list[Layer]:
    """The layers of one network, in the order in which they act."""
    module = sections.named(f'{where}.model', section['model'], MODELS, num_classes)
    images = jnp.zeros((2, *section['image']))
    names: list[str] = []

    def init(key: Any) -> Any:
        params = module.init(key, images)['params']
        names.extend(params)  # in the order of creation, which an abstract evaluation sorts away
        return params

    params = jax.eval_shape(init, jax.random.key(0))
    _, state = jax.eval_shape(
        lambda params: module.apply(
            {'params': params}, images, capture_intermediates=True, mutable=['intermediates']
        ),
        params,
    )
    outputs = {name: state['intermediates'][name]['__call__'][0].shape[1:] for name in names}
    kinds, listed = zip(
        *(sections.named(f'{where}.layers', part, LAYERS) for part in section['layers']),
        strict=True,
    )
    built = [name.split('_')[0] for name in names]
    if built != list(kinds):
        raise errors.invalid(f'{where}.layers', f'list {", ".join(built)}', ', '.join(kinds))
    return [
        Layer(
            name=name,
            kernel=max((leaf.shape for leaf in jax.tree.leaves(params[name])), key=np.prod),
            output=outputs[name],
            size=tree.size(params[name]),
            listed=count,
        )
        for name, count in zip(names, listed, strict=True)
    ]


def _shape(shape: Sequence[int]) -> str:
    return ' x '.join(map(str, shape))


def _draw_layers(axes: Any, layers: Sequence[Layer], largest: int) -> None:
    """A bar per layer on a logarithmic axis, from the input at the top to the output."""
    kinds = list(dict.fromkeys(layer.name.split('_')[0] for layer in layers))
    for place, layer in enumerate(layers):
        colour = plot.COLOURS[kinds.index(layer.name.split('_')[0])]
        axes.barh(place, layer.size, color=colour, alpha=0.75)
        text = f' {layer.size:,}'
        axes.text(layer.size, place, text, va='center', fontsize=8)
    labels = [f'{layer.name.split("_")[0]}\n{_shape(layer.kernel)}' for layer in layers]
    axes.set_yticks(range(len(layers)), labels, fontsize=8)
    axes.invert_yaxis()
    axes.set_xscale('log')
    axes.set_xlim(100, largest * 12)
    axes.set_xlabel('parameters')
    axes.grid(axis='x', alpha=0.25)
