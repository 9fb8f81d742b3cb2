"""What the documentation shows, runs."""

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if "```python" in page.read_text()),
]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_code_of_a_page_runs_from_top_to_bottom(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The blocks of a page are one program."""
    monkeypatch.chdir(tmp_path)
    module = ModuleType(f"page_{page.stem.replace('-', '_').lower()}")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    text = page.read_text()
    for block in BLOCK.finditer(text):
        line = text[: block.start(1)].count("\n")
        source = "\n" * line + block.group(1)
        exec(compile(source, str(page), "exec"), module.__dict__)


def test_the_readme_shows_a_whole_example_at_once() -> None:
    """It stands within the first thirty lines, and defines a service."""
    text = (ROOT / "README.md").read_text()
    first = BLOCK.search(text)
    assert first is not None
    assert text[: first.end(1)].count("\n") <= 30
    assert "Service(" in first.group(1)


def test_every_link_between_pages_leads_somewhere() -> None:
    """Links to files of the repository."""
    missing = []
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")):
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
            if "://" not in target and not (page.parent / target).exists():
                missing.append(f"{page.relative_to(ROOT)}: {target}")
    assert missing == []


def test_every_test_that_a_page_names_exists() -> None:
    """A promise is shown by a test, or it is not a promise."""
    missing = []
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")):
        for named in re.findall(r"`(tests/[\w/]+(?:\.py)?)`", page.read_text()):
            if not (ROOT / named).exists():
                missing.append(f"{page.relative_to(ROOT)}: {named}")
    assert missing == []
