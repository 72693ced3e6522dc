"""The worker process of `chat`: a program that renders a chat template as transformers does.

The library never imports it, and it imports nothing of the library but `process_limits`. Standard
input is a JSON object: `template`, `chats` (the variables of each rendering) and `variables` (those
of all). It first drops its network and sets limits, which only Linux allows. It prints one JSON
object: `{"texts": [...]}` or `{"error": reason}`.
"""

import json
import sys
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NoReturn

CPU_SECONDS = 5
_MIB = 2**20


def limit() -> None:
    """Drop the network, and limit memory and time."""
    from jumok.process_limits import drop_network, set_limits

    drop_network()
    set_limits(address_space=512 * _MIB, cpu_seconds=CPU_SECONDS, file_bytes=64 * _MIB)


def render(request: Mapping[str, Any]) -> Mapping[str, object]:
    """Render the chats of a request; whatever the template raises is reported."""
    try:
        template = compile_template(request["template"])
        chats = [request["variables"] | chat for chat in request["chats"]]
        return {"texts": [template.render(chat) for chat in chats]}
    except MemoryError:
        return {"error": "it needs too much memory"}
    except Exception as error:  # the library passes on those of the template's expressions
        return {"error": " ".join(f"{type(error).__name__}: {error}"[:300].split())}


def compile_template(source: str) -> Any:
    """The template in an environment like that of apply_chat_template of transformers."""
    from jinja2 import TemplateError, nodes
    from jinja2.ext import Extension, loopcontrols
    from jinja2.parser import Parser
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """{% generation %} ... {% endgeneration %} around answers, for masks of training."""

        tags = {"generation"}  # noqa: RUF012  (the library's declaration)

        def parse(self, parser: Parser) -> nodes.Node:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return nodes.Scope(body, lineno=line)

    def raise_exception(message: str) -> NoReturn:
        raise TemplateError(message)

    def tojson(
        value: object,
        ensure_ascii: bool = False,
        indent: int | None = None,
        separators: tuple[str, str] | None = None,
        sort_keys: bool = False,
    ) -> str:
        return json.dumps(
            value,
            ensure_ascii=ensure_ascii,
            indent=indent,
            separators=separators,
            sort_keys=sort_keys,
        )

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = lambda pattern: datetime.now().strftime(pattern)
    return environment.from_string(source)


if __name__ == "__main__":
    if sys.platform == "linux":
        limit()
    print(json.dumps(render(json.load(sys.stdin))))
