"""The HTML templates of the page; autoescaping keeps data out of the markup."""

from functools import lru_cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

FOLDER = Path(__file__).parent / "templates"


def render_template(name: str, **context: object) -> bytes:
    r"""Render a template; half surrogate pairs become "?".

    >>> page = render_template("server.html", boot={"title": "</script><!--"}).decode()
    >>> page[page.index('{"title') :].splitlines()[0]
    '{"title":"\\u003c/script\\u003e\\u003c!--"}</script>'
    """
    return _environment().get_template(name).render(context).encode("utf-8", "replace")


@lru_cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    return environment
