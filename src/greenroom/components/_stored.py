"""What a component stores: its types, their names, and how old versions are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, get_origin

from pydantic import TypeAdapter
from typing_extensions import is_typeddict

from greenroom.components._hints import settle_annotations, shown
from greenroom.components.type_names import (
    StoredTypeInfo,
    TypeMark,
    built_in_name,
    mark_of,
    marks_within,
    missing_migrations,
    without_none,
)
from greenroom.fidelity import starred


def read_stored(python_type: Any, names: dict[str, Any]) -> tuple[StoredTypeInfo | None, list[str]]:
    """How values of a type are stored, or what is wrong, told after "<component> stores"."""
    inner = without_none(python_type)
    mark = mark_of(inner)
    if mark is None:
        return _read_built_in(python_type)
    problems = _wrong_versions(mark)
    if not problems:
        settle_annotations(inner, names)
        problems = _unusable(inner)
    if problems:
        return None, problems
    migrations = mark.migrations
    if inner is not python_type:
        migrations = {version: _past_null(one) for version, one in migrations.items()}
    return StoredTypeInfo(mark.name, mark.version, python_type, migrations), []


def read_stored_event(
    python_type: Any, names: dict[str, Any]
) -> tuple[StoredTypeInfo | None, list[str]]:
    """As `read_stored`, for an event: it is found by the class of the object that is persisted."""
    if get_origin(python_type) is not None or is_typeddict(python_type):
        problem = (
            f"the event {shown(python_type)}, whose objects don't show that they are events; make "
            "it a class of its own (a pydantic model or a dataclass)"
        )
        return None, [problem]
    return read_stored(python_type, names)


def _read_built_in(python_type: Any) -> tuple[StoredTypeInfo | None, list[str]]:
    name = built_in_name(python_type)
    if name is None:
        return None, [
            f'{shown(python_type)}, which has no permanent name; give the class a @type_name("...")'
        ]
    migrated = sorted({mark.name for mark in marks_within(python_type) if mark.version > 1})
    if migrated:
        problem = (
            f"{shown(python_type)}, but what is inside a container is not migrated, and "
            f"{', '.join(migrated)} has versions; make it a field of a class with a @type_name"
        )
        return None, [problem]
    problems = _unusable(python_type)
    return None if problems else StoredTypeInfo(name, 1, python_type, {}), problems


def _wrong_versions(mark: TypeMark) -> list[str]:
    name = mark.cls.__name__
    return [
        *(f"{name}, but {problem}" for problem in mark.problems),
        *(
            f"{name} in version {mark.version}, but nothing says how version {version} is read; "
            f"add @migrates({name}, from_version={version})"
            for version in missing_migrations(mark)
        ),
    ]


def _unusable(python_type: Any) -> list[str]:
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(python_type)
        complete = adapter.pydantic_complete
    except Exception as error:
        reason = str(error).splitlines()[0]
    else:
        if complete:
            return [
                f"{shown(python_type)}, but {place or 'it'} is a secret, which JSON shows as "
                "stars; store text that is encrypted, or give the field a serializer that writes "
                "the secret itself"
                for place in starred(adapter.core_schema)
            ]
        reason = "it mentions names that are not known where it is written"
    return [f"{shown(python_type)}, which pydantic can't turn into JSON: {reason}"]


def _past_null(migration: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda old: None if old is None else migration(old)


def type_name_clashes(stored_types: Iterable[StoredTypeInfo]) -> list[str]:
    """Two classes under one name; what is stored under it could be read as either."""
    problems = []
    first: dict[str, Any] = {}
    for stored in stored_types:
        mine = without_none(stored.python_type)
        other = first.setdefault(stored.name, mine)
        # A dataclass with slots is a second class with the same mark.
        if mark_of(mine) is not mark_of(other):
            problems.append(
                f"{shown(mine)} and {shown(other)} both have the type name {stored.name!r}"
            )
    return list(dict.fromkeys(problems))
