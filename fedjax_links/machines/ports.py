"""Finds the addresses and the free ports on which the first process of a run listens."""

import contextlib
import socket

_LOOPBACK = ('127.', '::1')


def addresses(host: str) -> list[str]:
    """Finds the addresses of this machine that a name stands for, for process 0 to listen on.

    Args:
      host: a name or an address.

    Returns:
      The addresses that others can reach. Loopback is included only if ``host`` means loopback. The
      list is empty if the machine's name stands for 127.0.1.1 here, or if ``host`` names a service
      in front of the machine.
    """
    try:
        entries = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return []
    candidates = list(dict.fromkeys(str(address[0]) for *_, address in entries))
    means_loopback = host == 'localhost' or host.startswith(_LOOPBACK)
    if not means_loopback:
        candidates = [text for text in candidates if not text.startswith(_LOOPBACK)]
    return [address for address in candidates if _is_here(address)]


def _is_here(address: str) -> bool:
    """Returns whether an address is one of this machine's."""
    family = socket.AF_INET6 if ':' in address else socket.AF_INET
    with (
        contextlib.suppress(OSError),
        socket.socket(family, socket.SOCK_STREAM) as probe,
    ):
        probe.bind((address, 0))
        return True
    return False


def free_port(host: str) -> int:
    """Finds a free port on the addresses on which process 0 listens."""
    servers = listen(host, 0)
    port = int(servers[0].getsockname()[1])
    for server in servers:
        server.close()
    return port


def listen(host: str, port: int) -> list[socket.socket]:
    """Opens a port on this machine's addresses of a name; without any, on all its addresses."""
    servers: list[socket.socket] = []
    for address in addresses(host):
        family = socket.AF_INET6 if ':' in address else socket.AF_INET
        common_port = servers[0].getsockname()[1] if servers else port
        servers.append(socket.create_server((address, common_port), family=family))
    if servers:
        return servers
    both = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both else socket.AF_INET
    return [socket.create_server(('', port), family=family, dualstack_ipv6=both)]
