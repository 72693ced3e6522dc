"""Exit with 0 if a route of the server on this machine answers with 200: a probe of a container.

python -m jumok.serving.probe [/ready [TOKEN_FILE [PORT]]]
"""

import http.client
import sys
from pathlib import Path

SECONDS = 4.0


def probe(path: str = "/ready", token_file: str = "", port: str = "8000") -> bool:
    """Whether the route answers with 200."""
    headers = {}
    if token_file:
        token = Path(token_file).read_text(encoding="ascii").strip()
        headers["Authorization"] = f"Bearer {token}"
    caller = http.client.HTTPConnection("127.0.0.1", int(port), timeout=SECONDS)
    try:
        caller.request("GET", path, headers=headers)
        return caller.getresponse().status == 200
    except OSError:
        return False
    finally:
        caller.close()


if __name__ == "__main__":
    sys.exit(not probe(*sys.argv[1:]))
