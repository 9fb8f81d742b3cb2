"""The `greenroom` command: run a service, look into it, look after its database."""

from greenroom.cli._main import main

__all__ = ["main"]
