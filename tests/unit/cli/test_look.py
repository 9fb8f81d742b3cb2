"""`greenroom components|instances|events|state|check`: looking without disturbing."""

import json
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from greenroom.cli import main
from greenroom.cli._load import load_service
from greenroom.service import Service
from tests.support.components import Counter, ProfileEntity

Output = pytest.CaptureFixture[str]


@pytest.fixture
def running(target: str) -> Iterator[Service]:
    """The service, running all the while, with something in it."""
    service = load_service(target)
    with service.running() as client:
        counter = client.for_event_sourced_entity(Counter, "a/b")
        counter.ask(Counter.increase, 2)
        counter.ask(Counter.note, "grün")
        client.for_event_sourced_entity(Counter, "c").ask(Counter.increase, 5)
        client.for_key_value_entity(ProfileEntity, "ada").ask(ProfileEntity.rename, "Ada")
        yield service


def test_components_are_listed_with_their_commands(target: str, capsys: Output) -> None:
    assert main(["components", target]) == 0

    out = capsys.readouterr().out
    assert "counter  event-sourced-entity  tests.support.components.Counter" in out
    assert "    increase(by)  writes  tool counter_increase" in out
    assert "    total()  reads\n" in out


def test_components_are_listed_for_programs(target: str, capsys: Output) -> None:
    assert main(["components", target, "--json"]) == 0

    counter, profile = json.loads(capsys.readouterr().out)
    assert (counter["id"], profile["kind"]) == ("counter", "key-value-entity")
    assert "increased v1" in counter["stored_types"]


def test_instances_are_listed_while_the_service_runs(
    target: str, running: Service, capsys: Output
) -> None:
    assert main(["instances", target, "counter", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [(one["id"], one["version"], one["deleted"]) for one in listed] == [
        ("a/b", 2, None),
        ("c", 1, None),
    ]

    assert main(["instances", target, "counter", "--after", "a/b", "--limit", "1"]) == 0
    assert capsys.readouterr().out.startswith("id=c version=1 created=")


def test_events_are_shown_with_their_metadata(
    target: str, running: Service, capsys: Output
) -> None:
    assert main(["events", target, "counter/a/b", "--json"]) == 0
    increased, noted = json.loads(capsys.readouterr().out)
    assert (increased["sequence_number"], increased["type"]) == (1, "increased")
    assert noted["value"] == {"text": "grün"}
    assert noted["metadata"] == [["colour", "green"]]

    assert main(["events", target, "counter/a/b", "--after", "1"]) == 0
    [line] = capsys.readouterr().out.splitlines()
    assert line.startswith("2  20")
    assert line.endswith('noted  {"text": "grün"}')


def test_state_is_shown_now_and_as_it_was(target: str, running: Service, capsys: Output) -> None:
    assert main(["state", target, "counter/a/b"]) == 0
    assert json.loads(capsys.readouterr().out) == {"total": 2, "notes": ["grün"]}

    assert main(["state", target, "counter/a/b", "--at", "1"]) == 0
    assert json.loads(capsys.readouterr().out) == {"total": 2, "notes": []}

    assert main(["state", target, "profile/ada", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"name": "Ada", "tags": []}


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["instances", "cart"], 1, "no component 'cart'"),
        (["events", "cart/c-1"], 1, "no component 'cart'"),
        (["events", "counter/zz"], 1, "There is no instance counter/zz: nothing was ever stored"),
        (["events", "counter/zz", "--json"], 1, "greenroom instances "),
        (["state", "profile/zz"], 1, "There is no instance profile/zz"),
        (["state", "counter/zz", "--at", "0"], 1, "There is no instance counter/zz"),
        (["state", "counter"], 2, "write COMPONENT/INSTANCE"),
        (["state", "counter/a/b", "--at", "9"], 1, "counter/a/b is at 2"),
        (["state", "counter/a/b", "--at", "-1"], 1, "whole number from 0"),
    ],
)
def test_a_mistake_is_told(
    target: str, running: Service, arguments: list[str], code: int, said: str, capsys: Output
) -> None:
    command, *rest = arguments
    assert main([command, target, *rest]) == code
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error


def test_looking_at_a_database_that_is_not_there_makes_none(
    target: str, database: Path, capsys: Output
) -> None:
    assert main(["instances", target, "counter"]) == 1
    assert "There is no database" in capsys.readouterr().err
    assert not database.exists()


def test_a_service_and_its_database_are_checked(
    target: str, running: Service, capsys: Output
) -> None:
    assert main(["check", target]) == 0
    assert "every stored type has a path to the code" in capsys.readouterr().out


def test_definitions_are_checked_without_a_database(
    target: str, database: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine that builds, and before the first start."""
    assert main(["check", target]) == 0
    out = capsys.readouterr().out
    assert "definitions: 2 component(s), 1 MCP endpoint(s)" in out
    assert f"database: not checked: there is no {database}" in out
    assert not database.exists()

    monkeypatch.setenv("GREENROOM_DATABASE_URL", "postgresql://nobody@127.0.0.1:9/none")
    sys.modules.pop(target.partition(":")[0])
    assert main(["check", target]) == 0
    assert "database: not checked: it can't be reached." in capsys.readouterr().out


def test_a_pipeline_may_insist_on_the_database(target: str, database: Path, capsys: Output) -> None:
    assert main(["check", target, "--require-database"]) == 1
    assert "The database was not checked: there is no" in capsys.readouterr().err


def test_a_file_that_is_no_database_is_a_problem(
    target: str, database: Path, capsys: Output
) -> None:
    database.write_text("a note, and certainly no database")

    assert main(["check", target]) == 1
    assert "file is not a database" in capsys.readouterr().err


def test_a_database_that_the_service_would_migrate_is_no_problem(
    target: str, database: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless it may not."""
    sqlite3.connect(database).close()
    assert database.exists()
    assert main(["check", target]) == 0
    assert "it lacks the migration(s) 0001" in capsys.readouterr().out

    monkeypatch.setenv("GREENROOM_MIGRATE", "off")
    sys.modules.pop(target.partition(":")[0])
    assert main(["check", target]) == 1
    assert "Run `greenroom db upgrade`" in capsys.readouterr().err


def test_a_stored_type_that_the_code_has_lost_is_found(
    target: str, running: Service, tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    definition = running.runtime.definitions["counter"]
    kept = tuple(info for info in definition.stored_types if info.name != "noted")
    monkeypatch.setattr(definition, "stored_types", kept)

    assert main(["check", target]) == 1
    assert "counter: 'noted' is stored, but no type of Counter" in capsys.readouterr().err


def test_a_limit_is_at_least_one(target: str, capsys: Output) -> None:
    with pytest.raises(SystemExit) as left:
        main(["instances", target, "counter", "--limit", "0"])

    assert left.value.code == 2
    assert "must be 1 or more" in capsys.readouterr().err
