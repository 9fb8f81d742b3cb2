"""What event sourced and key value entities have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, Protocol, Self, TypeVar

from greenroom.components.security import Access, Acl, Authorize
from greenroom.components.session import PHASE_COMMAND, PHASE_EVENT, EntitySession

if TYPE_CHECKING:
    from greenroom.components.contexts import CommandContext, ToolContext
    from greenroom.components.tools import ToolSet

S = TypeVar("S")
C_co = TypeVar("C_co", covariant=True)
S_co = TypeVar("S_co", covariant=True)
E_co = TypeVar("E_co", covariant=True)


class Component:
    """The root of everything a service is made of."""

    kind: ClassVar[str] = ""

    @classmethod
    def tools(
        cls,
        *,
        bind: str | Callable[[ToolContext], str | None] | None = None,
        only: Set[str | Callable[..., object]] | None = None,
        exclude: Set[str | Callable[..., object]] | None = None,
        descriptions: Mapping[str | Callable[..., object], str] | None = None,
        acl: Acl | None = None,
        scopes: Set[str] = frozenset(),
        authorize: Authorize | None = None,
    ) -> ToolSet:
        """This component's tools, chosen, bound and protected.

        Args:
            bind: The instance id (or a function of the call's context that gives it), taken out
                of the schema so that a model can't name somebody else's instance.
            only: The methods to offer, as names or as `{ShoppingCart.add_item}`; all of them by
                default.
            exclude: The methods not to offer.
            descriptions: What to say of some of them here, in place of their own words.
            acl: Who may call them, of those whom the endpoint lets in.
            scopes: What the caller's token must permit; the endpoint then asks for tokens (jwt=).
            authorize: Whether a call on an instance may be made; see `ToolRequest`.

        Example:
            >>> ShoppingCart.tools(bind=lambda call: call.principal.subject)  # doctest: +SKIP
        """
        from greenroom.components.tools import ToolSet

        said = {_name(one): text for one, text in (descriptions or {}).items()}
        asks = acl is not None or scopes or authorize is not None
        return ToolSet(
            cls,
            bind=bind,
            only=_names(only),
            exclude=_names(exclude),
            descriptions=said,
            access=Access(acl, scopes, authorize) if asks else None,
        )


def _names(methods: Set[str | Callable[..., object]] | None) -> frozenset[str] | None:
    if methods is None:
        return None
    return frozenset(map(_name, methods))


def _name(method: str | Callable[..., object]) -> str:
    return method if isinstance(method, str) else getattr(method, "__name__", str(method))


class Entity(Component, Generic[S]):
    """One instance under an id, with a state, handling one command at a time.

    Subclass `EventSourcedEntity` or `KeyValueEntity`. Handlers are public methods that return
    an `Effect`. They compute and never wait: no clients, no I/O. A constructor may take an
    `EntityContext` and objects that the service provides.
    """

    _greenroom: EntitySession[S]

    def empty_state(self) -> S:
        """The state of an instance that nothing was stored for.

        The default is None, which is a state only where the class says so, as
        `KeyValueEntity[Profile | None]`; other classes must have an `empty_state`.
        """
        return None  # type: ignore[return-value]

    @property
    def entity_id(self) -> str:
        """The id of this instance."""
        return self._greenroom.entity_id

    @property
    def state(self) -> S:
        """The current state, in handlers and in `apply_event`. Do not change it in place."""
        session = self._greenroom
        if not session.phase:
            self._refuse("state", "in a command handler or in apply_event")
        return session.state  # type: ignore[no-any-return]

    @property
    def is_deleted(self) -> bool:
        """Whether this instance was deleted; always false while an event is applied."""
        session = self._greenroom
        return session.deleted and session.phase != PHASE_EVENT

    @property
    def command_context(self) -> CommandContext:
        """About the command being handled; only in a command handler."""
        session = self._greenroom
        if session.phase != PHASE_COMMAND or session.contexts is None:
            self._refuse("command_context", "in a command handler")
        return session.contexts.command_context(session.command)

    def _refuse(self, what: str, where: str) -> NoReturn:
        message = f"{type(self).__name__}.{what} is only available {where}."
        raise RuntimeError(message)

    def _kind(self) -> tuple[Self, S, Any]:
        raise NotImplementedError


class Kinded(Protocol[C_co, S_co, E_co]):
    """Lets a type checker read component, state and event out of a class."""

    def _kind(self) -> tuple[C_co, S_co, E_co]: ...
