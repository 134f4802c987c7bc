"""Gives lanes an identity, for tests of folders that run nothing."""

from fedjax_links.storage.identity import LaneIdentity, RunIdentity


class OneIdentity:
    """Gives every lane the same identity."""

    def __init__(self, version='1'):
        """Makes the identity."""
        self.lane = LaneIdentity(version, machine='m', programs={}, columns={}, data={})

    def lane_identity(self, lane):
        """Returns the identity of any lane."""
        return self.lane

    def run_identity(self):
        """Returns the identity of the run."""
        return RunIdentity({'fedavg on links': self.lane}, {}, {})
