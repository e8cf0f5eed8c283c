"""Sockets that servers listen on, and their addresses."""

import ipaddress
import socket

WAITING = 128  # connections that wait until the server is up


def listener(host: str, port: int) -> socket.socket:
    """A listening socket: who comes before the server is up waits. Port 0 takes any.

    Connections send what is written at once. Without that the body of a reply, which is written after its head, waits
    until the other side has confirmed the head, and that takes its time: 40 ms on Linux.
    """
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # connections inherit it
        made.bind((host, port))
        made.listen(WAITING)
    except OSError:
        made.close()
        raise
    return made


def parse_address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the IP address of a name that is one, else None."""
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def is_loopback(host: str) -> bool:
    """Return whether an address can be reached from this machine only."""
    address = parse_address(host)
    return host == "localhost" or (address is not None and address.is_loopback)
