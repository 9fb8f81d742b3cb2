"""A command that could not do what it was asked."""

from __future__ import annotations


class CommandFailed(Exception):  # noqa: N818 - it ends the command; nobody catches it but main()
    """Ends the command with this sentence. `usage` is for a command line that makes no sense."""

    def __init__(self, message: str, *, usage: bool = False) -> None:
        self.usage = usage
        super().__init__(message)
