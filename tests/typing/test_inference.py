"""mypy --strict infers reply types, and refuses what is wrong."""

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent


@pytest.mark.timeout(180)
def test_the_public_api_is_inferred_and_checked() -> None:
    """Every marked line is an error, and no other."""
    pytest.importorskip("mypy", reason="mypy is in the lint group")
    done = subprocess.run(
        [
            sys.executable, "-m", "mypy", "--strict", "--warn-unused-ignores",
            "--config-file", "", str(FOLDER / "inference.py"),
        ],
        cwd=FOLDER,
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout + done.stderr
