"""Figures of papers, redone: one file per family, named in `FIGURES`.

A figure is a function of plain options that returns a `FigureResult`: its numbers as columns, a
short table, and how to draw them. The section ``quick`` of a config says how to show the same with
less computation.
"""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fedjax_links import checks, errors, experiment, sections
from fedjax_links.report import columns, style
from fedjax_links.report.figures.class_weights import class_weights
from fedjax_links.report.figures.counterexample_error import counterexample_error
from fedjax_links.report.figures.group_distances import group_distances
from fedjax_links.report.figures.link_traces import link_traces
from fedjax_links.report.figures.markov_links import markov_links
from fedjax_links.report.figures.network_sizes import network_sizes
from fedjax_links.report.figures.result import FigureResult
from fedjax_links.report.figures.selection_mixing import selection_mixing
from fedjax_links.report.figures.separation_distance import separation_distance
from fedjax_links.report.figures.toy_trajectories import toy_trajectories
from fedjax_links.report.figures.two_client_limit import two_client_limit

FIGURES: Mapping[str, Callable[..., FigureResult]] = {
    'class_weights': class_weights,
    'counterexample_error': counterexample_error,
    'group_distances': group_distances,
    'link_traces': link_traces,
    'markov_links': markov_links,
    'network_sizes': network_sizes,
    'selection_mixing': selection_mixing,
    'separation_distance': separation_distance,
    'toy_trajectories': toy_trajectories,
    'two_client_limit': two_client_limit,
}

PICTURE, NUMBERS, TEXT = 'figure.png', 'figure.csv', 'figure.md'


@dataclasses.dataclass(frozen=True)
class FigureConfig:
    """A validated config of a figure.

    Attributes:
      title: one line above the picture.
      figure: ``name`` in FIGURES, and its options.
      caption: what the paper reports, and every deviation from it.
      width: of the picture, in tenths of an inch.
      height: likewise.
    """

    title: str
    figure: sections.Section
    caption: str
    width: int = 100
    height: int = 50


def parse(values: Mapping[str, Any]) -> FigureConfig:
    """Checks names and types of a figure's config.

    Args:
      values: nested dictionaries, as a config file's ``to_dict()`` gives them.

    Returns:
      The config.

    Raises:
      ValueError: naming the field, its value and the nearest valid name.
    """
    config = experiment.parse_as(FigureConfig, values)
    options = dict(config.figure)
    name = options.pop('name', None)
    if name not in FIGURES:
        raise errors.unknown_name('config.figure.name', str(name), FIGURES)
    checks.options('config.figure', FIGURES[name], options)
    return config


def build(config: FigureConfig) -> FigureResult:
    """Computes the numbers of a figure.

    Args:
      config: the config.

    Returns:
      The numbers, and how to draw them.

    Raises:
      ValueError: naming the field, its value and the nearest valid name.
    """
    return sections.named('config.figure', config.figure, FIGURES)


def write(folder: Path, config: FigureConfig, result: FigureResult) -> None:
    """Writes picture, numbers and text.

    Args:
      folder: an existing folder.
      config: the config.
      result: what it gave.
    """
    style.save_page(
        folder / PICTURE,
        result.draw,
        title=config.title,
        caption=config.caption,
        size=(config.width / 10, config.height / 10),
    )
    columns.write_csv(folder / NUMBERS, result.columns)
    text = f'# {config.title}\n\n{result.table.markdown()}\n{config.caption}\n'
    (folder / TEXT).write_text(text)
