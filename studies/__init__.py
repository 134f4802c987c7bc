"""What was found out with the package: pages, the scripts that make their tables, records of runs.

``python -m studies.<name>`` prints a table; what `records` holds is read like any run.
"""
