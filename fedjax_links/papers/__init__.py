"""Describes four papers, a package each; only configs use these packages.

`xiang2024`, `wang2022` and `sun2025` hold ``presets`` (config sections as plain dictionaries),
``tables`` (printed numbers) and ``released`` (what published code does differently). `xiang2023`
needs none of these. The modules here are shared by several papers. The functions that draw the
papers' figures are in ``configs/figures``.
"""
