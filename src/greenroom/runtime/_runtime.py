"""Puts the parts together: opens the database, runs the actors, stops them in order."""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
from _thread import get_ident
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

import pykka

from greenroom.clock import Clock, SystemClock
from greenroom.components import TIMERS, ComponentDefinition, HistoryEntry, define_all
from greenroom.errors import (
    ConfigurationError,
    EntityUnavailableError,
    GreenroomError,
    InvalidCallError,
    NotOwnerError,
    PersistenceError,
    ReentrantCallError,
    RuntimeStoppedError,
    UnknownComponentError,
)
from greenroom.ids import EntityRef, is_plain_text
from greenroom.migrations import prepare
from greenroom.persistence import open_store
from greenroom.runtime._alarms import Alarms
from greenroom.runtime._calls import CallRequest
from greenroom.runtime._client import AsyncComponentClient, ComponentClient
from greenroom.runtime._control import Expire
from greenroom.runtime._deadlines import Deadlines, refuse_late, timed_out
from greenroom.runtime._dependencies import resolve_dependencies
from greenroom.runtime._directory import Directory
from greenroom.runtime._dispatch import Dispatcher, LoopDispatcher, OwnLoop, PoolDispatcher
from greenroom.runtime._entity_actor import EntityActor
from greenroom.runtime._event_sourced_actor import EventSourcedActor
from greenroom.runtime._future import ReplyFuture, refuse_blocking_here
from greenroom.runtime._host import EntityHost, lent_threads
from greenroom.runtime._key_value_actor import KeyValueActor
from greenroom.runtime._look import StoredEvent, events, history, instances, state_at
from greenroom.runtime._owner import OwnerKeeper
from greenroom.runtime._rest import Rest
from greenroom.runtime._step_engine import StepEngine
from greenroom.runtime._step_threads import StepThreads
from greenroom.runtime._stranded import stranded_steps, stranded_timers
from greenroom.runtime._sweeps import Sweeper
from greenroom.runtime._timer_actor import TimerActor
from greenroom.runtime._timer_host import TimerHost
from greenroom.runtime._timer_look import stored_timers
from greenroom.runtime._timer_requests import TIMER_DEFINITION
from greenroom.runtime._timer_targets import TimerTargets
from greenroom.runtime._timers import (
    AsyncTimerScheduler,
    TimerScheduler,
)
from greenroom.runtime._watchdog import Watchdog
from greenroom.runtime._workflow_actor import WorkflowActor
from greenroom.runtime._workflow_host import WorkflowHost
from greenroom.runtime._workflow_plans import plan_workflows
from greenroom.runtime._writer import JournalWriter
from greenroom.settings import Settings, load_settings

if TYPE_CHECKING:
    from greenroom.components import TimerStatus
    from greenroom.persistence import InstanceSummary, Store
    from greenroom.runtime._calls import Answer, CallOrigin
    from greenroom.runtime._dependencies import DependencyProvider
    from greenroom.runtime._step_engine import Wrap
    from greenroom.runtime._step_run import StepRun

T = TypeVar("T")

_log = logging.getLogger("greenroom.runtime")

ACTORS: Mapping[str, type[EntityActor]] = {
    "event-sourced-entity": EventSourcedActor,
    "key-value-entity": KeyValueActor,
    "workflow": WorkflowActor,
    "timer": TimerActor,
}
READ_THREADS = 4
MAX_TEXT = 255
"""Characters in an idempotency key, a principal, or an id that travels with a call."""
REROUTE_SECONDS = 0.05
"""Pause before a call looks again for the owner of a slice that is changing hands."""


class Runtime:
    """Runs the components of a service on one database.

    Args:
        components: The component classes.
        settings: How it runs; read from the environment by default.
        clock: What time it is; tests give one that they can move.
        dependencies: What constructors of components are given, by type, or a provider.

    Raises:
        DefinitionError: Components are written wrongly; lists every breach.
        ConfigurationError: A constructor asks for something that nobody provides.

    Example:
        >>> runtime = Runtime([ShoppingCart])         # doctest: +SKIP
        >>> runtime.start()                           # doctest: +SKIP
        >>> runtime.client.for_event_sourced_entity(ShoppingCart, "c-1")  # doctest: +SKIP
    """

    def __init__(
        self,
        components: Sequence[type],
        *,
        settings: Settings | None = None,
        clock: Clock | None = None,
        dependencies: Mapping[type[Any], object] | DependencyProvider | None = None,
    ) -> None:
        self.settings = settings or load_settings()
        self.clock: Clock = clock or SystemClock()
        defined = define_all(components)
        self.definitions: Mapping[str, ComponentDefinition] = {one.id: one for one in defined}
        self._by_class = {one.cls: one for one in defined}
        self.origin: CallOrigin | None = None
        """No step: those have clients of their own."""
        self.client = ComponentClient(self)
        self.async_client = AsyncComponentClient(self)
        own: dict[type[Any], object] = {
            ComponentClient: self.client,
            AsyncComponentClient: self.async_client,
            TimerScheduler: self.client.timers,
            AsyncTimerScheduler: self.async_client.timers,
        }
        self._dependencies = resolve_dependencies(defined, dependencies, own)
        self.targets = TimerTargets(self.definitions, self._dependencies)
        self._plans = plan_workflows(defined, self._dependencies)
        self._status = "new"
        self._problem: str | None = None
        self._default_timeout = self.settings.ask_timeout.total_seconds()
        self._own_loop: OwnLoop | None = None
        self._forwarding = False
        self._forwarded = 0
        self._change = threading.Lock()
        self.secret = secrets.token_hex(32)
        """Known to all processes on the database, once it is open; until then to nobody else."""
        self._taking_up: set[asyncio.Task[None]] = set()
        self._wrap: Wrap | None = None

    # -- starting --------------------------------------------------------------------------

    def start(self) -> None:
        """Start on an event loop of its own, and return when calls can be made.

        Raises:
            StoreInUseError: Another process owns the SQLite file.
            SchemaError: The database does not fit the code.
            PersistenceError: The database can't be opened.
        """
        refuse_blocking_here()
        self._begin()
        try:
            self._open()
            self._own_loop = OwnLoop()
            asyncio.run_coroutine_threadsafe(self._go(), self._own_loop.loop).result()
        except BaseException as error:
            self._give_up(error)
            raise

    async def start_async(self) -> None:
        """Start on the running event loop; raises what `start` raises."""
        self._begin()
        try:
            await asyncio.to_thread(self._open)
            await self._go()
        except BaseException as error:
            await asyncio.to_thread(self._give_up, error)
            raise

    def _begin(self) -> None:
        with self._change:
            if self._status not in ("new", "stopped", "failed"):
                raise ConfigurationError(f"The runtime is {self._status}; it can't be started.")
            self._status = "starting"
            self._problem = None

    def _open(self) -> None:
        prepare(self.settings)
        self._store: Store = open_store(self.settings, self.clock)
        self.secret = self._store.ownership.peer_secret()
        self._reads = ThreadPoolExecutor(READ_THREADS, thread_name_prefix="greenroom-read")
        self._effects = ThreadPoolExecutor(READ_THREADS, thread_name_prefix="greenroom-effect")
        self._writer = JournalWriter(
            self._store.journal,
            max_batch=self.settings.max_batch_commands,
            run_later=self._run_later,
        )

    async def _go(self) -> None:
        loop = self._loop = asyncio.get_running_loop()
        self._dispatcher: Dispatcher
        if self.settings.dispatcher == "loop":
            dispatcher = LoopDispatcher(loop)
            dispatcher.attach()
            self._dispatcher = dispatcher
        else:
            self._dispatcher = PoolDispatcher(self.settings.pool_workers)
        self._alarms = Alarms(self.clock, loop)
        self._engine = StepEngine(
            loop=loop,
            threads=StepThreads(self.settings.step_threads),
            alarms=self._alarms,
            definitions=self.definitions,
            call=self.call,
            wake=self._wake,
            wrap=self._wrap,
        )
        self._directory = Directory(
            {one.id: self._host(one) for one in self._with_instances()},
            max_live=self.settings.max_live_instances,
            passivate_after=self.settings.passivate_after.total_seconds(),
        )
        self._owner = OwnerKeeper(
            self._store.ownership,
            settings=self.settings,
            definitions={one.id: one for one in self._with_instances()},
            directory=self._directory,
            writer=self._writer,
            call_here=self._call_here,
            on_gained=self._take_up_soon,
        )
        self._deadlines = Deadlines(loop)
        self._writer.on_fenced = self._owner.fenced_soon
        self._sweeper = Sweeper(
            self._store.journal,
            settings=self.settings,
            clock=self.clock,
            directory=self._directory,
            writer=self._writer,
            owned=self._owner.owned,
            alarms=self._alarms,
            wake=self._wake,
            histories={
                name: plan.settings.keep_history
                for name, plan in self._plans.items()
                if plan.settings.keep_history is not None
            },
        )
        await self._owner.start()
        self._writer.start()
        self._sweeper.start()
        self._watchdog = Watchdog()
        self._watchdog.start()
        self._forwarding = True
        self._status = "ready"
        self._read_later(self._tell_stranded)
        self._take_up_soon()

    def _with_instances(self) -> Iterator[ComponentDefinition]:
        """The components that have instances, greenroom's own among them."""
        yield from (one for one in self.definitions.values() if one.kind != "timed-action")
        yield TIMER_DEFINITION

    def _host(self, definition: ComponentDefinition) -> EntityHost:
        parts: dict[str, Any] = {
            "actor_class": ACTORS[definition.kind],
            "settings": self.settings,
            "clock": self.clock,
            "journal": self._store.journal,
            "writer": self._writer,
            "dispatcher": self._dispatcher,
            "dependencies": self._dependencies.get(definition.id, {}),
            "read_later": self._read_later,
            "redeliver": self._redeliver,
        }
        if definition is TIMER_DEFINITION:
            return TimerHost(definition, engine=self._engine, targets=self.targets, **parts)
        plan = self._plans.get(definition.id)
        if plan is None:
            return EntityHost(definition, **parts)
        return WorkflowHost(definition, engine=self._engine, plan=plan, **parts)

    def _wake(self, ref: EntityRef) -> None:
        """Let an instance look at what is due for it, if it lives here."""
        known = self._status == "ready" and self._directory.knows(ref.component)
        if known and self._owner.owns(ref):
            self._directory.deliver_control(Expire(ref))

    def _take_up_soon(self) -> None:
        """Slices are new here: see what was left in the middle in them."""
        if self._status == "ready":
            task = asyncio.create_task(self._take_up(), name="greenroom-take-up")
            self._taking_up.add(task)
            task.add_done_callback(self._taking_up.discard)

    async def _take_up(self) -> None:
        try:
            await self._sweeper.take_up()
            await self._sweeper.wake_due()
        except GreenroomError as error:
            _log.warning(
                "What is unfinished or due could not be looked for (%s); again soon", error
            )
        except Exception:
            _log.exception("Looking for what is unfinished or due failed; a sweep tries again")

    def _give_up(self, error: BaseException) -> None:
        self._status = "failed"
        self._problem = f"{type(error).__name__}: {error}"
        store = self.__dict__.pop("_store", None)
        if store is not None:
            store.close()
        self._end_own_loop()

    def _run_later(self, run: Callable[[], None]) -> None:
        self._effects.submit(run)

    def _read_later(self, run: Callable[[], None]) -> None:
        self._reads.submit(_logged, run)

    # -- stopping --------------------------------------------------------------------------

    def stop(self) -> None:
        """Refuse new calls, finish those that were accepted, and close the database."""
        if not self._end():
            return
        if self._own_loop is not None:
            asyncio.run_coroutine_threadsafe(self._wind_down(), self._own_loop.loop).result()
            self._end_own_loop()
        self._status = "stopped"

    async def stop_async(self) -> None:
        """`stop`, for a runtime that was started with `start_async`."""
        if self._end():
            await self._wind_down()
            self._status = "stopped"

    def _end(self) -> bool:
        with self._change:
            if self._status != "ready":
                return False
            self._status = "stopping"
            return True

    async def _wind_down(self) -> None:
        self._engine.begin_to_stop()
        await self._sweeper.stop()
        await asyncio.gather(*self._taking_up)
        await self._drain()
        await self._engine.stop()
        self._forwarding = False
        await self._owner.stop_peers()
        while self._forwarded:  # noqa: ASYNC110 - for some milliseconds, once
            await asyncio.sleep(0.005)
        self._alarms.stop()
        await asyncio.to_thread(self._close)

    async def _drain(self) -> None:
        deadline = monotonic() + self.settings.drain_timeout.total_seconds()
        busy = [one for one in self._directory.live() if not one.is_quiet()]
        while (busy or self._forwarded) and monotonic() < deadline:
            self._writer.notify()
            await asyncio.sleep(0.005)
            busy = [one for one in busy if not one.is_quiet()]
        if busy:
            _log.warning("%d instance(s) still had work when the drain time was over", len(busy))

    def _close(self) -> None:
        self._watchdog.stop()
        self._writer.stop()
        self._dispatcher.stop()
        self._reads.shutdown(wait=True)
        # Nothing is written any more: others need not wait for side effects.
        self._owner.close()
        self._effects.shutdown(wait=True)
        self._store.close()

    def _end_own_loop(self) -> None:
        if self._own_loop is not None:
            self._own_loop.stop()
            self._own_loop = None

    # -- looking ---------------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        """Whether it was started and not yet told to stop."""
        return self._status == "ready"

    def is_ready(self) -> bool:
        """Whether calls can be made: recovered, and owning what it should."""
        return self._status == "ready" and self._owner.is_settled()

    def health(self) -> dict[str, Any]:
        """The state of the runtime and of its database, for health checks."""
        report: dict[str, Any] = {"status": self._status}
        if self._problem is not None:
            report["problem"] = self._problem
        if self._status == "ready":
            if not self._owner.is_settled():
                report["status"] = "starting"
            report["slices"] = len(self._owner.owned())
            report["live"] = len(self._directory)
            try:
                self._store.ping()
                report["database"] = "ok"
            except PersistenceError as error:
                report["database"] = error.code
                report["status"] = "degraded"
        return report

    def definition_of(self, component: type) -> ComponentDefinition:
        """The definition of a component class of this service.

        Raises:
            UnknownComponentError: The service has no such component.
        """
        found = self._by_class.get(component)
        if found is None:
            name = getattr(component, "__name__", repr(component))
            raise UnknownComponentError(name, sorted(self.definitions))
        return found

    def instances(self, component: str, after: str | None, limit: int) -> list[InstanceSummary]:
        """Instances of a component in the order of their ids. Blocks on the database."""
        self._check_running()
        return instances(self._store.journal, component, after, limit)

    def events(self, ref: EntityRef, after: int, limit: int) -> list[StoredEvent[Any]]:
        """What an instance has been through. Blocks on the database."""
        self._check_running()
        return events(self._directory.host_of(ref), ref, after, limit)

    def state_at(self, ref: EntityRef, sequence_number: int | None) -> Any:
        """How an instance stood after a sequence number. Blocks on the database."""
        self._check_running()
        return state_at(self._directory.host_of(ref), ref, sequence_number)

    def history(self, ref: EntityRef, after: int, limit: int) -> list[HistoryEntry]:
        """What a workflow has been through. Blocks on the database."""
        self._check_running()
        return history(self._directory.host_of(ref), ref, after, limit)

    def now_ms(self) -> int:
        """The time on the service's clock."""
        return self.clock.now_ms()

    def timers(self, **chosen: Any) -> list[TimerStatus]:
        """Timers in the order of their names; see `TimerScheduler.list`. Blocks on the database."""
        self._check_running()
        codec = self._directory.host_of(EntityRef(TIMERS, "")).codec
        return stored_timers(self._store.journal, codec, **chosen)

    def _tell_stranded(self) -> None:
        """Log the workflows whose steps are gone, and the timers whose calls lead nowhere."""
        codec = self._directory.host_of(EntityRef(TIMERS, "")).codec
        try:
            for step in stranded_steps(self._store.journal, self._plans):
                _log.error("%s", step)
            found = stranded_timers(
                self._store.journal, codec, self.targets, goes_on=lambda: self.is_running
            )
        except GreenroomError as error:
            _log.warning("What is stored could not be checked against the code: %s", error)
            return
        for line in found:
            _log.error("A timer's call leads nowhere: %s. The timer is given up when due.", line)

    async def sweep(self) -> None:
        """Look for expiries and clean-ups now, rather than at the next regular time."""
        self._check_running()
        await self._on_own_loop(self._sweeper.sweep())

    # -- for tests -------------------------------------------------------------------------

    async def settle(self, patience: float) -> None:
        """Wait until nothing happens any more, unless time passes or somebody calls.

        No step runs, nothing is queued or on its way to the disk, nothing is due.

        Args:
            patience: Seconds after which a step that has not come back is taken to hang. It is
                not waited for any more then.

        Raises:
            TimeoutError: Something goes on and on; it says what.
        """
        self._check_running()
        rest = Rest(
            directory=self._directory,
            writer=self._writer,
            engine=self._engine,
            alarms=self._alarms,
            executors=(self._reads, self._effects),
        )
        await self._on_own_loop(self._settle(rest, patience))

    async def _settle(self, rest: Rest, patience: float) -> None:
        await asyncio.gather(*self._taking_up)
        await rest.come(patience)

    async def next_due(self, until: int) -> int | None:
        """When something next comes due, in milliseconds since 1970; None if not until then."""
        self._check_running()
        return await self._on_own_loop(self._sweeper.next_due(until))

    def wrap_steps(self, wrap: Wrap | None) -> None:
        """Let the code of every attempt of a step be wrapped, from the next start on."""
        self._wrap = wrap

    def hold(self, run: StepRun) -> None:
        """Let an attempt count as hanging: `settle` does not wait for it."""
        run.held = True
        self._engine.tell()

    def crash(self) -> None:
        """Stop as abruptly as can be within a process: what is under way comes to nothing."""
        asyncio.run_coroutine_threadsafe(self._drop_everything(), self._loop).result()
        self.stop()

    async def _drop_everything(self) -> None:
        self._engine.begin_to_stop()
        self._directory.abandon(lambda _ref: True)

    async def _on_own_loop(self, work: Coroutine[Any, Any, T]) -> T:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    # -- calling ---------------------------------------------------------------------------

    async def call(self, request: CallRequest) -> Answer:
        """Deliver a call to the instance it is for, wherever that lives, and await the answer.

        Raises:
            CommandError: The component declined.
            GreenroomError: See `greenroom.errors`.
        """
        self._prepare(request)
        if self._owner.owns(request.ref):
            future = self._deliver(request)
            try:
                return await future
            except NotOwnerError:
                # The slice changed hands while the command was under way; nothing was done.
                pass
        if asyncio.get_running_loop() is self._loop:
            return await self._call_owner(request)
        # Connections to peers belong to the runtime's own loop.
        return await asyncio.wrap_future(
            asyncio.run_coroutine_threadsafe(self._call_owner(request), self._loop)
        )

    def call_blocking(self, request: CallRequest) -> Answer:
        """`call`, for threads. The thread lends itself to the actor while it waits."""
        refuse_blocking_here()
        self._prepare(request)
        if self._owner.owns(request.ref):
            try:
                return self._call_on_this_thread(request)
            except NotOwnerError:
                pass
        return asyncio.run_coroutine_threadsafe(self._call_owner(request), self._loop).result()

    def send(self, request: CallRequest) -> None:
        """Deliver a call without waiting for its answer."""
        self._prepare(request)
        if self._owner.owns(request.ref):
            self._directory.deliver(request)
        else:
            self._forward(request)

    def _forward(self, request: CallRequest) -> None:
        """Send a command to its owner that nobody waits for."""
        forwarding = asyncio.run_coroutine_threadsafe(self._call_owner(request), self._loop)
        forwarding.add_done_callback(_log_lost_tell)

    def _prepare(self, request: CallRequest) -> None:
        if self._status != "ready":
            self._check_running()
        _check_texts(request)
        if request.ref in request.chain:
            path = " → ".join(str(ref) for ref in (*request.chain, request.ref))
            raise ReentrantCallError(f"The call would wait for itself: {path}.")
        if request.timeout is None:
            request.timeout = self._default_timeout
        request.deadline = monotonic() + request.timeout

    def _check_running(self) -> None:
        if self._status != "ready":
            remedy = {
                "new": "Start it first: run the service, or use `with service.running()`.",
                "failed": f"It failed to start: {self._problem}.",
            }.get(self._status, "Try again later, or at another process.")
            raise RuntimeStoppedError(f"The runtime is {self._status}. {remedy}")

    async def _call_here(self, request: CallRequest) -> Answer:
        if request.deadline == 0.0:
            self._prepare(request)
        return await self._deliver(request)

    def _deliver(self, request: CallRequest) -> ReplyFuture[Answer]:
        """Hand a call to its instance; the future is answered by the deadline at the latest."""
        future: ReplyFuture[Answer] = ReplyFuture()
        request.reply_to = future
        actor = self._directory.find(request.ref)
        if actor.actor_inbox.offer(request):
            self._dispatcher.run_soon(actor.run_slice, request)
            if future.done():
                return refuse_late(request, future)
        if not future.done():
            self._deadlines.watch(request)
        return future

    def _call_on_this_thread(self, request: CallRequest) -> Answer:
        future: ReplyFuture[Answer] = ReplyFuture()
        request.reply_to = future
        actor = self._directory.find(request.ref)
        if actor.actor_inbox.offer(request):
            thread = get_ident()
            lent_threads.lend(thread)
            try:
                actor.run_slice(request)
            finally:
                lent_threads.take_back(thread)
            self._writer.write_here()
            if future.done():
                return refuse_late(request, future).result()
        try:
            return future.get(timeout=max(0.0, request.deadline - monotonic()))
        except pykka.Timeout:
            raise timed_out(request) from None

    async def _call_owner(self, request: CallRequest) -> Answer:
        """Find who owns the instance now, and call there; until the deadline.

        Raises:
            EntityUnavailableError: There was no owner to be reached; nothing was done.
        """
        self._forwarded += 1
        try:
            while self._forwarding:
                try:
                    return await self._owner.call(request, self._call_here)
                except NotOwnerError as error:
                    if monotonic() + REROUTE_SECONDS >= request.deadline:
                        raise EntityUnavailableError(
                            f"{request.ref} can't be reached at the moment: {error}"
                        ) from error
                await asyncio.sleep(REROUTE_SECONDS)
        finally:
            self._forwarded -= 1
        raise RuntimeStoppedError(f"The runtime is {self._status}. Try at another process.")

    def _redeliver(self, envelope: Any) -> None:
        if self._status in ("ready", "stopping") and self._owner.owns(envelope.message.ref):
            self._directory.redeliver(envelope)
        elif envelope.reply_to is not None:
            envelope.reply_to.fail(NotOwnerError(f"{envelope.message.ref} is owned elsewhere now."))
        elif isinstance(envelope, CallRequest) and self._forwarding:
            self._forward(envelope)


def _check_texts(request: CallRequest) -> None:
    """Raises for what no database can store; in a batch it would be in the way of others."""
    for name in ("idempotency_key", "principal", "correlation_id", "causation", "traceparent"):
        text = getattr(request, name)
        if text is not None and not is_plain_text(text, MAX_TEXT):
            raise InvalidCallError(
                f"{name} must be text of 1 to {MAX_TEXT} characters without control characters: "
                f"{text!r:.80}."
            )


def _logged(run: Callable[[], None]) -> None:
    try:
        run()
    except Exception:
        _log.exception("A read for an actor failed; this is a bug in greenroom")


def _log_lost_tell(done: Any) -> None:
    error = done.exception()
    if error is not None and not isinstance(error, GreenroomError):
        _log.error("A command nobody waits for was lost", exc_info=error)
