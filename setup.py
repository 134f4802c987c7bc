"""What pyproject.toml cannot say: the package holds the configs, and where its repository is."""

import os

from setuptools import find_packages, setup


def addresses() -> dict[str, str]:
    """Those of the repository whose workflow builds; none where no workflow does."""
    if 'GITHUB_REPOSITORY' not in os.environ:
        return {}
    home = f'{os.environ["GITHUB_SERVER_URL"]}/{os.environ["GITHUB_REPOSITORY"]}'
    return {
        'Source': home,
        'Issues': f'{home}/issues',
        'Changelog': f'{home}/blob/main/CHANGELOG.md',
    }


setup(
    packages=[
        *find_packages(include=['fedjax_links*']),
        'fedjax_links.configs',
        'fedjax_links.configs.figures',
    ],
    package_dir={'fedjax_links.configs': 'configs'},
    project_urls=addresses(),
)
