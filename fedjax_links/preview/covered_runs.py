"""Says which configs satisfy the assumptions of predictions and theorems on clients and links."""

from collections.abc import Iterator

from fedjax_links import base
from fedjax_links.config import nested
from fedjax_links.config.registries import CLIENT_PROGRAMS
from fedjax_links.core.records import Section
from fedjax_links.links import drawing
from fedjax_links.preview.configured_links import ConfiguredLinks

UNEQUAL = 'clients weigh or step unequally, by more than their links'


def config_at_first_point(links: ConfiguredLinks) -> Section:
    """Returns the config at the first grid point, for which predictions are made.

    Only the sections ``client`` and ``algorithms`` get the point's values.
    """
    config = links.experiment.config or {}
    for name, value in links.experiment.plan.points[0].items():
        section, *path = name.split('.')
        if section in ('client', 'algorithms'):
            config = nested.put(config, [section, *path], value)
    return config


def reason_unpredicted(links: ConfiguredLinks) -> str:
    """Says why small steps do not follow the clients' mean gradient; empty if the steps do."""
    if _is_unequal(links):
        return UNEQUAL
    config = config_at_first_point(links)
    client = config.get('client', {})
    sections = [client]
    for _, section in sections_of(config, 'fedavg', 'fedpbc'):
        sections.append({**client, **nested.section(section.get('client', {}))})
    for section in sections:
        program = section.get('name', 'local_sgd')
        if program not in CLIENT_PROGRAMS:
            return f'local steps of {program} need not follow gradients'
        optimizer = nested.section(section.get('optimizer') or 'sgd').get('name')
        if optimizer != 'sgd':
            return f'local steps of {optimizer} do not follow mean gradients'
    return ''


def reason_client_mean_is_biased(links: ConfiguredLinks) -> str:
    """Says why the mean of FedPBC's client models may be biased; empty if the mean is not.

    The mean is unbiased if every client trains in every round, and all clients that upload receive
    the answer.
    """
    for label, section in sections_of(config_at_first_point(links), 'fedpbc'):
        if section.get('compute', 'all') != 'all':
            return f'clients of {label} pause while inactive'
    if base.is_duplex(drawing.sample_shapes(links.participation)):
        return 'some clients pause or miss its answer'
    return ''


def label_with_other_client(config: Section, *names: str) -> str | None:
    """Returns the first of some algorithms with client options other than in ``client``."""
    client = config.get('client', {})
    for label, section in sections_of(config, *names):
        own_client = nested.section(section.get('client', {}))
        if {**client, **own_client} != client:
            return label
    return None


def weighs_by_examples(links: ConfiguredLinks, *names: str) -> bool:
    """Returns whether some algorithms weigh clients by unequal numbers of examples."""
    if links.problem.min_examples == links.problem.max_examples:
        return False
    sections = sections_of(config_at_first_point(links), *names)
    return any(section.get('weights') == 'examples' for _, section in sections)


def sections_of(config: Section, *names: str) -> Iterator[tuple[str, Section]]:
    """Yields labels and sections of a config's algorithms that have one of the given names."""
    for label, value in config.get('algorithms', {}).items():
        section = nested.section(value)
        if section.get('name', label) in names:
            yield label, section


def _is_unequal(links: ConfiguredLinks) -> bool:
    """Returns whether clients may differ in weight or number of steps, apart from their links."""
    config = links.experiment.config or {}
    sections = [config.get('client', {})]
    for value in config.get('algorithms', {}).values():
        section = nested.section(value)
        sections += [section, nested.section(section.get('client', {}))]
    # Names of options, without the names of their sections.
    swept = {column.rpartition('.')[2] for column in links.experiment.plan.columns}
    options = swept.union(*sections)
    if not options.isdisjoint({'client_steps', 'min_steps'}):
        return True
    if links.problem.min_examples == links.problem.max_examples:
        return False
    # An epoch of a client with more examples has more steps.
    if 'local_epochs' in options or 'weights' in swept:
        return True
    return any(section.get('weights') == 'examples' for section in sections)
