"""Reads the command line, runs what it asks for, and says what went wrong in one sentence."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from greenroom.cli._call import add_call
from greenroom.cli._check import add_check
from greenroom.cli._db import add_db
from greenroom.cli._failure import CommandFailed
from greenroom.cli._look import add_look
from greenroom.cli._mcp import add_mcp
from greenroom.cli._run import add_run
from greenroom.cli._timers import add_timers
from greenroom.cli._workflows import add_workflows
from greenroom.errors import ConfigurationError, GreenroomError
from greenroom.version import package_version

OK, FAILED, USAGE = 0, 1, 2
"""Exit codes: done, not done, and asked for wrongly (argparse leaves with 2 by itself)."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out one command; returns the exit code.

    A failure that the user can do something about is a sentence on standard error. A traceback
    here is a bug in greenroom.
    """
    parser = _parser()
    chosen = parser.parse_args(arguments)
    try:
        code = chosen.run(chosen)
        sys.stdout.flush()
    except CommandFailed as failure:
        print(f"greenroom: {failure}", file=sys.stderr)
        return USAGE if failure.usage else FAILED
    except ConfigurationError as error:
        print(f"greenroom: {error}", file=sys.stderr)
        return USAGE
    except GreenroomError as error:
        print(f"greenroom: {error}", file=sys.stderr)
        return FAILED
    except BrokenPipeError:
        # Whoever was reading (`| head`) has seen enough; keep Python from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    return int(code or OK)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="greenroom",
        description="Run a greenroom service, look into it, and look after its database.",
        epilog="Settings come from the environment as GREENROOM_<NAME>, or from .env.",
    )
    parser.add_argument("--version", action="version", version=package_version())
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for add in (
        add_run, add_mcp, add_check, add_call, add_look, add_workflows, add_timers, add_db,
    ):  # fmt: skip
        add(commands)
    return parser
