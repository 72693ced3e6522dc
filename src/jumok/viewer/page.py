"""The page as one standalone HTML file."""

import base64
import gzip
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from math import inf
from pathlib import Path
from urllib.parse import parse_qsl

from jumok.interpret.schema import TraceInfo
from jumok.interpret.trace import Trace
from jumok.viewer.compact import compact_trace
from jumok.viewer.font_subset import subset
from jumok.viewer.live_page import PageModel, page_model
from jumok.viewer.static_files import VIEW_SCRIPTS, static_file
from jumok.viewer.templating import render_template
from jumok.viewer.view_state import ViewState, first_view, normalize_state

# A trace with few weights is embedded whole if the page stays small, or if the page opens on the
# view that computes every number again.
MAX_WHOLE_WEIGHTS = 2**17
MAX_WHOLE_CALCULATION = 4_000_000  # characters
# Otherwise a compact trace is embedded in the first page size that it fits: without (unless all
# weights are few) or with the scripts that views load on demand.
MAX_CORE_PAGE = 218_000  # characters
MAX_FULL_PAGES = (798_000, 9_998_000)

CORE_SCRIPTS = ("app.js",)
CORE_VIEWS = ("lines", "matrix")  # the views in app.js
ALL_SCRIPTS = ("app.js", *VIEW_SCRIPTS)
LIVE_SCRIPT = "live.js"

GZIP_LEVEL = 9


def render_page(trace: Trace, state: str = "", full: bool = False, live: bool = False) -> bytes:
    """One HTML file that works from disk or in a sandboxed frame, without network requests.

    Of a large trace, a compact copy is embedded (see `compact_trace`): exact for the layers that
    `state` shows, or for as many of them as the largest page holds. With `full`, the whole trace is
    embedded. Without a view in `state`, a page with all scripts opens on the view of the task.
    Equal traces give equal bytes. A `live` page has the whole trace and the weights of its model,
    and runs the model itself. Raises InputError for an invalid state, for a trace without its
    model, as one from a file, and for a model that the page does not compute.
    """
    state = normalize_state(state)
    full = full or live
    few = _weights(trace.info) <= MAX_WHOLE_WEIGHTS
    if (full or few) and "v" not in dict(parse_qsl(state)):
        state = "&".join(filter(None, (first_view(trace.info), state)))
    shown = ViewState.parse(state)
    layers = shown.layers(trace.info)
    model = page_model(trace) if live else None
    scripts = ALL_SCRIPTS if model is None else (*ALL_SCRIPTS, LIVE_SCRIPT)
    full_page = _Page(trace.info, state, scripts, model)
    if full or few:
        whole = full_page.render(_gzip_base64(trace.to_bytes()))
        limit = MAX_WHOLE_CALCULATION if shown.view == "calculation" else MAX_FULL_PAGES[0]
        if full or len(whole) <= limit:
            return whole
    core = trace.with_info(replace(trace.info, lens=None, circuit=None))  # of other views
    core_page = _Page(core.info, state, CORE_SCRIPTS)
    small = not few and shown.view in CORE_VIEWS
    candidates = [(core_page, core, layers, MAX_CORE_PAGE)] if small else []
    candidates += [(full_page, trace, layers, size) for size in MAX_FULL_PAGES]
    candidates += [(full_page, trace, fewer, MAX_FULL_PAGES[-1]) for fewer in (layers[:1], [])]
    for page, part, exact, size in candidates:
        content = _compact_within(part, exact, size - len(page.render("")))
        if content is not None:
            return page.render(content)
    thumbnails = compact_trace(trace, (), inf, more=False)
    assert thumbnails is not None  # the size is not limited
    return full_page.render(_gzip_base64(thumbnails))


@dataclass(frozen=True)
class _Page:
    """A page without its trace: style, scripts and font, compressed, and the script to unpack."""

    info: TraceInfo
    state: str
    scripts: tuple[str, ...]
    model: PageModel | None = None  # that the page runs

    @cached_property
    def script(self) -> str:
        """The scripts in one; with those of the views, nothing is loaded on demand."""
        return "\n".join(static_file(name).content.decode() for name in self.scripts)

    @cached_property
    def style(self) -> str:
        """The style without @font-face."""
        return _without_font(static_file("app.css").content.decode())

    @cached_property
    def loader(self) -> str:
        """The script that unpacks the others."""
        return _loader()

    @cached_property
    def assets(self) -> dict[str, str]:
        """Element id -> compressed style, script and font."""
        texts = json.dumps(json.loads(self.info.to_json()), ensure_ascii=False)
        contents = {
            "packed-style": self.style.encode(),
            "packed-script": self.script.encode(),
            "packed-font": subset(texts + self.script),
        }
        if self.model is not None:  # a user may type any syllable
            contents["packed-font"] = static_file("JumokHangul.woff2").content
            contents["packed-model"] = self.model.packed
            contents["packed-kernel"] = static_file("kernel.wasm").content
        return {name: _gzip_base64(content) for name, content in contents.items()}

    @property
    def policy(self) -> str:
        """The content security policy: only what the page contains may run or load."""
        live = self.model is not None
        return content_policy(self.loader, self.script, self.style, webassembly=live)

    @property
    def live(self) -> dict[str, object]:
        """The description of the model that the page runs."""
        return {} if self.model is None else {"model": asdict(self.model.card)}

    def render(self, trace: str) -> bytes:
        """The page with a trace (gzip, then base64)."""
        return render_template(
            "standalone.html",
            policy=self.policy,
            title=self.info.title,
            boot={"mode": "embedded", "state": self.state, **self.live},
            assets={"trace": trace, **self.assets},
            loader=self.loader,
        )


def render_model_page(title: str, model: bytes, kernel: bytes) -> bytes:
    """One HTML file that runs a packed model in the C++ kernel as WebAssembly, without network.

    It has the whole Hangul font (234 kB): a user may type any syllable. Equal arguments give equal
    bytes.
    """
    script, style = (static_file(name).content.decode() for name in ("model.js", "model.css"))
    style = _without_font(style)
    contents = {
        "packed-model": model,
        "packed-kernel": kernel,
        "packed-style": style.encode(),
        "packed-script": script.encode(),
        "packed-font": static_file("JumokHangul.woff2").content,
    }
    loader = _loader()
    return render_template(
        "standalone.html",
        policy=content_policy(loader, script, style, webassembly=True),
        title=title,
        boot={"mode": "model", "state": ""},
        assets={name: _gzip_base64(content) for name, content in contents.items()},
        loader=loader,
    )


def content_policy(loader: str, script: str, style: str, *, webassembly: bool = False) -> str:
    """The content security policy: only what the page contains may run or load."""
    compiled = " 'wasm-unsafe-eval'" if webassembly else ""
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src {csp_hash(loader)} {csp_hash(script)}{compiled}",
            f"style-src {csp_hash(style)}",
            "img-src blob: data:",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types jumok",
        ]
    )


def _without_font(style: str) -> str:
    """The style without @font-face: the font is embedded."""
    return re.sub(r"@font-face\s*{[^}]*}", "", style)


def _loader() -> str:
    """The script that unpacks the others."""
    return Path(__file__).with_name("unpack.js").read_text(encoding="utf-8")


def csp_hash(text: str) -> str:
    """The source expression of an inline script or style: 'sha256-...'."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def _gzip_base64(content: bytes) -> str:
    """base64 of gzip; deterministic.

    >>> _gzip_base64(b"a" * 1000) == _gzip_base64(b"a" * 1000)
    True
    """
    return base64.b64encode(gzip.compress(content, GZIP_LEVEL, mtime=0)).decode("ascii")


def _compact_within(trace: Trace, layers: Sequence[tuple[str, int]], size: int) -> str | None:
    """A compact trace of at most `size` characters; None if it does not fit.

    `compact_trace` only estimates the size; an excess is subtracted from the next limit.
    """
    limit = size
    while (part := compact_trace(trace, layers, limit)) is not None:
        text = _gzip_base64(part)
        if len(text) <= size:
            return text
        limit -= len(text) - size
    return None


def _weights(info: TraceInfo) -> int:
    """The number of attention weights of all heads."""
    return info.sequences * sum(
        block.layers * block.heads * len(info.tokens(block.queries)) * len(info.tokens(block.keys))
        for block in info.blocks
    )
