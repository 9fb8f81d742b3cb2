"""Naming a service and an instance on the command line."""

from pathlib import Path

import pytest

from greenroom.cli._failure import CommandFailed
from greenroom.cli._load import load_service, parse_ref
from greenroom.errors import DefinitionError, InvalidIdError
from greenroom.ids import EntityRef

SERVICE = """
from greenroom.service import Service
shop = service = Service("shop")
number = 5
class Holder:
    inner = service
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "a_shop.py").write_text(SERVICE)
    (tmp_path / "a_broken.py").write_text("import a_module_nobody_has\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", ["", *__import__("sys").path])
    return tmp_path


@pytest.mark.parametrize(
    "target", ["a_shop", "a_shop:service", "a_shop:shop", "a_shop:Holder.inner"]
)
def test_a_service_is_found_in_the_current_folder(target: str) -> None:
    assert load_service(target).name == "shop"


@pytest.mark.parametrize(
    ("target", "said", "usage"),
    [
        ("no_such_module:service", "There is no module 'no_such_module'", False),
        (".:x", "does not name a service", True),
        ("..shop:service", "does not name a service", True),
        ("a_shop:service.", "does not name a service", True),
        ("a shop", "does not name a service", True),
        ("a_shop:nobody", "has no 'nobody'. It has: shop, service", False),
        ("a_shop:number", "is a int, not a greenroom Service", False),
        ("a_shop.py:service", "write MODULE:SERVICE", True),
        ("./a_shop:service", "write MODULE:SERVICE", True),
        (":service", "write MODULE:SERVICE", True),
    ],
)
def test_what_names_no_service_is_told(target: str, said: str, usage: bool) -> None:
    with pytest.raises(CommandFailed, match=said.replace("(", r"\(")) as failure:
        load_service(target)

    assert failure.value.usage is usage


def test_a_module_that_is_missing_inside_the_application_keeps_its_traceback() -> None:
    with pytest.raises(ModuleNotFoundError, match="a_module_nobody_has"):
        load_service("a_broken")


def test_definition_errors_come_as_they_are(folder: Path) -> None:
    (folder / "a_wrong.py").write_text(
        "from greenroom.service import Service\nservice = Service('x', components=[int])\n"
    )

    with pytest.raises(DefinitionError):
        load_service("a_wrong")


@pytest.mark.parametrize(
    ("text", "ref"),
    [("cart/c-1", EntityRef("cart", "c-1")), ("cart/a/b", EntityRef("cart", "a/b"))],
)
def test_an_instance_is_split_at_the_first_slash(text: str, ref: EntityRef) -> None:
    assert parse_ref(text) == ref


@pytest.mark.parametrize("text", ["cart", "/c-1"])
def test_an_instance_without_its_component_is_a_usage_error(text: str) -> None:
    with pytest.raises(CommandFailed) as failure:
        parse_ref(text)

    assert failure.value.usage


def test_an_instance_without_an_id_is_refused() -> None:
    with pytest.raises(InvalidIdError):
        parse_ref("cart/")
