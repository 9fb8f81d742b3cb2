"""Type checkers infer reply types and refuse what is wrong: marked lines are errors, no others."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
FILES = ["endpoints.py", "inference.py", "shapes.py"]


@pytest.mark.timeout(180)
@pytest.mark.parametrize("file", FILES)
def test_mypy_infers_and_refuses(file: str) -> None:
    """Every marked line is an error, and no other."""
    done = subprocess.run(
        [
            sys.executable, "-m", "mypy", "--strict", "--warn-unused-ignores",
            "--config-file", "", str(FOLDER / file),
        ],
        cwd=FOLDER,
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.timeout(180)
@pytest.mark.parametrize("file", FILES)
def test_pyright_infers_and_refuses_the_same(file: str, tmp_path: Path) -> None:
    """In pyright's strict mode, the lines that mypy refuses."""
    source = (FOLDER / file).read_text()
    (tmp_path / file).write_text(source)
    settings = {"typeCheckingMode": "strict", "enableTypeIgnoreComments": False}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    done = subprocess.run(
        [
            sys.executable, "-m", "pyright", "--outputjson",
            "--pythonpath", sys.executable, "--project", str(tmp_path),
        ],
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip

    found = json.loads(done.stdout)["generalDiagnostics"]
    refused = {one["range"]["start"]["line"] + 1: one["message"] for one in found}
    marked = {
        number
        for number, line in enumerate(source.splitlines(), start=1)
        if ("# type: ignore[" in line and "mypy" not in line) or "# where pyright" in line
    }
    assert refused.keys() == marked, {line: refused[line] for line in refused.keys() - marked}
