"""The interface of gloo on a machine whose name has a loopback address."""

import socket
from typing import Any

import pytest

import jumok.gloo_interface
from jumok.errors import InputError
from jumok.gloo_interface import find_interface, interface_addresses, is_loopback
from tests.errors import raises

TWO_MACHINES = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "192.0.2.9"}


def test_gloo_chooses_by_itself_where_it_can() -> None:
    assert find_interface({**TWO_MACHINES, "LOCAL_WORLD_SIZE": "2"}, "localhost") is None
    assert find_interface({**TWO_MACHINES, "GLOO_SOCKET_IFNAME": "eth7"}, "localhost") is None
    assert find_interface(TWO_MACHINES, "192.0.2.7") is None  # an address that others reach


@pytest.mark.parametrize(
    ("interfaces", "routes", "expected"),
    [
        ({"lo": "127.0.0.1", "a": "10.0.0.2", "b": "10.1.0.2"}, {"192.0.2.9": "10.1.0.2"}, "b"),
        # the first machine: its own name is a loopback address, so the default route counts
        (
            {"lo": "127.0.0.1", "a": "10.0.0.2", "b": "10.1.0.2"},
            {"192.0.2.9": "127.0.0.1", "192.0.2.1": "10.0.0.2"},
            "a",
        ),
        ({"lo": "127.0.0.1", "a": "10.0.0.2"}, {}, "a"),  # no route, one interface
    ],
)
def test_the_interface_that_reaches_the_other_machines(
    interfaces: dict[str, str], routes: dict[str, str], expected: str, monkeypatch: Any
) -> None:
    monkeypatch.setattr(jumok.gloo_interface, "interface_addresses", lambda: interfaces)
    monkeypatch.setattr(jumok.gloo_interface, "_own_address", routes.get)
    assert find_interface(TWO_MACHINES, "localhost") == expected


def test_several_interfaces_without_a_route(monkeypatch: pytest.MonkeyPatch) -> None:
    interfaces = {"lo": "127.0.0.1", "a": "10.0.0.2", "b": "10.1.0.2"}
    monkeypatch.setattr(jumok.gloo_interface, "interface_addresses", lambda: interfaces)
    monkeypatch.setattr(jumok.gloo_interface, "_own_address", lambda _: None)
    with raises(InputError, "process.no_interface") as failure:
        find_interface(TWO_MACHINES, "localhost")
    assert failure.value.values["interfaces"] == "a, b"


def test_addresses_of_this_machine() -> None:
    found = interface_addresses()
    assert set(found) <= {name for _, name in socket.if_nameindex()}
    assert found.get("lo", "127.0.0.1") == "127.0.0.1"
    assert is_loopback("no-such-name.invalid")
