"""A child process has no network."""

import socket
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has these limits")


def test_no_network() -> None:
    program = """
import socket, sys
from jumok.process_limits import drop_network
dropped = drop_network()
try:
    socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=5)
except OSError:
    print("none", dropped)
else:
    print("some", dropped)
"""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        command = [sys.executable, "-c", program, port]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    if done.stdout == "some False\n":
        pytest.skip("this system does not allow network namespaces")
    assert done.stdout == "none True\n"
