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
        ("no_such_module:service", "There is no module 'no_such_module'", True),
        ("a_shop.more:service", "There is no module 'a_shop.more'", True),
        (".:x", "write MODULE:SERVICE", True),
        ("..svc:service", "write MODULE:SERVICE", True),
        ("a shop:service", "write MODULE:SERVICE", True),
        ("a_shop:..", "write MODULE:SERVICE", True),
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


BROKEN = [
    ("import a_module_nobody_has\n", "ModuleNotFoundError: No module named.*broken_0.py:1"),
    ("def f():\n    raise KeyError('x\\ny')\nf()\n", "KeyError: .*broken_1.py:2"),
    ("import sys\nsys.exit(3)\n", "SystemExit: 3 .*broken_2.py:2"),
    ("def (\n", "SyntaxError: .*broken_3.py, line 1"),
    ("raise ValueError\n", r"ValueError \(.*broken_4.py:1"),
]


@pytest.mark.parametrize(("number", "text", "said"), [(n, *one) for n, one in enumerate(BROKEN)])
def test_a_module_that_can_not_be_imported_is_told_in_one_line(
    folder: Path, number: int, text: str, said: str
) -> None:
    """With the line of the application where it went wrong, and how to see the rest."""
    (folder / f"broken_{number}.py").write_text(text)

    with pytest.raises(CommandFailed, match=said) as failure:
        load_service(f"broken_{number}")

    told = str(failure.value)
    assert told.startswith(f"The module broken_{number} can't be imported: ")
    assert told.endswith(f'for the whole traceback: python -c "import broken_{number}"')
    assert "\n" not in told
    assert failure.value.usage


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
