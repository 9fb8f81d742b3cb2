"""`greenroom db upgrade|current|history`."""

from pathlib import Path

import pytest

from greenroom.cli import main

Output = pytest.CaptureFixture[str]


def test_a_database_is_set_up_and_says_where_it_is(database: Path, capsys: Output) -> None:
    assert main(["db", "current"]) == 0
    assert capsys.readouterr().out == "not set up: run `greenroom db upgrade`\n"
    assert not database.exists(), "looking must not make a file"

    assert main(["db", "upgrade"]) == 0
    reached = capsys.readouterr().out
    assert reached.startswith("at ")

    assert main(["db", "current"]) == 0
    assert capsys.readouterr().out == reached


def test_the_history_says_what_is_applied(database: Path, capsys: Output) -> None:
    assert main(["db", "history"]) == 1
    main(["db", "upgrade"])
    capsys.readouterr()

    assert main(["db", "history"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines
    assert all("  applied  " in line for line in lines)


def test_another_database_may_be_named(database: Path, tmp_path: Path) -> None:
    assert main(["db", "upgrade", "--database-url", f"sqlite:///{tmp_path}/other.db"]) == 0
    assert (tmp_path / "other.db").exists()
    assert not database.exists()


@pytest.mark.parametrize(
    "url",
    ["mysql://x", "", "postgresql://ada@h:port/db", "postgresql://[::1/db", "sqlite:///a%00b.db"],
)
def test_a_url_that_can_not_be_used_is_told(url: str, capsys: Output) -> None:
    assert main(["db", "current", "--database-url", url]) == 2
    told = capsys.readouterr().err
    assert "GREENROOM_DATABASE_URL" in told
    assert told.count("\n") == 1


def test_a_password_is_not_shown(capsys: Output) -> None:
    """Without a host, it looks like a port."""
    assert main(["db", "current", "--database-url", "postgresql://ada:hunter2/db"]) == 2
    assert "hunter2" not in capsys.readouterr().err


def test_a_command_must_be_named(capsys: Output) -> None:
    with pytest.raises(SystemExit) as left:
        main(["db"])

    assert left.value.code == 2
