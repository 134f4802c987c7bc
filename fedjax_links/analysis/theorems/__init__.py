"""Theorems of four papers as functions: conditions, bounds, and what patterns add to them.

``xiang2023`` and ``xiang2024`` are FedPBC's conference and journal versions, ``wang2022`` is
amplified FedAvg, ``sun2025`` is FedAvg under a minimum separation. What they share lies in
``local_drift``, ``mixing_rates``, ``link_marginals``, ``regularity``, ``mixing_times`` and
``selection_counters``. ``problem_constants`` has the constants of quadratics and linear models,
``gradient_runs`` runs them, and ``check`` sets a theorem beside a ``theorem_run``. Where a
statement as printed is false, the docstring of its function says so.
"""
