"""The links that the first seed met, one map per pattern."""

from typing import Any

import numpy as np

from fedjax_links import analysis, plot
from fedjax_links.plot import panels
from fedjax_links.report import tables
from fedjax_links.report.layouts.page import Page
from fedjax_links.report.source import Source


def link_maps(source: Source) -> Page:
    """Client x round maps and what they amounted to.

    Args:
      source: what ran, with the links that were kept.

    Returns:
      Maps of the first rounds, and a table over all rounds.
    """
    masks = {p: source.links[p].mask for p in source.patterns if p in source.links}
    columns = min(3, len(masks))

    def draw(figure: Any) -> None:
        for axes, (pattern, mask) in zip(
            panels.grid(figure, len(masks)), masks.items(), strict=True
        ):
            plot.link_map(mask, ax=axes)
            axes.set_title(source.name(pattern), fontsize=10)

    def share_without(mask: np.ndarray, axis: int) -> str:
        return f'{100 * (mask.sum(axis=axis) == 0).mean():.1f} %'

    table = tables.fill(
        masks,
        {
            'pattern': source.name,
            'active per round': lambda p: (
                f'{masks[p].sum(axis=1).mean():.1f} of {masks[p].shape[1]}'
            ),
            'empty rounds': lambda p: share_without(masks[p], 1),
            'clients never heard': lambda p: share_without(masks[p], 0),
            'distance': lambda p: (
                f'{analysis.participation_report(masks[p]).distance_to_uniform:.2f}'
            ),
        },
        "First seed, all rounds; distance of FedAvg's realised weights from equal ones (L1).",
    )
    size = 3.6 * columns + 0.4, 2.6 * -(-len(masks) // 3) + 0.4
    return Page('Realised links', [table], draw, size)
