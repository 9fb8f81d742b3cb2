"""The repository stands alone: it names no machine, no registry, nothing of a workplace."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HERE = "|".join(re.escape(str(folder)) for folder in (ROOT, Path.home()) if len(folder.parts) > 2)
FORBIDDEN = re.compile(
    # Someone's home, and where this checkout happens to be.
    r"(?<![\w.])/(?:root|home/\w+|Users/\w+)/"
    rf"|(?<![\w.])(?:{HERE or '(?!)'})(?!\w)"
    # Registries and their mirrors, by host or by option.
    r"|[\w-]*(?:pypi|pythonhosted|npmjs|crates)[\w-]*\.(?:org|com|io|dev|net)\b"
    r"|//(?:registry|index|mirror|proxy|deb)\."
    r"|--(?:extra-)?index-url|--find-links|--trusted-host",
)


def _tracked() -> list[Path]:
    done = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False, text=True
    )
    if done.returncode:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in done.stdout.split("\0") if name]


def test_no_file_names_a_machine_or_a_registry() -> None:
    """Paths and hosts belong to whoever runs it."""
    found = []
    for path in _tracked():
        if path == Path(__file__) or not path.is_file():
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            if FORBIDDEN.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:80]}")
    assert found == []
