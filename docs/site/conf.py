"""Sphinx configuration of the site; `python docs/site/build.py` generates its sources first."""

import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from docstrings import to_rest  # noqa: E402
from korean_search import KoreanSearch  # noqa: E402
from pygments.lexers import JavascriptLexer  # noqa: E402
from sphinx.application import Sphinx  # noqa: E402
from sphinx.util import logging  # noqa: E402

project = "jumok (주목)"
author = "jumok"
language = "ko"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode", "mathml"]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 4
myst_links_external_new_tab = False
suppress_warnings = ["myst.xref_missing"]  # anchors of other projects' documents

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
python_display_short_literal_types = True

html_theme = "furo"
html_title = "jumok (주목)"
html_math_renderer = "mathml"
html_favicon = str(HERE / "static/favicon.svg")  # else a browser asks for favicon.ico
html_static_path = [
    str(HERE / "static"),
    str(HERE.parents[1] / "src/jumok/viewer/static/JumokHangul.woff2"),
]
html_css_files = ["jumok.css"]
html_search_language = "ko"
html_search_scorer = str(HERE / "scorer.js")
html_sidebars = {"_modules/**": []}  # of 80 pages of source code
html_use_index = False
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False
html_theme_options = {"footer_icons": [], "navigation_with_keys": True}
pygments_style = "xcode"
pygments_dark_style = "github-dark"


def _docstring(
    app: Sphinx, what: str, name: str, found: object, options: object, lines: list[str]
) -> None:
    lines[:] = to_rest(lines)


def _missing(app: Sphinx, env: object, node: Any, content: Any) -> None:
    """Warn about a link of a page to an object that the reference lacks."""
    if not node["refdoc"].startswith("api/") and str(node["reftarget"]).startswith("jumok."):
        logging.getLogger(__name__).warning(
            "%s is not in the reference; add its module to docs/site/build.py",
            node["reftarget"],
            location=node,
        )


def setup(app: Sphinx) -> None:
    """Connect the parts of this folder."""
    app.add_search_language(KoreanSearch)
    app.add_lexer("jsonc", JavascriptLexer)
    app.connect("autodoc-process-docstring", _docstring)
    app.connect("missing-reference", _missing)
