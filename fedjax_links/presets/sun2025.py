"""Sun et al. 2025, section 6 and appendix: groups that wait R rounds between selections."""

from fedjax_links.presets.common import Section

NUM_CLIENTS, NUM_GROUPS = 100, 20
ALGORITHM_NAMES = (
    ('debiased_fedavg', 'Debiasing FedAvg'),
    ('fedavg', 'FedAvg'),
    ('fedvarp', 'FedVARP'),
)


def separated(separation: int, *, num_groups: int = NUM_GROUPS) -> Section:
    """One of the contiguous groups per round, ``p_g ~ g^-1.5`` among those that have waited.

    Args:
      separation: R, rounds that a group waits.
      num_groups: M.

    Returns:
      A section of links.
    """
    return {
        'name': 'minimum_separation',
        'weights': {'name': 'power', 'exponent': 1.5, 'count': num_groups},
        'separation': separation,
        'groups': {'name': 'contiguous', 'num_groups': num_groups},
    }


def uniform(*, num_groups: int = NUM_GROUPS) -> Section:
    """The oracle: every group equally likely in every round."""
    return {
        'name': 'minimum_separation',
        'weights': {'name': 'power', 'exponent': 0.0, 'count': num_groups},
        'separation': 0,
        'groups': {'name': 'contiguous', 'num_groups': num_groups},
    }


def patterns(separations: tuple[int, ...], *, num_groups: int = NUM_GROUPS) -> dict[str, Section]:
    """`separated` by label, ``R05`` for R = 5, and `uniform`."""
    by_label = {f'R{r:02d}': separated(r, num_groups=num_groups) for r in separations}
    return {**by_label, 'uniform': uniform(num_groups=num_groups)}


def pattern_names(separations: tuple[int, ...]) -> tuple[tuple[str, str], ...]:
    """Names of `patterns`, in this order."""
    return (*((f'R{r:02d}', f'R = {r}') for r in separations), ('uniform', 'uniform'))
