"""What the documentation lists is what there is: fields, settings, commands, statuses, types."""

import argparse
import dataclasses
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from greenroom import (
    CommandContext,
    EventContext,
    McpContext,
    Service,
    Settings,
    ToolContext,
    errors,
)
from greenroom.cli._main import _parser
from greenroom.errors import GreenroomError
from greenroom.web._problems import status_of
from tests.docs.test_docs import BLOCK, PAGES, ROOT

ENTITIES = (ROOT / "docs/entities.md").read_text()
RUNNING = (ROOT / "docs/running.md").read_text()
TOOLS = (ROOT / "docs/tools.md").read_text()
ENDPOINTS = (ROOT / "docs/endpoints.md").read_text()


def lacking(page: str, names: list[str]) -> list[str]:
    return [name for name in names if f"`{name}`" not in page]


def test_every_field_of_a_context_is_explained() -> None:
    for context, page in (
        (CommandContext, ENTITIES), (EventContext, ENTITIES), (ToolContext, TOOLS),
    ):  # fmt: skip
        assert lacking(page, [field.name for field in dataclasses.fields(context)]) == []
    own = {field.name for field in dataclasses.fields(McpContext)}
    own -= {field.name for field in dataclasses.fields(ToolContext)}
    assert lacking(ENDPOINTS, sorted(own)) == []


def test_every_setting_and_every_argument_of_a_service_is_explained() -> None:
    assert lacking(RUNNING, [name.upper() for name in Settings.model_fields]) == []
    arguments = list(inspect.signature(Service).parameters)[1:]
    assert lacking(RUNNING, arguments) == []


def commands(parser: argparse.ArgumentParser, name: str) -> Iterator[tuple[str, list[str]]]:
    """Each command that does something, with its options."""
    below = [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]
    for action in below:
        for verb, inner in action.choices.items():
            yield from commands(inner, f"{name} {verb}".strip())
    if not below:
        options = [option for one in parser._actions for option in one.option_strings]
        yield name, [one for one in options if one.startswith("--") and one != "--help"]


def test_every_command_and_every_option_is_explained() -> None:
    section = RUNNING.partition("## The command line")[2]
    rows = [row for row in section.splitlines() if row.startswith("| `")]
    missing = []
    for name, options in commands(_parser(), ""):
        row = next((row for row in rows if re.search(rf"`{name}[ `]", row)), None)
        if row is None:
            missing.append(name)
            continue
        missing += [f"{name} {option}" for option in options if option not in row]
    assert missing == []


def test_the_statuses_that_are_listed_are_those_that_are_sent() -> None:
    kinds = {
        one.code: one
        for one in vars(errors).values()
        if isinstance(one, type) and issubclass(one, GreenroomError)
    }
    rows = re.findall(r"^\| (\d{3}(?:, \d{3})*) \| (.*) \|$", RUNNING, re.MULTILINE)
    assert len(rows) >= 8
    for statuses, listed in rows:
        for code in re.findall(r"`([a-z-]+)`", listed):
            assert str(status_of(kinds[code])) in statuses, code


@pytest.mark.timeout(180)
def test_the_code_of_every_page_satisfies_a_strict_type_checker(tmp_path: Path) -> None:
    """Who copies an example must not get errors with it."""
    for page in PAGES:
        text = page.read_text()
        source = ""
        for block in BLOCK.finditer(text):
            line = text[: block.start(1)].count("\n")
            source += "\n" * (line - source.count("\n")) + block.group(1)
        (tmp_path / f"page_{page.stem.replace('-', '_').lower()}.py").write_text(source)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file", "", str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
