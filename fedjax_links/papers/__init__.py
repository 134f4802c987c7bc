"""Four papers, each in a house of its own; configs name what is in here, the package never does.

`xiang2023`, `xiang2024`, `wang2022` and `sun2025` hold, as far as there is any: ``presets`` (config
sections as plain dictionaries), ``tables`` (printed numbers) and ``released`` (what published code
does differently). Beside them is what several papers share. What draws the papers' figures lies
beside the configs that name it.
"""
