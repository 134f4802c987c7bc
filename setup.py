"""What pyproject.toml cannot say: the package holds the configs, which lie beside it."""

from setuptools import find_packages, setup

setup(
    packages=[
        *find_packages(include=['fedjax_links*']),
        'fedjax_links.configs',
        'fedjax_links.configs.figures',
    ],
    package_dir={'fedjax_links.configs': 'configs'},
)
