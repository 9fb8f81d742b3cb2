"""Finds the service that `module:service` names."""

from __future__ import annotations

import argparse
import importlib
import sys
import traceback
from pathlib import Path

from greenroom.cli._failure import CommandFailed
from greenroom.errors import GreenroomError
from greenroom.ids import EntityRef, entity_ref
from greenroom.service import Service


def add_target(parser: argparse.ArgumentParser) -> None:
    """The argument that names a service."""
    parser.add_argument(
        "service",
        metavar="MODULE:SERVICE",
        help="where the Service is, e.g. shop.main:service (:service may be left out)",
    )


def load_service(target: str) -> Service:
    """The service that `module:attribute` names, imported from the current folder.

    Raises:
        CommandFailed: There is no such module or attribute, it can't be imported, or it is not
            a service.
        DefinitionError: The service's components or endpoints are written wrongly.
    """
    module_name, _, attribute = target.partition(":")
    attribute = attribute or "service"
    names = (*module_name.split("."), *attribute.split("."))
    if module_name.endswith(".py") or not all(name.isidentifier() for name in names):
        raise CommandFailed(
            f"{target!r} does not name a service: write MODULE:SERVICE, like shop.main:service.",
            usage=True,
        )
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    found: object = _import(module_name)
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise CommandFailed(f"The module {module_name} has no {attribute!r}.{_hint(found)}")
        found = getattr(found, part)
    if not isinstance(found, Service):
        raise CommandFailed(f"{target} is a {type(found).__name__}, not a greenroom Service.")
    return found


def _import(name: str) -> object:
    try:
        return importlib.import_module(name)
    except GreenroomError:
        raise
    except (Exception, SystemExit) as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and f"{name}.".startswith(f"{missing}."):
            raise CommandFailed(
                f"There is no module {missing!r} here ({Path.cwd()}) or on PYTHONPATH.", usage=True
            ) from None
        raise CommandFailed(
            f"The module {name} can't be imported: {_told(error)}. "
            f'Correct it; for the whole traceback: python -c "import {name}"',
            usage=True,
        ) from error


def _told(error: BaseException) -> str:
    """An error as one line, with the last place it came through."""
    said = " ".join(str(error).split())
    told = f"{type(error).__name__}: {said}" if said else type(error).__name__
    if isinstance(error, SyntaxError):
        # Its text names the place.
        return told
    places = [one for one in traceback.extract_tb(error.__traceback__) if _is_own(one.filename)]
    return f"{told} ({places[-1].filename}:{places[-1].lineno})" if places else told


def _is_own(filename: str) -> bool:
    """Whether it is a file of the application, rather than one that imports or is installed."""
    path = Path(filename)
    return path.is_file() and path.is_relative_to(Path.cwd()) and "site-packages" not in path.parts


def _hint(module: object) -> str:
    names = [name for name, value in vars(module).items() if isinstance(value, Service)]
    return f" It has: {', '.join(names)}." if names else ""


def parse_ref(text: str) -> EntityRef:
    """`component/instance`, split at the first slash, since instance ids may have slashes.

    Raises:
        CommandFailed: There is no slash.
        InvalidIdError: The instance id can't be one.
    """
    component, slash, instance = text.partition("/")
    if not slash or not component:
        raise CommandFailed(
            f"{text!r} does not name an instance: write COMPONENT/INSTANCE, like cart/cart-1.",
            usage=True,
        )
    return entity_ref(component, instance)
