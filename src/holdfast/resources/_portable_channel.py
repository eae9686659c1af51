"""Messages on a stream, which has no bounds of its own: where there are no sockets that keep them. Part of the portable keeper's
program, so it imports little.
"""

import socket


class Lines(socket.socket):
    """Sends and receives whole lines, so short that the system takes each at once."""

    def recv(self, bufsize: int, flags: int = 0) -> bytes:
        """The next line; empty at the end. What follows it stays in the socket, so that a poll still sees it."""
        seen = super().recv(bufsize, flags | socket.MSG_PEEK)
        end = seen.find(b"\n") + 1 or len(seen)
        return super().recv(end).rstrip(b"\n") if end else b""

    def send(self, data: bytes, flags: int = 0) -> int:  # type: ignore[override]
        return super().send(data + b"\n", flags)


def line_pair() -> tuple[Lines, Lines]:
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    return Lines(fileno=one.detach()), Lines(fileno=other.detach())
