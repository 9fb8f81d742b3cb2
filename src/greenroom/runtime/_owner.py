"""Which slices this process owns, and how calls reach the owner of the others."""

from __future__ import annotations

import asyncio
import logging
from math import inf
from time import monotonic
from typing import TYPE_CHECKING

from greenroom.errors import GreenroomError, NotOwnerError, RuntimeStoppedError
from greenroom.ids import slice_of
from greenroom.runtime._peers import PeerClients, PeerServer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from greenroom.components import ComponentDefinition
    from greenroom.ids import EntityRef
    from greenroom.persistence import Ownership
    from greenroom.runtime._calls import Answer, CallRequest
    from greenroom.runtime._directory import Directory
    from greenroom.runtime._writer import JournalWriter
    from greenroom.settings import Settings

_log = logging.getLogger("greenroom.runtime")

BEAT_SECONDS = 1.0
OWNER_CACHE_SECONDS = 1.0
HANDOVER_SECONDS = 5.0
"""How long a slice that is given up waits for commands under way; then they are dropped."""
LEASE_SECONDS = 5.0
"""How long a beat is good for; what others go by is in the database."""


class OwnerKeeper:
    """Keeps the lease of this process, gives up what is too much, forwards what is not its own."""

    def __init__(
        self,
        ownership: Ownership,
        *,
        settings: Settings,
        definitions: Mapping[str, ComponentDefinition],
        directory: Directory,
        writer: JournalWriter,
        call_here: Callable[[CallRequest], Awaitable[Answer]],
        on_gained: Callable[[], None],
    ) -> None:
        self._ownership = ownership
        self._settings = settings
        self._definitions = definitions
        self._directory = directory
        self._writer = writer
        self._call_here = call_here
        self._on_gained = on_gained
        self._alone = settings.sqlite_file is not None
        self._slices = 1
        self._owned: frozenset[int] = frozenset()
        self._everything = False
        self._server: PeerServer | None = None
        self._clients: PeerClients | None = None
        self._address: str | None = None
        self._beats: asyncio.Task[None] | None = None
        self._handover: asyncio.Task[None] | None = None
        self._leaving: frozenset[int] = frozenset()
        # Once it has passed, somebody else may own what this process did: not even its reads
        # can be trusted any more.
        self._valid_until = inf if self._alone else 0.0
        self._stopping = asyncio.Event()
        self._fenced = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._owners: dict[int, tuple[float, str]] = {}
        self._settled = False

    async def start(self) -> None:
        """Register, take slices, and keep the lease from now on."""
        self._slices = self._ownership.slices
        if not self._alone:
            secret = await asyncio.to_thread(self._ownership.peer_secret)
            self._server = PeerServer(self._definitions, self._answer_peer, secret)
            self._address = await self._server.start(
                self._settings.peer_host, self._settings.peer_port
            )
            self._clients = PeerClients(secret)
        await asyncio.to_thread(self._ownership.start, self._address)
        self._take_note()
        if self._alone:
            self._settled = True
        else:
            await self._beat()
            self._beats = asyncio.create_task(self._keep_beating(), name="greenroom-owner")

    async def stop_peers(self) -> None:
        """Stop keeping the lease and talking to peers."""
        self._stopping.set()
        self._fenced.set()
        if self._beats is not None:
            await self._beats
        await self._end_handover()
        if self._server is not None:
            await self._server.stop()
        if self._clients is not None:
            await self._clients.stop()

    def close(self) -> None:
        """Give everything up. Blocks on the database."""
        try:
            self._ownership.stop()
        except GreenroomError as error:
            _log.warning("Slices could not be given up (%s); the lease will run out", error)

    def owns(self, ref: EntityRef) -> bool:
        """Whether this process may run the instance, by what it knows."""
        if self._valid_until < monotonic():
            return False
        return self._everything or slice_of(ref, self._slices) in self._owned

    def owned(self) -> frozenset[int]:
        """The slices of this process."""
        return self._owned

    def is_settled(self) -> bool:
        """Whether this process has had slices, and so knows who owns the others."""
        return self._settled

    def fenced_soon(self) -> None:
        """The journal refused a batch because another owner took over; from any thread."""
        if self._alone:
            _log.error("Another process took over the SQLite file; this one can only be stopped")
            self._settled = False
        self._loop.call_soon_threadsafe(self._fenced.set)

    async def call(
        self, request: CallRequest, here: Callable[[CallRequest], Awaitable[Answer]]
    ) -> Answer:
        """Make a call wherever the owner of the instance is.

        Raises:
            NotOwnerError: The slice has no owner, or one that can't be reached, or another one
                since just now. Nothing was done; it may be tried again.
            GreenroomError: What the owner answered.
        """
        if self.owns(request.ref):
            return await here(request)
        if self._clients is None:
            raise NotOwnerError(f"This process lost {request.ref}; nothing was done.")
        slice_ = slice_of(request.ref, self._slices)
        address = await self._address_of(slice_)
        try:
            return await self._clients.call(address, request)
        except NotOwnerError:
            self._owners.pop(slice_, None)
            raise

    async def _answer_peer(self, request: CallRequest) -> Answer:
        # A peer that is mistaken about the owner is told so; forwarding on would hide a loop.
        if not self.owns(request.ref):
            raise NotOwnerError(f"{request.ref} is not owned here.")
        try:
            return await self._call_here(request)
        except RuntimeStoppedError as error:
            # Nothing was done, and the slice will soon be somebody else's.
            raise NotOwnerError(f"The owner of {request.ref} is stopping.") from error

    async def _address_of(self, slice_: int) -> str:
        known = self._owners.get(slice_)
        if known is not None and monotonic() - known[0] < OWNER_CACHE_SECONDS:
            return known[1]
        owner = await asyncio.to_thread(self._ownership.owner_of, slice_)
        if owner is None or owner.address is None or owner.address == self._address:
            raise NotOwnerError(f"Slice {slice_} has no owner at the moment.")
        self._owners[slice_] = (monotonic(), owner.address)
        return owner.address

    async def _keep_beating(self) -> None:
        while not self._stopping.is_set():
            try:
                await asyncio.wait_for(self._fenced.wait(), BEAT_SECONDS)
            except TimeoutError:
                await self._try(self._beat)
            else:
                if not self._stopping.is_set():
                    self._fenced.clear()
                    await self._try(self._start_over)

    async def _try(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except NotOwnerError:
            self._fenced.set()
        except GreenroomError as error:
            _log.warning("The lease could not be renewed: %s", error)
        except Exception:
            _log.exception("Keeping the lease failed; trying again")

    async def _beat(self) -> None:
        asked = monotonic()
        surplus = await asyncio.to_thread(self._ownership.beat)
        self._valid_until = asked + LEASE_SECONDS
        if surplus and not self._leaving:
            # Beside the beats: the lease must not run out while commands are waited for.
            self._leaving = surplus
            self._handover = asyncio.create_task(
                self._try(self._hand_over), name="greenroom-handover"
            )
        self._take_note()
        # From the second look on, dead owners have been fenced and their slices taken.
        self._settled = bool(self._owned) or self._settled

    async def _hand_over(self) -> None:
        """Let go of slices: take nothing new for them, finish what is under way, release."""
        surplus = self._leaving

        def leaving(ref: EntityRef) -> bool:
            return slice_of(ref, self._slices) in surplus

        try:
            deadline = monotonic() + HANDOVER_SECONDS
            busy = await asyncio.to_thread(self._directory.passivate_where, leaving)
            while busy and monotonic() < deadline:
                await asyncio.sleep(0.01)
                busy = self._directory.passivate_where(leaving, among=busy)
            if busy:
                self._directory.abandon(leaving)
            await asyncio.to_thread(self._release, surplus)
        finally:
            self._leaving = frozenset()

    async def _end_handover(self) -> None:
        if self._handover is not None:
            self._handover.cancel()
            await asyncio.wait([self._handover])
            self._handover = None

    def _release(self, slices: frozenset[int]) -> None:
        # No batch may be under way while slices are given up.
        with self._writer.exclusive():
            self._ownership.release(slices)

    async def _start_over(self) -> None:
        """Another owner fenced this one off: forget everything, and join again."""
        _log.warning("This process lost its slices to another owner; starting over")
        await self._end_handover()
        self._owned = frozenset()
        self._everything = False
        self._owners.clear()
        self._directory.abandon(lambda _ref: True)
        try:
            await asyncio.to_thread(self._register_again)
        except GreenroomError:
            self._fenced.set()
            await asyncio.sleep(BEAT_SECONDS)
            raise
        self._take_note()
        if not self._alone:
            await self._beat()

    def _register_again(self) -> None:
        with self._writer.exclusive():
            self._ownership.start(self._address)

    def _take_note(self) -> None:
        owned = self._ownership.owned() - self._leaving
        gained = owned - self._owned
        if gained:
            # A call that came while a slice was given up may have left an instance behind,
            # which doesn't know what has been written elsewhere since.
            self._directory.abandon(lambda ref: slice_of(ref, self._slices) in gained)
        self._owned = owned
        self._everything = len(owned) == self._slices
        if gained:
            self._on_gained()
