"""`greenroom timers`: a list, beside a running service; and what `check` says of timers."""

import json
import re
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import ModuleType

import pytest

from greenroom import Service, TimerScheduler, component
from greenroom.cli import main
from greenroom.settings import Settings
from tests.support.eventually import eventually
from tests.support.timers import Bell, Ringers

Output = pytest.CaptureFixture[str]
HOUR = timedelta(hours=1)


@component("ringers")
class OtherRingers(Ringers):
    """Later code, without a method."""

    say_nothing = None  # type: ignore[assignment]


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    settings = Settings(database_url=f"sqlite:///{tmp_path}/t.db")
    module = ModuleType("timed_app")
    module.service = Service("timed", components=[Bell, Ringers], settings=settings)  # type: ignore[attr-defined]
    module.later = Service("timed", components=[Bell, OtherRingers], settings=settings)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "timed_app", module)
    return module


@pytest.fixture
def timers(module: ModuleType) -> Iterator[TimerScheduler]:
    service: Service = module.service
    with service.running() as client:
        bell = client.for_key_value_entity(Bell, "b")
        timers = client.timers
        timers.start_single_timer("order-1", 3 * HOUR, bell.deferred(Bell.ring))
        nothing = client.for_timed_action(Ringers).deferred(Ringers.say_nothing)
        timers.start_recurring_timer("often", nothing, every=HOUR)
        timers.start_recurring_timer("daily", bell.deferred(Bell.ring), cron="0 3 * * *")
        soon = timedelta(milliseconds=1)
        timers.start_single_timer("dead", soon, bell.deferred(Bell.refuse), max_retries=0)
        timers.start_single_timer("failing", soon, bell.deferred(Bell.refuse))
        assert eventually(lambda: len(timers.list(failing_only=True)) == 2)
        yield timers


def test_timers_are_listed_while_the_service_runs(timers: TimerScheduler, capsys: Output) -> None:
    assert main(["timers", "timed_app:service"]) == 0

    lines = dict(line.split("  ", 1) for line in capsys.readouterr().out.splitlines())
    assert list(lines) == ["daily", "dead", "failing", "often", "order-1"]
    assert re.match(r"waiting  due \S+T03:00:00\+00:00  cron '0 3 \* \* \*' UTC", lines["daily"])
    assert lines["dead"].endswith("calls bell/b.refuse  failed 1 time(s): The bell is broken.")
    assert re.match(r"retrying  due \S+  next \S+  calls", lines["failing"])
    assert lines["often"].endswith("every 1:00:00  calls ringers.say_nothing")


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (["--name", "ORDER"], ["order-1"]),
        (["--failing"], ["dead", "failing"]),
        (["--dead"], ["dead"]),
        (["--upcoming", "90m", "--name", "o"], ["often"]),
        (["--upcoming", "4h", "--name", "o"], ["often", "order-1"]),
        (["--after", "failing", "--limit", "1"], ["often"]),
        (["--name", "nothing"], []),
    ],
)
def test_timers_are_chosen(
    timers: TimerScheduler, capsys: Output, options: list[str], names: list[str]
) -> None:
    assert main(["timers", "timed_app:service", "--json", *options]) == 0
    assert [one["name"] for one in json.loads(capsys.readouterr().out)] == names


@pytest.mark.parametrize("options", [["--upcoming", "2"], ["--upcoming", "9e9d"], ["--limit", "0"]])
def test_wrong_options_are_told(module: ModuleType, capsys: Output, options: list[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["timers", "timed_app:service", *options])
    assert left.value.code == 2
    assert options[0] in capsys.readouterr().err


def test_check_tells_of_timers_that_lead_nowhere(timers: TimerScheduler, capsys: Output) -> None:
    assert main(["check", "timed_app:service"]) == 0

    assert main(["check", "timed_app:later"]) == 1
    told = capsys.readouterr().err
    assert "What timers call leads nowhere:" in told
    assert "1 timer(s), as 'often': Component 'ringers' has no command handler" in told


def test_actions_are_listed_as_what_timers_run(module: ModuleType, capsys: Output) -> None:
    assert main(["components", "timed_app:service"]) == 0
    out = capsys.readouterr().out
    assert "ringers  timed-action  tests.support.timers.Ringers" in out
    assert "    ring_and_start_again(bell, left)  run by timers" in out


def test_a_timer_can_be_looked_at_as_an_instance(timers: TimerScheduler, capsys: Output) -> None:
    assert main(["state", "timed_app:service", "greenroom-timers/order-1"]) == 0
    assert json.loads(capsys.readouterr().out)["plan"]["call"]["handler"] == "ring"
