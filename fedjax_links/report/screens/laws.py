"""What is known exactly about configured links: the law beside each pattern's rule."""

import numpy as np

from fedjax_links.config.sections import Bound
from fedjax_links.participation import PARTICIPATION
from fedjax_links.participation.laws import UNKNOWN, Given, LinkLaw


def link_law(links: Bound) -> LinkLaw:
    """The exact law of the clients that hear the server, train and deliver.

    Args:
      links: what a section of a config names, with its options.

    Returns:
      What is known; a law without numbers for patterns that are only simulated.
    """
    entry = PARTICIPATION.get(links.name)
    if entry is None or entry.law is None:
        return UNKNOWN
    options, schedule = dict(links.options), links.options.get('schedule')
    probs, kind = options.get('probs'), 'constant'
    if schedule is not None:
        options['schedule'], probs, kind = schedule.build(), schedule.args[0], schedule.name
    parts = {name: link_law(part) for name, part in options.items() if isinstance(part, Bound)}
    return entry.law(Given(options, np.asarray(probs, np.float64), kind, parts))
