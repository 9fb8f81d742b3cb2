"""Everything that can be set, on one page, from the environment or a file."""

from __future__ import annotations

import contextlib
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import unquote

from pydantic import BeforeValidator, Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from greenroom.errors import ConfigurationError

_SQLITE = "sqlite:///"


def _seconds(given: object) -> object:
    """Text that is a number is a number of seconds; the rest is left to pydantic (ISO 8601)."""
    if isinstance(given, str):
        with contextlib.suppress(ValueError):
            return float(given)
    return given


_Duration = Annotated[timedelta, BeforeValidator(_seconds), Field(ge=timedelta(0))]
_Time = Annotated[timedelta, BeforeValidator(_seconds), Field(gt=timedelta(0))]


class Settings(BaseSettings):
    """How a service runs. Each field is read from `GREENROOM_<NAME>`, or a `.env` file.

    Durations are read as ISO 8601 (`PT5S`) or seconds (`5`).

    Example:
        >>> Settings(ask_timeout=timedelta(seconds=2)).ask_timeout.total_seconds()
        2.0
    """

    model_config = SettingsConfigDict(
        env_prefix="GREENROOM_", env_file=".env", extra="ignore", frozen=True
    )

    database_url: str = "sqlite:///greenroom.db"
    """SQLAlchemy URL: `sqlite:///FILE` or `postgresql+psycopg://…`."""
    migrate: Literal["auto", "off"] = "auto"
    """Whether a database behind the code is upgraded at start (docs/decisions)."""
    slices: int | None = Field(default=None, ge=1, le=1024)
    """Slices of a new database; None is 1 on SQLite and 64 on PostgreSQL. Fixed afterwards."""

    dispatcher: Literal["loop", "pool"] = "loop"
    """Where entity handlers run: on the runtime's event loop, or on shared worker threads."""
    pool_workers: int = Field(default=4, ge=1, le=256)
    """Worker threads of the pool dispatcher."""
    ask_timeout: _Time = timedelta(seconds=5)
    """How long a call waits for its answer unless it says otherwise."""
    mailbox_limit: int = Field(default=1000, ge=1)
    """Commands that may wait at one instance; one more is refused as overloaded."""
    passivate_after: _Duration = timedelta(minutes=5)
    """An instance that was idle for so long leaves memory."""
    max_live_instances: int = Field(default=100_000, ge=1)
    """Above this, the least recently used instances leave memory."""
    step_threads: int = Field(default=64, ge=1)
    """How many steps of workflows, and timed actions, that are no coroutines run at the same
    time."""
    drain_timeout: _Duration = timedelta(seconds=10)
    """How long a stop waits for commands that were accepted."""

    snapshot_every: int = Field(default=100, ge=1)
    """Events between two snapshots of an event sourced entity."""
    max_event_bytes: int = Field(default=1024**2, ge=1)
    max_state_bytes: int = Field(default=10 * 1024**2, ge=1)
    max_batch_commands: int = Field(default=2048, ge=1)
    """Commands written in one transaction at the most."""
    keep_deleted: _Duration = timedelta(days=7)
    """How long a deleted instance can still be read before it is purged."""
    keep_receipts: _Time = timedelta(days=7)
    """How long a client's idempotency key is remembered."""
    keep_step_keys: _Time = timedelta(days=365)
    """How long an entity remembers the calls of a workflow's step, or of a timer, so that they
    are carried out once: longer than any step stays unfinished."""
    keep_history: _Duration = timedelta(days=30)
    """How long replaced states of key value entities, and the history of workflows, are kept."""
    sweep_every: _Time = timedelta(seconds=10)
    """How often expiries and clean-ups are looked for."""

    peer_host: str = "127.0.0.1"
    """Where other processes on the same PostgreSQL reach this one."""
    peer_port: int = Field(default=0, ge=0, le=65535)
    """0 takes a free port; the address is kept with the owner's lease."""

    host: str = "127.0.0.1"
    port: int = Field(default=8000, ge=0, le=65535)
    allowed_hosts: list[str] = Field(default_factory=lambda: ["localhost", "127.0.0.1", "[::1]"])
    """`Host` headers that MCP endpoints answer to (protection from DNS rebinding); `*` is any."""
    allowed_origins: list[str] = Field(default_factory=list)
    """`Origin` headers of browsers that MCP endpoints answer to, beside the allowed hosts."""
    max_body_bytes: int = Field(default=4 * 1024**2, ge=1)
    public_url: str | None = None
    """How the outside reaches the service, as `https://shop.example.com`; tokens are made for it."""
    service_secret: SecretStr | None = None
    """What the services of one project share, to prove their names to each other."""
    require_acl: bool = False
    """An MCP endpoint that does not say who may call it is an error at start."""
    audit: Literal["secured", "all", "off"] = "secured"
    """Which tool calls are recorded: those at endpoints that ask something of callers, or all."""
    audit_values: list[str] = Field(default_factory=list)
    """Names of arguments whose values are recorded; of others, only what kind of value it was."""
    tool_timeout: _Time = timedelta(minutes=1)
    """How long a method of an MCP endpoint may take, unless its tool says otherwise."""
    tool_threads: int = Field(default=32, ge=1)
    """Threads for the methods of MCP endpoints that are written with `def`."""
    max_result_bytes: int = Field(default=1024**2, ge=1)
    """The largest result of a tool; text beyond it is cut off with a notice."""
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    log_format: Literal["text", "json"] = "text"

    @field_validator("database_url")
    @classmethod
    def _known_database(cls, url: str) -> str:
        if not unquote(url).isprintable():
            message = "must not have control characters in it"
            raise ValueError(message)
        if url.startswith(_SQLITE) and url[len(_SQLITE) :].split("?", 1)[0] in ("", ":memory:"):
            message = "a database in memory forgets; name a file, as sqlite:///greenroom.db"
            raise ValueError(message)
        if url.startswith(_SQLITE):
            return url
        if url.startswith(("postgresql+psycopg://", "postgresql://", "postgres://")):
            return "postgresql+psycopg://" + url.split("://", 1)[1]
        message = "must be sqlite:///FILE or postgresql+psycopg://USER@HOST/DATABASE"
        raise ValueError(message)

    @property
    def sqlite_file(self) -> Path | None:
        """The file of a SQLite database; None on PostgreSQL."""
        if not self.database_url.startswith(_SQLITE):
            return None
        # As a URI the file may carry options: sqlite:///file:NAME?mode=ro&uri=true
        name = self.database_url[len(_SQLITE) :].split("?", 1)[0]
        return Path(name.removeprefix("file:"))


def load_settings(**overrides: object) -> Settings:
    """Settings from the environment, with some of them given.

    Raises:
        ConfigurationError: Names each setting that is wrong and what is wrong with it.
    """
    try:
        return Settings(**overrides)  # type: ignore[arg-type]
    except SettingsError as error:
        # A list that is no JSON; the error names the field.
        raise ConfigurationError(
            f'Wrong settings: {error}. Lists are written as JSON, as ["localhost"].'
        ) from error
    except ValidationError as error:
        lines = [
            f"GREENROOM_{'_'.join(str(part) for part in problem['loc']).upper()}: {problem['msg']}"
            for problem in error.errors()
        ]
        raise ConfigurationError("Wrong settings: " + "; ".join(lines)) from error
