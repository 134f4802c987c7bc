"""What is known exactly about configured links: the law beside each pattern's rule."""

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
    probs, named = options.get('probs'), {'name': 'constant'}
    if schedule is not None:
        options['schedule'], probs = schedule.build(), schedule.args[0]
        named = {'name': schedule.name, **schedule.options}
    parts = {name: link_law(part) for name, part in options.items() if isinstance(part, Bound)}
    return entry.law(Given(options, probs, named, parts))
