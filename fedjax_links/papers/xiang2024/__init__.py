"""Xiang et al. 2024: FedPBC and its baselines over six kinds of unreliable uplinks."""
