"""One run in this process: `python -m benchmarks.one_run ours.commands '{"callers": 64, …}'`."""

from __future__ import annotations

import importlib
import json
import sys


def main() -> None:
    """Call the module's `run` and print what it measured, as one line of JSON."""
    module, parameters = sys.argv[1:]
    measured = importlib.import_module(f"benchmarks.{module}").run(**json.loads(parameters))
    print(json.dumps(measured))


if __name__ == "__main__":
    main()
