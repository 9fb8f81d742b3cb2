"""What constructors of components are given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from greenroom.components import EntityContext
from greenroom.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from greenroom.components import ComponentDefinition

T = TypeVar("T")


class DependencyProvider(Protocol):
    """Makes, or finds, what constructors ask for.

    Example:
        >>> class FromContainer:
        ...     def get(self, kind):
        ...         return container.resolve(kind)
    """

    def get(self, kind: type[T], /) -> T:
        """The object for a type; raises LookupError when there is none."""
        ...


def resolve_dependencies(
    definitions: Iterable[ComponentDefinition],
    provided: Mapping[type[Any], object] | DependencyProvider | None,
    own: Mapping[type[Any], object],
) -> dict[str, dict[str, Any]]:
    """For each component id, the constructor's arguments by name.

    Args:
        definitions: The components.
        provided: What the application gives, by type, or a provider.
        own: What greenroom itself gives: clients, say.

    Raises:
        ConfigurationError: Names every parameter that nobody provides.
    """
    resolved: dict[str, dict[str, Any]] = {}
    missing: list[str] = []
    for definition in definitions:
        arguments = resolved[definition.id] = {}
        for name, kind in definition.dependencies.items():
            if kind is EntityContext:
                continue
            try:
                arguments[name] = own[kind] if kind in own else _find(kind, provided)
            except LookupError:
                missing.append(f"{definition.cls.__name__}.__init__({name}: {_name(kind)})")
    if missing:
        raise ConfigurationError(
            "Nobody provides: " + "; ".join(missing) + ". "
            "Give an object for the type in Service(dependencies={...})."
        )
    return resolved


def _find(kind: Any, provided: Mapping[type[Any], object] | DependencyProvider | None) -> object:
    if provided is None:
        raise LookupError(kind)
    if hasattr(provided, "keys"):
        return provided[kind]  # type: ignore[index]
    return provided.get(kind)


def _name(kind: Any) -> str:
    return getattr(kind, "__name__", None) or str(kind)
