"""Sections that the configs of one paper share: plain dictionaries, names as the paper prints them.

Every function returns fresh dictionaries for a config file to complete or to change.
"""

from fedjax_links.presets import sun2025, wang2022, xiang2024

__all__ = ['sun2025', 'wang2022', 'xiang2024']
