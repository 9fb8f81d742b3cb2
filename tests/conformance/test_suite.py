"""The official conformance suite, for both eras; `make conformance` runs just this folder."""

import json
import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.support.node import packages, run_node
from tests.support.server import ROOT, free_port

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

NEED_SESSIONS = {
    "tools-call-sampling",
    "tools-call-elicitation",
    "elicitation-sep1034-defaults",
    "elicitation-sep1330-enums",
}
"""Requests from the server to the client, which take a session; clients of 2026-07-28 are asked
within the call."""

NOT_OFFERED = re.compile(r"sep-2640-")
"""An extension: not part of what a revision requires."""


def failures(url: str, revision: str, folder: Path) -> tuple[dict[str, list[str]], int]:
    """The checks that failed, by scenario, and how many passed."""
    suite = packages() / "node_modules/@modelcontextprotocol/conformance/dist/index.js"
    done = run_node(
        str(suite), "server", "--url", url, "--requirements", revision, "-o", str(folder)
    )
    failed: dict[str, list[str]] = {}
    passed = 0
    for file in folder.rglob("checks.json"):
        scenario = re.sub(r"^server-(.*?)-\d{4}-\d\d-\d\dT.*$", r"\1", file.parent.name)
        for check in json.loads(file.read_text()):
            if check["status"] == "FAILURE":
                failed.setdefault(scenario, []).append(check.get("errorMessage", ""))
            passed += check["status"] == "SUCCESS"
    assert passed, done.stdout[-2000:] + done.stderr[-2000:]
    return {name: said for name, said in failed.items() if not NOT_OFFERED.match(name)}, passed


def test_2026_07_28_has_no_failure(url: str, tmp_path: Path) -> None:
    failed, passed = failures(url, "2026-07-28", tmp_path)

    assert failed == {}
    assert passed >= 190, "some scenarios did not run; 36 checks are about tasks"


def test_2025_11_25_fails_only_where_sessions_are_needed(url: str, tmp_path: Path) -> None:
    failed, passed = failures(url, "2025-11-25", tmp_path)

    assert failed.keys() == NEED_SESSIONS
    assert passed >= 63


@pytest.mark.postgresql
def test_two_workers_pass_as_one_does(postgres_url: str, tmp_path: Path) -> None:
    """Questions to the client go on at another worker; nothing is kept in either."""
    port = free_port()
    environment = {
        **os.environ,
        "GREENROOM_DATABASE_URL": postgres_url,
        "GREENROOM_LOG_LEVEL": "WARNING",
    }
    command = [
        sys.executable, "-m", "uvicorn", "tests.conformance.server:service.app",
        "--workers", "2", "--port", str(port), "--log-level", "warning",
    ]  # fmt: skip
    with subprocess.Popen(command, cwd=ROOT, env=environment) as server:
        try:
            _wait_for(f"http://127.0.0.1:{port}/health/ready")
            failed, passed = failures(f"http://localhost:{port}/mcp", "2026-07-28", tmp_path)
        finally:
            server.terminate()

    assert failed == {}
    assert passed >= 150


def _wait_for(address: str) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(address, timeout=1):
                return
        except (OSError, urllib.error.HTTPError):
            time.sleep(0.05)
    raise AssertionError(f"nobody answers at {address}")
