"""Distances to uniform of the groups in Sun et al. (ICLR 2025, section 6), exact and simulated.

  python -m fedjax_links figure --config=configs/sun2025_groups.py --workdir=runs/sun_groups

It takes 14 seconds on two CPU cores, 10 with `--quick`. It was not measured on a GPU.

The paper selects one of M = 20 groups of 5 clients per round with p_g proportional to g^-1.5 and
prints no distances. Exact: 1.1396, 0.6434, 0.4581, 0.3545, 0.1405, 0.0331, 0 for R = 0, 5, 8, 10,
15, 18, 19. No deviation from its links; nothing is trained here.
"""

from ml_collections import ConfigDict


def get_config() -> ConfigDict:
    """Returns the figure's settings."""
    return ConfigDict(
        {
            'title': 'Minimum separation over 20 groups (Sun et al. 2025, section 6)',
            'figure': {
                'name': 'figures.group_distances:group_distances',
                'weights': {'name': 'power', 'exponent': 1.5},
                'num_seeds': 64,
            },
            'caption': (
                'N = 100 clients in M = 20 contiguous groups, all five of the selected group take '
                'part, p_g ~ g^-1.5. The paper uses these links for MNIST and prints no '
                'distances; that larger R brings the law closer to uniform is its claim. '
                'Simulated distances take their signs from the exact law, so that noise does not '
                'inflate them. No deviation from the links of the paper.'
            ),
            'quick': {'figure': {'num_seeds': 8}},
        }
    )
