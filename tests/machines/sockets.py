"""Ports for tests whose processes meet."""

import socket


def free_port(host=''):
    """Returns a port of this machine on which nothing listens."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return probe.getsockname()[1]
