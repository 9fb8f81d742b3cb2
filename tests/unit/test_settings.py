"""Settings say what is wrong with them, by the name under which they are set."""

from datetime import timedelta
from pathlib import Path

import pytest

from greenroom.errors import ConfigurationError
from greenroom.settings import load_settings


@pytest.mark.parametrize(
    ("text", "seconds"), [("5", 5), ("0.5", 0.5), ("PT1M", 60), ("P1D", 86400)]
)
def test_durations_are_seconds_or_iso_8601(
    monkeypatch: pytest.MonkeyPatch, text: str, seconds: float
) -> None:
    monkeypatch.setenv("GREENROOM_ASK_TIMEOUT", text)

    assert load_settings().ask_timeout == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("ASK_TIMEOUT", "-PT5S", "GREENROOM_ASK_TIMEOUT"),
        ("ASK_TIMEOUT", "soon", "GREENROOM_ASK_TIMEOUT"),
        ("SWEEP_EVERY", "0", "GREENROOM_SWEEP_EVERY"),
        ("KEEP_RECEIPTS", "0", "GREENROOM_KEEP_RECEIPTS"),
        ("KEEP_DELETED", "-1", "GREENROOM_KEEP_DELETED"),
        ("MAILBOX_LIMIT", "0", "GREENROOM_MAILBOX_LIMIT"),
        ("ALLOWED_HOSTS", "foo", "allowed_hosts.*written as JSON"),
        ("DATABASE_URL", "mysql://x", "GREENROOM_DATABASE_URL.*sqlite:///FILE"),
        ("DATABASE_URL", "sqlite:///a%00b", "GREENROOM_DATABASE_URL.*control characters"),
        ("DATABASE_URL", "sqlite:///:memory:", "GREENROOM_DATABASE_URL.*forgets"),
    ],
)
def test_what_is_wrong_is_told_by_name(
    monkeypatch: pytest.MonkeyPatch, name: str, text: str, said: str
) -> None:
    monkeypatch.setenv(f"GREENROOM_{name}", text)

    with pytest.raises(ConfigurationError, match=said):
        load_settings()


def test_a_sqlite_url_names_its_file() -> None:
    assert load_settings(database_url="sqlite:///a/b.db").sqlite_file == Path("a/b.db")
    uri = "sqlite:///file:a/b.db?mode=ro&uri=true"
    assert load_settings(database_url=uri).sqlite_file == Path("a/b.db")
    assert load_settings(database_url="postgresql://u@h/d").sqlite_file is None
