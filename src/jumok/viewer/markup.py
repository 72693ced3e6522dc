"""HTML in which data stay data: what stands in a script element or an attribute cannot end it."""

import base64
import gzip
import hashlib
import html
import json

LEVEL = 9  # of gzip: a page is written once and sent often


def script_json(content: object) -> str:
    r"""JSON for inside a script element, in ASCII; no < that could close it or open a comment.

    >>> script_json({"title": "</script><!--"})
    '{"title":"\\u003c/script>\\u003c!--"}'
    """
    return json.dumps(content, separators=(",", ":")).replace("<", "\\u003c")


def packed(content: bytes) -> str:
    """base64 of gzip; the same for the same bytes, whenever it is made.

    >>> packed(b"a" * 1000) == packed(b"a" * 1000)
    True
    """
    return base64.b64encode(gzip.compress(content, LEVEL, mtime=0)).decode("ascii")


def csp_hash(text: str) -> str:
    """What a content security policy calls a script or style by: 'sha256-...'."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def escaped(text: str) -> str:
    """Text for inside an element or an attribute; half surrogate pairs become U+FFFD.

    >>> escaped('<b title="1">')
    '&lt;b title=&quot;1&quot;&gt;'
    """
    return html.escape(text.encode("utf-8", "replace").decode("utf-8"), quote=True)
