"""An application under uvicorn, the same for both sides: `python -m benchmarks.serve MODULE PORT`."""

from __future__ import annotations

import gc
import importlib
import os
import socket
import sys

import uvicorn

CORE = 0


class Server(uvicorn.Server):
    """uvicorn, with what lives after the start taken out of the collector's sight."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then freeze; as `greenroom run` does."""
        await super().startup(sockets)
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 20, 20)


def main() -> None:
    """Serve until killed, on a core of its own."""
    module, port = sys.argv[1:]
    os.sched_setaffinity(0, {CORE})
    sys.setswitchinterval(0.0005)
    config = uvicorn.Config(
        importlib.import_module(f"benchmarks.{module}").app,
        host="127.0.0.1",
        port=int(port),
        loop="uvloop",
        http="httptools",
        lifespan="on",
        access_log=False,
        log_level="warning",
    )
    Server(config).run()


if __name__ == "__main__":
    main()
