"""What the config of a copied experiment says, where the copy changed fields."""

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
"""Fields that are no values of a config, or on which other fields that it built depend."""


def correct_config(fields: Section, before: Section) -> Section:
    """Returns config and caption of a copy, where its fields differ from the config's.

    Args:
      fields: of the copy.
      before: of the experiment that was copied.

    Returns:
      ``config``, None where a part changed that no config says, and ``caption``, whose text may
      name fields that changed; nothing where the config holds.
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
    """Whether a field is unchanged: plain values are compared, parts are themselves."""
    if value is other:
        return True
    is_plain = isinstance(value, bool | int | float | str)
    return is_plain and type(value) is type(other) and bool(value == other)
