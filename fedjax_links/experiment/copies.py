"""Corrects the config of a copied experiment whose fields changed."""

from fedjax_links.config import captions
from fedjax_links.core.records import Section

_PARTS = {
    'problem',
    'patterns',
    'algorithms',
    'seeds',
    'redraw',
    'grid',
    'tuning',
    'eval_fn',
}
"""Fields that a config cannot hold, or from which it built other fields."""


def correct_config(fields: Section, before: Section) -> Section:
    """Returns config and caption of a copy, if its fields differ from the config's.

    Args:
      fields: of the copy.
      before: of the experiment that was copied.

    Returns:
      ``config``, None if a part changed that no config can express, and ``caption``, whose text may
      name fields that changed. It is empty if the config still holds.
    """
    config = fields['config']
    changed = {
        name: value
        for name, value in fields.items()
        if name != 'share' and not _is_same(value, before[name])
    }
    if config is None or not changed or 'config' in changed:
        return {}
    if changed.keys() & _PARTS:
        return {'config': None}
    config = {**config, **changed}
    caption = captions.fill_in(config.get('caption', ''), config)
    return {'config': config, 'caption': caption}


def _is_same(value: object, other: object) -> bool:
    """Tells whether a field is unchanged: plain values by value, other parts by identity."""
    if value is other:
        return True
    is_plain = isinstance(value, bool | int | float | str)
    return is_plain and type(value) is type(other) and bool(value == other)
