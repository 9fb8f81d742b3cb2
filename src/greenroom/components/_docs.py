"""What docstrings say: a first paragraph, and a text for each parameter."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

_SECTION = re.compile(r"^(?:Args|Arguments|Parameters):\n((?:[ \t]+.*\n?|\n)+)", re.MULTILINE)
_ENTRY = re.compile(r"\s{2,4}\*{0,2}(\w+)(?:\s*\([^)]*\))?:\s*(.*)")


def first_paragraph(thing: Any) -> str:
    """The first paragraph of its own docstring, on one line; an inherited one does not count."""
    own = vars(thing).get("__doc__") if isinstance(thing, type) else thing.__doc__
    return " ".join(inspect.cleandoc(own or "").split("\n\n", 1)[0].split())


def parameter_texts(function: Callable[..., Any]) -> dict[str, str]:
    """Texts of the `Args:` section, by parameter (Google style)."""
    section = _SECTION.search(inspect.getdoc(function) or "")
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in section.group(1).splitlines() if section else ():
        entry = _ENTRY.fullmatch(line)
        if entry is not None:
            lines = found.setdefault(entry.group(1), [])
        lines.append(entry.group(2) if entry is not None else line)
    texts = {name: " ".join(" ".join(lines).split()) for name, lines in found.items()}
    return {name: text for name, text in texts.items() if text}
