"""A network between a client and a database, which can fail at the worst moment."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.engine import make_url


class Network:
    """Passes bytes on, until it is told to lose some.

    The server's side of a lost connection stays open, as if a cable had been cut: the server
    does not notice.
    """

    def __init__(self, host: str, port: int) -> None:
        self._server = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._sockets: list[socket.socket] = []
        self._cut_at: bytes | None = None
        self._delivers = False
        self._stays_down = False
        self._is_down = False
        self.was_cut = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_at(self, word: bytes, *, delivered: bool, stays_down: bool = False) -> None:
        """Lose the connection on which this is sent, before or after the server carried it out."""
        self._delivers = delivered
        self._stays_down = stays_down
        self._cut_at = word

    def comes_back(self) -> None:
        """New connections are let through again."""
        self._is_down = False

    def close(self) -> None:
        """Close every connection."""
        self._is_down = True
        for one in [self._listener, *self._sockets]:
            # Wakes up whoever waits for it.
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._is_down:
                client.close()
                continue
            server = socket.create_connection(self._server)
            self._sockets += [client, server]
            lost = threading.Event()
            for work in (self._to_server, self._to_client):
                threading.Thread(target=work, args=(client, server, lost), daemon=True).start()

    def _to_server(
        self, client: socket.socket, server: socket.socket, lost: threading.Event
    ) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(65536):
                if self._cut_at is not None and self._cut_at in data:
                    self._cut_at = None
                    self._is_down = self._stays_down
                    lost.set()
                    if self._delivers:
                        server.sendall(data)  # the answer cuts it, see below
                    else:
                        _hang_up(client)
                        self.was_cut.set()
                    return
                server.sendall(data)
            if not lost.is_set():
                _hang_up(server)

    def _to_client(
        self, client: socket.socket, server: socket.socket, lost: threading.Event
    ) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(65536):
                if lost.is_set():
                    _hang_up(client)
                    self.was_cut.set()
                    return
                client.sendall(data)
            _hang_up(client)


def _hang_up(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)


@contextmanager
def network_to(url: str) -> Iterator[tuple[str, Network]]:
    """The same database by way of a network that can fail."""
    direct = make_url(url)
    assert direct.host is not None
    assert direct.port is not None
    network = Network(direct.host, direct.port)
    try:
        through = direct.set(host="127.0.0.1", port=network.port)
        yield through.render_as_string(hide_password=False), network
    finally:
        network.close()
