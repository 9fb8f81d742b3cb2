"""Finds the service that `module:service` names."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

from greenroom.cli._failure import CommandFailed
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
        CommandFailed: There is no such module or attribute, or it is not a service.
        DefinitionError: The service's components or endpoints are written wrongly.
    """
    module_name, _, attribute = target.partition(":")
    attribute = attribute or "service"
    named = [*module_name.split("."), *attribute.split(".")]
    if module_name.endswith(".py") or not all(part.isidentifier() for part in named):
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
    except ModuleNotFoundError as error:
        # A module that is missing inside the application is the application's own mistake,
        # and its traceback says where.
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise
        raise CommandFailed(
            f"There is no module {error.name!r} here ({Path.cwd()}) or on PYTHONPATH."
        ) from None


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
