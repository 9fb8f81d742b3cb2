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
        wanted = {
            name: kind
            for name, kind in definition.dependencies.items()
            if kind is not EntityContext
        }
        owner = definition.cls.__name__
        resolved[definition.id], lacking = _find_all(owner, wanted, provided, own)
        missing += lacking
    if missing:
        raise _nobody_provides(missing)
    return resolved


def resolve_constructor(
    owner: str,
    wanted: Mapping[str, Any],
    provided: Mapping[type[Any], object] | DependencyProvider | None,
    own: Mapping[type[Any], object],
) -> dict[str, Any]:
    """The arguments of one constructor by name.

    Args:
        owner: Whose constructor it is, for the message.
        wanted: Parameter name and type.
        provided: What the application gives, by type, or a provider.
        own: What greenroom itself gives: clients, say.

    Raises:
        ConfigurationError: Names every parameter that nobody provides.
    """
    resolved, missing = _find_all(owner, wanted, provided, own)
    if missing:
        raise _nobody_provides(missing)
    return resolved


def _find_all(
    owner: str,
    wanted: Mapping[str, Any],
    provided: Mapping[type[Any], object] | DependencyProvider | None,
    own: Mapping[type[Any], object],
) -> tuple[dict[str, Any], list[str]]:
    found: dict[str, Any] = {}
    missing = []
    for name, kind in wanted.items():
        try:
            found[name] = own[kind] if kind in own else _find(kind, provided)
        except LookupError:
            missing.append(f"{owner}.__init__({name}: {_name(kind)})")
    return found, missing


def _nobody_provides(missing: Iterable[str]) -> ConfigurationError:
    return ConfigurationError(
        "Nobody provides: " + "; ".join(missing) + ". "
        "Give an object for the type in Service(dependencies={...})."
    )


def _find(kind: Any, provided: Mapping[type[Any], object] | DependencyProvider | None) -> object:
    if provided is None:
        raise LookupError(kind)
    if hasattr(provided, "keys"):
        return provided[kind]  # type: ignore[index]
    return provided.get(kind)


def _name(kind: Any) -> str:
    return getattr(kind, "__name__", None) or str(kind)
