"""An ASGI application under a real uvicorn, in a thread of this process."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from tests.support.eventually import eventually


@contextmanager
def served(app: Any, *, http: str = "auto", lifespan: str = "on") -> Iterator[str]:
    """The address of the application, while it is served."""
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        app,
        http=http,  # type: ignore[arg-type]
        lifespan=lifespan,  # type: ignore[arg-type]
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=5,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        assert eventually(lambda: server.started or not thread.is_alive())
        assert server.started, "the application failed to start"
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)
        listener.close()
