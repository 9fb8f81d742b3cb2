"""A greenroom service in a process of its own, to be called, killed and started again."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path(__file__).parents[2]
START_SECONDS = 30.0


def free_port() -> int:
    """A port of the loopback interface that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class ServerProcess:
    """`greenroom run TARGET` on a free port; killed at the end whatever happened."""

    def __init__(self, target: str, database_url: str, **settings: str) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._command = [sys.executable, "-m", "greenroom", "run", target, "--port", str(self.port)]
        self._environment = {
            **os.environ,
            "GREENROOM_DATABASE_URL": database_url,
            "GREENROOM_LOG_LEVEL": "WARNING",
            **{f"GREENROOM_{name.upper()}": value for name, value in settings.items()},
        }
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        """Start, and return when the service says that it is ready."""
        self.process = subprocess.Popen(self._command, cwd=ROOT, env=self._environment)
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise AssertionError(f"the server ended with {self.process.returncode}")
            if self.is_ready():
                return self
            time.sleep(0.02)
        self.kill()
        raise AssertionError(f"the server was not ready within {START_SECONDS:g} s")

    def is_ready(self) -> bool:
        """Whether `/health/ready` answers 200."""
        try:
            with urllib.request.urlopen(f"{self.url}/health/ready", timeout=1) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.HTTPError):
            return False

    def kill(self) -> None:
        """SIGKILL: no goodbye, nothing flushed."""
        self._end(signal.SIGKILL)

    def terminate(self) -> int:
        """SIGTERM: a graceful stop; returns the exit code."""
        return self._end(signal.SIGTERM)

    def pause(self) -> None:
        """Freeze the process, as a machine that hangs would."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Thaw the process."""
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def _end(self, how: signal.Signals) -> int:
        if self.process is None:
            return 0
        if self.process.poll() is None:
            self.process.send_signal(how)
        return self.process.wait(timeout=START_SECONDS)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGCONT)
        self.kill()
