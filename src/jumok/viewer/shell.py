"""The page of a server: it asks for its style, its script and everything else."""

from dataclasses import asdict, dataclass
from typing import Literal

from jumok.viewer.markup import script_json
from jumok.viewer.request_schema import ModelCard

NEEDS_SCRIPT = (
    "<noscript>이 페이지에는 JavaScript가 필요합니다. · This page needs JavaScript.</noscript>"
)


@dataclass(frozen=True)
class Boot:
    """How a page begins: where its trace is, and the model behind it."""

    mode: Literal["embedded", "file", "live"]
    trace: str | None = None  # by what name the server knows it
    model: ModelCard | None = None
    state: str = ""


def shell(boot: Boot) -> bytes:
    """The page of a server: its script and style are files beside it."""
    return f"""<!doctype html>
<html lang="ko">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>jumok</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="app.css">
</head>
<body>
<div id="app"></div>
{NEEDS_SCRIPT}
<script id="boot" type="application/json">{script_json(asdict(boot))}</script>
<script src="app.js"></script>
</body>
</html>
""".encode()
