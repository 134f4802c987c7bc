"""Theorems of four papers as functions: conditions, bounds, and constants of the patterns.

``xiang2023`` and ``xiang2024`` are FedPBC's conference and journal versions, ``wang2022`` is
amplified FedAvg, ``sun2025`` is FedAvg under a minimum separation. ``local_drift``,
``mixing_rates``, ``link_marginals``, ``regularity``, ``mixing_times`` and ``selection_counters``
have further quantities of these papers. ``problem_constants`` has the constants of quadratics and
linear models, and ``gradient_runs`` trains on them. ``check`` compares a theorem with a run, a
``theorem_run``. If a statement is false as printed, the docstring of its function says so.
"""
