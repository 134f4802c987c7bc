"""Corrects the config of a copied experiment whose fields changed."""

from fedjax_links.config import captions
from fedjax_links.core.records import Section

_NOT_IN_CONFIGS = {
    'problem',
    'patterns',
    'algorithms',
    'seeds',
    'redraw',
    'grid',
    'tuning',
    'eval_fn',
}
"""Fields that a config cannot hold, or states in another form, such as ``num_seeds``."""


def correct_config(fields: Section, original: Section) -> Section:
    """Returns the config and the caption of a copy whose fields differ from the copied config.

    Args:
      fields: the fields of the copy.
      original: the fields of the experiment that was copied.

    Returns:
      The corrected fields by name: ``config`` and ``caption``. The caption is filled in again, as
      it may name values of fields. If a field of `_NOT_IN_CONFIGS` changed, only ``config``, which
      is None. Empty if no field changed, there is no config, or the copy got another config.
    """
    config = fields['config']
    # `lane_shard` says which lanes run here. A config has no such field.
    changed = {
        name: value
        for name, value in fields.items()
        if name != 'lane_shard' and not _is_same(value, original[name])
    }
    if config is None or not changed or 'config' in changed:
        return {}
    if changed.keys() & _NOT_IN_CONFIGS:
        return {'config': None}
    config = {**config, **changed}
    caption = captions.fill_in(config.get('caption', ''), config)
    return {'config': config, 'caption': caption}


def _is_same(value: object, other: object) -> bool:
    """Returns whether a field is unchanged: plain values by value, other parts by identity."""
    if value is other:
        return True
    is_plain = isinstance(value, bool | int | float | str)
    return is_plain and type(value) is type(other) and bool(value == other)
