"""A request that is turned away before anything is done for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is not answered: for the caller, so it says nothing about the inside."""

    status: int
    """Of HTTP."""
    code: str
    """For programs; permanent."""
    text: str
    challenge: Mapping[str, str] | None = None
    """What `WWW-Authenticate` says beside where to get a token; None where a token won't help."""
    headers: tuple[tuple[bytes, bytes], ...] = ()


class RefusedError(Exception):
    """Carries a refusal to the door; never leaves the edge."""

    def __init__(self, refusal: Refusal) -> None:
        self.refusal = refusal
        super().__init__(refusal.text)
