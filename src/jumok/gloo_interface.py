"""The network interface of gloo, for processes on several machines.

gloo connects to the address of the machine's name. Debian and Ubuntu resolve that to 127.0.1.1,
which no other machine reaches.
"""

import ipaddress
import os
import socket
import struct
from collections.abc import Mapping

from jumok.errors import InputError

VARIABLE = "GLOO_SOCKET_IFNAME"
_SIOCGIFADDR = 0x8915  # of Linux: the IPv4 address of an interface
_ELSEWHERE = "192.0.2.1"  # an address of documentation (RFC 5737): nothing is sent to it


def find_interface(environ: Mapping[str, str], name: str | None = None) -> str | None:
    """The interface that gloo must use, None if its own choice is right.

    With processes on several machines, a machine whose `name` (default: its host name) has a
    loopback address needs the interface that reaches the first machine. Raises InputError if it
    cannot be found.
    """
    one_machine = environ.get("LOCAL_WORLD_SIZE") == environ.get("WORLD_SIZE")
    if one_machine or VARIABLE in environ or not is_loopback(name or socket.gethostname()):
        return None
    targets = (environ.get("MASTER_ADDR", ""), _ELSEWHERE)
    addresses = map(_own_address, targets)
    usable = [each for each in addresses if each and not is_loopback(each)]
    interfaces = interface_addresses()
    found = [each for each, address in interfaces.items() if address in usable[:1]]
    others = [each for each, address in interfaces.items() if not is_loopback(address)]
    if not found and len(others) == 1:
        found = others
    if not found:
        raise InputError(
            "process.no_interface",
            "the name of this machine must have an address that other machines reach, got a "
            "loopback address (127.0.1.1 in /etc/hosts?); set {variable} to one of its "
            "interfaces: {interfaces}",
            variable=VARIABLE,
            interfaces=", ".join(others) or "none has an IPv4 address",
        )
    return found[0]


def set_interface() -> None:
    """Set the variable of gloo where its own choice would be a loopback address."""
    if "LOCAL_WORLD_SIZE" in os.environ and (found := find_interface(os.environ)) is not None:
        os.environ[VARIABLE] = found


def is_loopback(host: str) -> bool:
    """Whether a name or an address is that of this machine only, or unknown.

    >>> is_loopback("127.0.1.1"), is_loopback("192.0.2.7")
    (True, False)
    """
    try:
        return ipaddress.ip_address(socket.gethostbyname(host)).is_loopback
    except OSError:
        return True


def interface_addresses() -> dict[str, str]:
    """The IPv4 address of each interface that has one; on Linux."""
    import fcntl

    found = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            try:
                request = struct.pack("256s", name.encode())
                reply = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, request)
            except OSError:
                continue
            found[name] = socket.inet_ntoa(reply[20:24])
    return found


def _own_address(target: str) -> str | None:
    """The address from which packets to a target would be sent."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((target, 9))  # sends nothing
            return str(probe.getsockname()[0])
    except OSError:
        return None
