"""The page as one file that needs nothing but itself."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from pathlib import Path

from jumok.interpret.schema import TraceInfo
from jumok.interpret.trace import Trace
from jumok.viewer.compact import compact_trace
from jumok.viewer.font_subset import subset
from jumok.viewer.markup import csp_hash, escaped, packed, script_json
from jumok.viewer.shell import NEEDS_SCRIPT
from jumok.viewer.static_files import VIEW_SCRIPTS, static_file
from jumok.viewer.view_state import ViewState, normalize_state

MAX_WHOLE_WEIGHTS = 2**16  # weights: a trace of so few is embedded whole,
MAX_WHOLE_TRACE = 4_000_000  # if that takes no more characters
MAX_CORE_PAGE = (
    195_000  # characters of the page of another one, with the views that need weights alone,
)
MAX_FULL_PAGES = (998_000, 9_998_000)  # or else with all views: the first of these that can be kept

CORE_SCRIPTS = ("app.js",)
CORE_VIEWS = ("lines", "matrix")  # the views of app.js
ALL_SCRIPTS = ("app.js", *VIEW_SCRIPTS)


def render_page(trace: Trace, state: str = "", full: bool = False) -> bytes:
    """One file that opens from disk, or in a sandboxed frame, and asks nobody for anything.

    A trace of many heads is embedded in part, exact for the layers that `state` shows (`lean`
    says how), or for as many of them as the largest page has room for; with `full` whole. The
    same trace gives the same bytes. Raises InputError for a state that is none.
    """
    state = normalize_state(state)
    seen = ViewState.parse(state)
    layers = seen.layers(trace.info)
    everything = _Shell(trace.info, state, ALL_SCRIPTS)
    if full or _weights(trace.info) <= MAX_WHOLE_WEIGHTS:
        whole = packed(trace.to_bytes())
        if full or len(whole) <= MAX_WHOLE_TRACE:
            return everything.around(whole)
    few = _Shell(trace.info, state, CORE_SCRIPTS)
    tries = [(few, layers, MAX_CORE_PAGE)] if seen.view in CORE_VIEWS else []
    tries += [(everything, layers, most) for most in MAX_FULL_PAGES]
    tries += [(everything, fewer, MAX_FULL_PAGES[-1]) for fewer in (layers[:1], [])]
    for shell, exact, most in tries:
        if (part := _packed_within(trace, exact, most - len(shell.around("")))) is not None:
            return shell.around(part)
    thumbnails = compact_trace(trace, (), inf, more=False)
    assert thumbnails is not None  # there is room for everything
    return everything.around(packed(thumbnails))


@dataclass(frozen=True)
class _Shell:
    """A page but for its trace: style, scripts and font, zipped, and what unzips them."""

    info: TraceInfo
    state: str
    scripts: tuple[str, ...]

    @cached_property
    def script(self) -> str:
        """The page's script, and those of its parts, which are then fetched from nowhere."""
        return "\n".join(static_file(name).content.decode() for name in self.scripts)

    @cached_property
    def style(self) -> str:
        """The page's style; the font comes with the page and needs no rule."""
        return re.sub(r"@font-face\s*{[^}]*}", "", static_file("app.css").content.decode())

    @cached_property
    def loader(self) -> str:
        """What unzips the others."""
        return Path(__file__).with_name("unpack.js").read_text(encoding="utf-8")

    @cached_property
    def packed_parts(self) -> str:
        """Style, script and font, each in an element of its own."""
        texts = json.dumps(json.loads(self.info.to_json()), ensure_ascii=False)
        contents = {
            "packed-style": self.style.encode(),
            "packed-script": self.script.encode(),
            "packed-font": subset(texts + self.script),
        }
        return "\n".join(
            f'<script id="{name}" type="text/plain">{packed(content)}</script>'
            for name, content in contents.items()
        )

    @property
    def policy(self) -> str:
        """Nothing may run, or be asked for, but what stands in the page."""
        return "; ".join(
            [
                "default-src 'none'",
                f"script-src {csp_hash(self.loader)} {csp_hash(self.script)}",
                f"style-src {csp_hash(self.style)}",
                "img-src blob: data:",
                "base-uri 'none'",
                "form-action 'none'",
                "require-trusted-types-for 'script'",
                "trusted-types jumok",
            ]
        )

    def around(self, trace: str) -> bytes:
        """The page with a trace, base64 of gzip."""
        boot = {"mode": "embedded", "state": self.state}
        return f"""<!doctype html>
<html lang="ko">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{self.policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{escaped(self.info.title)} · jumok</title>
<link rel="icon" href="data:,">
</head>
<body>
<div id="app"></div>
{NEEDS_SCRIPT}
<script id="boot" type="application/json">{script_json(boot)}</script>
<script id="trace" type="text/plain">{trace}</script>
{self.packed_parts}
<script>{self.loader}</script>
</body>
</html>
""".encode()


def _packed_within(trace: Trace, layers: Sequence[tuple[str, int]], most: int) -> str | None:
    """Part of a trace as a page embeds it, of `most` characters at most; None: there is none.

    `lean` reckons its tensors one by one; what it misses by is taken off its next try.
    """
    room = most
    while (part := compact_trace(trace, layers, room)) is not None:
        text = packed(part)
        if len(text) <= most:
            return text
        room -= len(text) - most
    return None


def _weights(info: TraceInfo) -> int:
    """How many weights all heads have together."""
    return info.sequences * sum(
        block.layers * block.heads * len(info.tokens(block.queries)) * len(info.tokens(block.keys))
        for block in info.blocks
    )
