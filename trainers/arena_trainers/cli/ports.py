"""Ports that servers listen at."""

import errno
import socket


def check_port(port: int) -> None:
    """Raises ValueError if a port is out of range."""
    if not 0 < port < 2**16:
        raise ValueError(f"want --port from 1 to 65535, got {port}")


def check_free(host: str, port: int) -> None:
    """Listens at the address for a moment, as the server will."""
    check_port(port)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, port), family=family).close()
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise ValueError(f"port {port} is in use; give another --port") from error
        raise ValueError(
            f"cannot listen at {host}, port {port}: {error.strerror}; give another "
            "--host or --port"
        ) from error
