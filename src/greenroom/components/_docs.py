"""What docstrings say: a first paragraph, and a text for each parameter."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable
from typing import Any

_SECTION = re.compile(r"^(?:Args|Arguments|Parameters):\n((?:[ \t]+.*\n?|\n)+)", re.MULTILINE)
_ENTRY = re.compile(r"\s{2,4}\*{0,2}(\w+)(?:\s*\([^)]*\))?:\s*(.*)")
_NUMPY = re.compile(r"^Parameters\n-+\n((?:.*\n?)+?)(?:^\w.*\n-+$|\Z)", re.MULTILINE)
_NUMPY_ENTRY = re.compile(r"\*{0,2}(\w+)(?:\s*:.*)?()")
_SPHINX = re.compile(r"^((?::param\s.*\n?(?:[ \t]+.*\n?|\n)*)+)", re.MULTILINE)
_SPHINX_ENTRY = re.compile(r":param\s+(?:[^:]*\s)?\*{0,2}(\w+):\s*(.*)")
_STYLES = ((_SECTION, _ENTRY), (_NUMPY, _NUMPY_ENTRY), (_SPHINX, _SPHINX_ENTRY))


def first_paragraph(thing: Any) -> str:
    """The first paragraph of its own docstring, on one line; an inherited one does not count."""
    own = vars(thing).get("__doc__") if isinstance(thing, type) else thing.__doc__
    made = isinstance(thing, type) and dataclasses.is_dataclass(thing)
    if made and (own or "").startswith(f"{thing.__name__}("):
        return ""  # made by the decorator
    return " ".join(inspect.cleandoc(own or "").split("\n\n", 1)[0].split())


def parameter_texts(function: Callable[..., Any]) -> dict[str, str]:
    """Texts by parameter, from an `Args:` section, a NumPy one, or `:param name:` lines."""
    text = inspect.getdoc(function) or ""
    for section, entry in _STYLES:
        found = section.search(text)
        if found is not None:
            return _entries(found.group(1), entry)
    return {}


def _entries(section: str, pattern: re.Pattern[str]) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in section.splitlines():
        entry = pattern.fullmatch(line)
        if entry is not None:
            lines = found.setdefault(entry.group(1), [])
        lines.append(entry.group(2) if entry is not None else line)
    texts = {name: " ".join(" ".join(lines).split()) for name, lines in found.items()}
    return {name: text for name, text in texts.items() if text}
