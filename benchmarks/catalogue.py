"""Every benchmark by name: its set-up in words, its sides, and the ratio that is aimed at."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.figures import Benchmark, Comparison, Place, Side
from benchmarks.load import LEGACY, MODERN

ENTITIES = 400
PEER_THREADS = 64
"""Callers above this are served by a pool of so many threads; more only slow the peer down."""
PEER_BEST_THREADS = 8
REPLAYED = 10_000
TAIL_CALLERS = 16
"""Where the slowest hundredth is held to a limit."""
MEMORY_CALLS = 100_000

NAMES = (
    *(f"commands-{where}-{n}" for where in ("sqlite", "postgresql") for n in (1, 64, 1024)),
    "commands-hot-64",
    "idle-memory",
    "replay-sqlite",
    "replay-postgresql",
    *(f"workflow-{where}-{n}" for where in ("sqlite", "postgresql") for n in (1, 64)),
    "paused-workflows",
    "timers",
    *(f"mcp-{era}-{n}" for era in ("call", "legacy") for n in (1, 16, 64)),
    "mcp-p99-16",
    "mcp-p99-64",
    "mcp-list-1000",
    "mcp-memory",
    "mcp-entity-64",
    "mcp-method-16",
)

_DURABILITY = {
    "sqlite": "SQLite file, journal_mode=WAL, synchronous=FULL on both sides",
    "postgresql": "PostgreSQL with its defaults (fsync on, synchronous_commit on), loopback",
}
_PEER = (
    "peer: eventsourcing, load → trigger → save, aggregate cache on with fast-forward, "
    "every aggregate in the cache"
)
_OURS = (
    "ours: an idempotency key on every command, owner's epoch checked and head row kept in "
    "every transaction; events are pydantic models; entities live; uvloop"
)
_COMMAND_DETAILS = {"cpu_us": "{:.0f} µs of CPU each", "batch": "{:.1f} commands a transaction"}


def benchmark(name: str, place: Place, *, seconds: float, full: bool) -> Benchmark:
    """The benchmark of that name; `place` makes the database of each run."""
    family, _, rest = name.partition("-")
    if name == "commands-hot-64":
        return _hot(place, seconds)
    if family == "commands":
        where, _, callers = rest.partition("-")
        return _commands(name, place, where, int(callers), seconds)
    if family == "replay":
        return _replay(name, place, rest)
    if family == "workflow":
        where, _, concurrent = rest.partition("-")
        return _workflow(name, place, where, int(concurrent), seconds)
    if family == "timers":
        return _timers(place)
    if family == "paused":
        return _paused(place, full=full)
    if family == "idle":
        return _memory(place, full=full)
    if name == "mcp-entity-64":
        return _mcp_entity(place, seconds)
    if name == "mcp-method-16":
        return _mcp_method(place, seconds)
    if name == "mcp-list-1000":
        return _mcp_list(place, seconds)
    if name == "mcp-memory":
        return _mcp_memory(place)
    what, _, callers = name.removeprefix("mcp-").partition("-")
    if what == "p99":
        return _mcp_tail(place, int(callers), seconds)
    version = LEGACY if what == "legacy" else MODERN
    return _mcp_call(name, place, version, int(callers), seconds)


def _commands(name: str, place: Place, where: str, callers: int, seconds: float) -> Benchmark:
    common = {"entities": ENTITIES, "seconds": seconds}
    threads = min(callers, PEER_THREADS)
    peer = f"eventsourcing, {threads} threads" if threads > 1 else "eventsourcing, 1 thread"
    raw = Side("raw driver, 1 insert each", "peers.raw_driver", common | {"batch": callers})
    asyncio_side = Side("asyncio, loop dispatcher", "ours.commands", common | {"callers": callers})
    peer_side = Side(peer, "peers.commands", common | {"threads": threads})
    sides = [asyncio_side, peer_side, raw]
    target = {1: 1.2, 64: 10.0, 1024: 15.0}[callers]
    comparisons = [Comparison(asyncio_side.name, peer, target, "from asyncio")]
    if callers == 1:
        doors = [
            Side(
                f"a thread, {dispatcher} dispatcher",
                "ours.commands",
                common | {"callers": 1, "door": "thread", "dispatcher": dispatcher},
            )
            for dispatcher in ("loop", "pool")
        ]
        sides = [*doors, *sides]
        comparisons = [
            *(Comparison(door.name, peer, 1.5, f"from {door.name}") for door in doors),
            *comparisons,
        ]
    else:
        best = f"eventsourcing, {PEER_BEST_THREADS} threads"
        sides.append(Side(best, "peers.commands", common | {"threads": PEER_BEST_THREADS}))
        comparisons.append(
            Comparison(asyncio_side.name, best, None, f"peer with {PEER_BEST_THREADS} callers only")
        )
    return Benchmark(
        name=name,
        setup=(
            _DURABILITY[where],
            (
                f"{callers} concurrent callers over {ENTITIES} entities with 10 events each; "
                f"events of about 200 bytes; {seconds:g} s a run after 0.5 s of warm-up"
            ),
            _OURS,
            _PEER + _pool_in_words(callers, threads),
            f"raw driver: one connection, {callers} rows a transaction, one row a command",
        ),
        sides=sides,
        comparisons=comparisons,
        unit="commands/s",
        place=place,
        shares=[
            (side.name, raw.name, f"the raw driver's inserts, {callers} a transaction")
            for side in sides
            if side.module == "ours.commands"
        ],
        details=_COMMAND_DETAILS,
    )


def _pool_in_words(callers: int, threads: int) -> str:
    if threads == 1:
        return ""
    apart = "; threads have aggregates of their own, so nothing conflicts"
    return (
        f"; {callers} callers on a pool of {threads} threads{apart}" if callers > threads else apart
    )


def _hot(place: Place, seconds: float) -> Benchmark:
    common = {"entities": 1, "seconds": seconds}
    ours = Side("asyncio, loop dispatcher", "ours.commands", common | {"callers": 64})
    peer = Side("eventsourcing, 64 threads", "peers.commands", common | {"threads": 64})
    return Benchmark(
        name="commands-hot-64",
        setup=(
            _DURABILITY["sqlite"],
            f"64 concurrent callers of one entity; {seconds:g} s a run after 0.5 s of warm-up",
            _OURS,
            _PEER + "; a lock keeps the threads apart, since a conflict would cost it a command",
        ),
        sides=[ours, peer],
        comparisons=[Comparison(ours.name, peer.name, 10.0)],
        unit="commands/s",
        place=place,
        details=_COMMAND_DETAILS,
    )


def _memory(place: Place, *, full: bool) -> Benchmark:
    entities = 1_000_000 if full else 100_000
    ours = Side(
        f"{entities:,} entities", "ours.memory", {"entities": entities}, runs=1 if full else None
    )
    peer = Side("2,000 pykka.ThreadingActor", "peers.memory", {"entities": 2000})
    return Benchmark(
        name="idle-memory",
        setup=(
            (
                "growth of resident memory per live idle instance, each after one command; "
                "its state, a pydantic model with one number, included"
            ),
            (
                f"ours: {entities:,} event sourced entities on SQLite; "
                "peer: 2,000 pykka.ThreadingActor (one stops near 22,000)"
            ),
        ),
        sides=[ours, peer],
        comparisons=[Comparison(ours.name, peer.name)],
        unit="bytes/entity",
        place=place,
        fewer_is_better=True,
        limit=2500.0,
        beside="state",
        details={"state": "{:.0f} of it state", "process_mib": "process of {:.0f} MiB"},
    )


def _replay(name: str, place: Place, where: str) -> Benchmark:
    common = {"events": REPLAYED, "instances": 3}
    ours = Side("greenroom", "ours.replay", common)
    peer = Side("eventsourcing", "peers.replay", common)
    return Benchmark(
        name=name,
        setup=(
            _DURABILITY[where],
            (
                f"3 instances of {REPLAYED:,} events of about 200 bytes each, one after the other; "
                "no snapshots; from the request that finds it cold to its answer"
            ),
            "ours: pydantic events; peer: its own event classes, cache off",
        ),
        sides=[ours, peer],
        comparisons=[Comparison(ours.name, peer.name, 3.0)],
        unit="events/s",
        place=place,
    )


def _workflow(name: str, place: Place, where: str, concurrent: int, seconds: float) -> Benchmark:
    common = {"concurrent": concurrent, "seconds": seconds}
    ours, peers = (
        [
            Side(f"{whose}, {steps} steps", f"{package}.three_steps", common | {"steps": steps})
            for steps in ("def", "async def")
        ]
        for whose, package in (("greenroom", "ours"), ("DBOS", "peers"))
    )
    target = {1: 1.0, 64: 5.0}[concurrent]
    comparisons = [
        Comparison(mine.name, theirs.name, target, f"{kind} steps")
        for mine, theirs, kind in zip(ours, peers, ("def", "async def"), strict=True)
    ]
    return Benchmark(
        name=name,
        setup=(
            _DURABILITY[where] + _DBOS_FILE.get(where, ""),
            (
                f"{concurrent} at the same time, each starts a workflow of three steps that do "
                f"next to nothing, waits for its end and starts the next; {seconds:g} s a run after "
                "0.5 s of warm-up; latency from before the start to after the end"
            ),
            (
                "ours: the start, every step and the end are transitions with state, input and "
                "history in one transaction each with whoever else writes; loop dispatcher, uvloop"
            ),
            "peer: DBOS, the workflow called directly; def: a thread for each, async def: a task",
        ),
        sides=[*ours, *peers],
        comparisons=comparisons,
        unit="steps/s",
        place=place,
        details={
            "p50_ms": "p50 {:.1f} ms",
            "p99_ms": "p99 {:.1f} ms",
            "cpu_us": "{:.0f} µs of CPU a step",
        },
    )


_DBOS_FILE = {
    "sqlite": (
        " (DBOS ships with journal_mode=DELETE, which is slower; its file is set to WAL beforehand)"
    )
}


def _timers(place: Place) -> Benchmark:
    timers = 10_000
    side = Side(f"{timers:,} timers", "ours.timers", {"timers": timers})
    return Benchmark(
        name="timers",
        setup=(
            _DURABILITY["sqlite"].replace(" on both sides", ""),
            (
                f"{timers:,} timers due at the same moment, each for a command to one of 400 "
                "entities; from that moment until every command is carried out and every timer's "
                "end is recorded; each command carries a key, and the rings are counted afterwards"
            ),
        ),
        sides=[side],
        comparisons=[],
        unit="timers/s",
        place=place,
        details={"started_per_s": "{:.0f} started a second"},
    )


def _paused(place: Place, *, full: bool) -> Benchmark:
    workflows = 1_000_000 if full else 100_000
    side = Side(f"{workflows:,} workflows", "ours.paused", {"workflows": workflows}, runs=1)
    return Benchmark(
        name="paused-workflows",
        setup=(
            _DURABILITY["sqlite"].replace(" on both sides", ""),
            (
                "growth of resident memory per live workflow that is paused for a month at most; "
                "then a restart, and a command to each that resumes it, until all have come to "
                "their ends: each is read, does a step and ends; 1,000 at a time"
            ),
        ),
        sides=[side],
        comparisons=[],
        unit="bytes/workflow",
        place=place,
        fewer_is_better=True,
        details={
            "process_mib": "process of {:.0f} MiB",
            "paused_per_s": "{:.0f} paused a second",
            "restart_s": "restart in {:.2f} s",
            "resume_s": "all resumed and ended in {:.1f} s",
        },
    )


_MCP = (
    "uvicorn, one worker, uvloop and httptools, no access log, gc.freeze() and threshold 50,000 "
    "on both sides; server on core 0, load generator on core 1; keep-alive, every answer checked"
)


def _fastmcp(tool: str, callers: int, seconds: float, version: str) -> Side:
    kind = "async def" if tool == "add_async" else "def"
    return Side(
        f"FastMCP, {kind} tool, {version}",
        "tool_calls",
        {
            "server": "peers.tools",
            "tool": tool,
            "callers": callers,
            "seconds": seconds,
            "version": version,
        },
    )


def _greenroom(tool: str, callers: int, seconds: float, version: str) -> Side:
    return Side(
        f"greenroom, {tool}, {version}",
        "tool_calls",
        {
            "server": "ours.shop",
            "tool": tool,
            "callers": callers,
            "seconds": seconds,
            "version": version,
        },
    )


def _official(callers: int, seconds: float, version: str) -> Side:
    return Side(
        f"official low-level server, {version}",
        "tool_calls",
        {
            "server": "peers.lowlevel",
            "tool": "add",
            "callers": callers,
            "seconds": seconds,
            "version": version,
        },
    )


_LATENCIES = {
    "p50_us": "p50 {:.0f} µs",
    "p99_us": "p99 {:.0f} µs",
    "cpu_us": "{:.0f} µs of the server's CPU each",
}
_ADDS = (
    "ours: a read-only handler of a live entity that adds two numbers; "
    "peers: a tool that adds two numbers; the low-level server checks no arguments"
)


def _mcp_call(name: str, place: Place, version: str, callers: int, seconds: float) -> Benchmark:
    ours = _greenroom("ledger_add", callers, seconds, version)
    peer = _fastmcp("add", callers, seconds, version)
    quicker = _fastmcp("add_async", callers, seconds, version)
    official = _official(callers, seconds, version)
    return Benchmark(
        name=name,
        setup=(
            _MCP,
            (
                f"{callers} connections, tools/call, stateless, protocol {version}; "
                f"{seconds:g} s a run after 0.5 s"
            ),
            _ADDS,
        ),
        sides=[ours, peer, quicker, official],
        comparisons=[
            Comparison(ours.name, peer.name, 6.0, f"protocol {version}"),
            Comparison(ours.name, quicker.name, None, "peer's async def tool"),
            Comparison(ours.name, official.name, None, "the official low-level server"),
        ],
        unit="calls/s",
        place=place,
        details=_LATENCIES,
    )


def _mcp_tail(place: Place, callers: int, seconds: float) -> Benchmark:
    sides: list[Side] = []
    comparisons: list[Comparison] = []
    for version in (MODERN, LEGACY):
        ours, *peers = (
            replace(side, parameters={**side.parameters, "figure": "p99_us"})
            for side in (
                _greenroom("ledger_add", callers, seconds, version),
                _fastmcp("add", callers, seconds, version),
                _official(callers, seconds, version),
            )
        )
        sides += [ours, *peers]
        comparisons += [Comparison(ours.name, one.name, None, one.name) for one in peers]
    return Benchmark(
        name=f"mcp-p99-{callers}",
        setup=(
            _MCP,
            f"{callers} connections, tools/call, stateless; {seconds:g} s a run after 0.5 s",
            _ADDS,
            "the slowest hundredth of the calls, from the request's first byte to the answer",
        ),
        sides=sides,
        comparisons=comparisons,
        unit="µs at p99",
        place=place,
        fewer_is_better=True,
        limit=5000.0 if callers == TAIL_CALLERS else None,
        details={"p50_us": "p50 {:.0f} µs", "rate": "{:.0f} calls/s"},
    )


def _mcp_list(place: Place, seconds: float) -> Benchmark:
    sides: list[Side] = []
    comparisons: list[Comparison] = []
    servers = {
        "greenroom": "ours.many_tools",
        "FastMCP": "peers.many_tools",
        "official low-level server": "peers.lowlevel",
    }
    for words, tool in (("tools/list", ""), ("tools/call", "add")):
        for tools in (10, 1000):
            ours, *peers = (
                Side(
                    f"{who}, {words}, {tools:,} tools",
                    "tool_calls",
                    {
                        "server": server,
                        "tool": tool,
                        "callers": 16,
                        "seconds": seconds,
                        "version": MODERN,
                        "tools": tools,
                    },
                )
                for who, server in servers.items()
            )
            sides += [ours, *peers]
            comparisons += [Comparison(ours.name, one.name, None, one.name) for one in peers]
    return Benchmark(
        name="mcp-list-1000",
        setup=(
            _MCP,
            f"16 connections, protocol {MODERN}; {seconds:g} s a run after 0.5 s",
            "tools that add two numbers, methods of an endpoint on our side, all written with def",
            "tools/list: the first page, which has at most 500 of them with ours, and all elsewhere",
        ),
        sides=sides,
        comparisons=comparisons,
        unit="calls/s",
        place=place,
        details=_LATENCIES,
    )


def _mcp_memory(place: Place) -> Benchmark:
    def side(who: str, server: str, tool: str, version: str) -> Side:
        parameters = {"server": server, "tool": tool, "version": version, "calls": MEMORY_CALLS}
        return Side(f"{who}, {version}", "left_behind", parameters, runs=1)

    ours = [side("greenroom", "ours.shop", "ledger_add", one) for one in (MODERN, LEGACY)]
    peers = [
        side("official low-level server", "peers.lowlevel", "add", one) for one in (MODERN, LEGACY)
    ]
    return Benchmark(
        name="mcp-memory",
        setup=(
            _MCP,
            (
                f"growth of the server's resident memory over {MEMORY_CALLS:,} calls from 16 "
                "connections, after a tenth as many to warm up"
            ),
            _ADDS,
        ),
        sides=[*ours, *peers],
        comparisons=[Comparison(a.name, b.name) for a, b in zip(ours, peers, strict=True)],
        unit="KiB",
        place=place,
        fewer_is_better=True,
        limit=1024.0,
        details={"process_mib": "process of {:.0f} MiB"},
    )


def _mcp_entity(place: Place, seconds: float) -> Benchmark:
    ours = _greenroom("ledger_record", 64, seconds, MODERN)
    peer = _fastmcp("add", 64, seconds, MODERN)
    quicker = _fastmcp("add_async", 64, seconds, MODERN)
    return Benchmark(
        name="mcp-entity-64",
        setup=(
            _MCP,
            f"64 connections, tools/call, protocol {MODERN}; {seconds:g} s a run after 0.5 s",
            "ours: a durable command with an Idempotency-Key, to 400 entities; "
            + _DURABILITY["sqlite"].replace(" on both sides", ""),
            "peer: a tool that adds two numbers and keeps nothing",
        ),
        sides=[ours, peer, quicker],
        comparisons=[
            Comparison(ours.name, peer.name, 3.0),
            Comparison(ours.name, quicker.name, None, "peer's async def tool"),
        ],
        unit="calls/s",
        place=place,
        details={"cpu_us": "{:.0f} µs of the server's CPU each"},
    )


def _mcp_method(place: Place, seconds: float) -> Benchmark:
    sides: list[Side] = []
    comparisons: list[Comparison] = []
    for tool, kind in (("add", "def"), ("add_async", "async def")):
        ours = _greenroom(tool, 16, seconds, MODERN)
        peer = _fastmcp(tool, 16, seconds, MODERN)
        sides += [ours, peer]
        comparisons.append(Comparison(ours.name, peer.name, None, f"written with {kind}"))
    return Benchmark(
        name="mcp-method-16",
        setup=(
            _MCP,
            f"16 connections, tools/call, protocol {MODERN}; {seconds:g} s a run after 0.5 s",
            "both: a tool that adds two numbers, a method of an endpoint; `def` on a thread",
        ),
        sides=sides,
        comparisons=comparisons,
        unit="calls/s",
        place=place,
        details={"cpu_us": "{:.0f} µs of the server's CPU each"},
    )
