"""Chats: how messages become the prompt of a chat model.

The template of a checkpoint is a program (Jinja). It is rendered by `chat_worker`, a child process
without network and with limits on memory and time, in the sandbox that transformers uses.
"""

import json
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from jumok.errors import TokenizerError
from jumok.limited_process import ProgramError, run_program
from jumok.text.tokenizer import alternatives

Role = Literal["system", "user", "assistant"]
ROLES: tuple[Role, ...] = ("system", "user", "assistant")
MAX_MESSAGES = 10_000
MAX_SECONDS = 30  # where a process cannot limit its own CPU time, and for a busy machine

WORKER = Path(__file__).with_name("chat_worker.py")
_START, _END = "\ufdd0", "\ufdd1"  # noncharacters, around a special piece in a message
_ANSWER = "the-answer"


@dataclass(frozen=True)
class Message:
    """One message of a chat."""

    role: Role
    content: str


def parse_messages(tree: object) -> tuple[Message, ...]:
    """Messages from JSON: `[{"role": "user", "content": "..."}, ...]`, the user's last.

    >>> parse_messages([{"role": "user", "content": "안녕"}])
    (Message(role='user', content='안녕'),)
    """
    if not isinstance(tree, list) or not 1 <= len(tree) <= MAX_MESSAGES:
        n = f" of {len(tree)}" if isinstance(tree, list) else ""
        raise TokenizerError(
            "text.messages_not_a_list",
            'messages must be a list of {{"role": ..., "content": ...}}, got {kind}',
            kind=type(tree).__name__ + n,
        )
    found = tuple(_message(number, each) for number, each in enumerate(tree))
    roles = [each.role for each in found]
    turns = roles[1:] if roles[0] == "system" else roles
    expected = [ROLES[1 + number % 2] for number in range(len(turns))]
    if not turns or turns != expected or len(turns) % 2 == 0:
        raise TokenizerError(
            "text.message_order",
            "messages must be system (or none), then user and assistant in turn, user last, got "
            "{roles}",
            roles=", ".join(roles)[:80],
        )
    return found


def _message(number: int, tree: Any) -> Message:
    if not isinstance(tree, dict) or set(tree) != {"role", "content"}:
        raise TokenizerError(
            "text.message_keys",
            "message {number} must have the keys role and content, got {tree!r:.60}",
            number=number,
            tree=tree,
        )
    role, content = tree["role"], tree["content"]
    if role not in ROLES:
        raise TokenizerError(
            "text.message_role",
            "message {number}: role must be one of {roles}, got {role!r:.40}",
            number=number,
            roles=", ".join(ROLES),
            role=role,
        )
    if not isinstance(content, str):
        raise TokenizerError(
            "text.message_content",
            "message {number}: content must be a string, got {content!r:.40}",
            number=number,
            content=content,
        )
    return Message(role, content)


class ChatTokenizer(Protocol):
    """What a chat uses of a tokenizer."""

    @property
    def special_pieces(self) -> Mapping[str, int]:
        """The special pieces and their ids."""

    def encode(self, text: str) -> list[int]:
        """The ids of a text, in which nothing is special."""

    def encode_hf(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of texts, in which special pieces are special."""


@dataclass(frozen=True)
class ChatTemplate:
    """A chat template with the variables that it uses besides the messages (`bos_token`, ...)."""

    source: str
    variables: Mapping[str, str]

    def render(self, messages: Sequence[Message], *, generate: bool = True) -> str:
        """The text of a chat; with `generate`, the answer of the assistant begins at its end.

        A child process renders it, in a tenth of a second. Raises InputError for a template that is
        invalid, that refuses the messages, or that exceeds 512 MiB or 5 seconds.
        """
        rows = [{"role": each.role, "content": each.content} for each in messages]
        chat = {"messages": rows, "tools": None, "documents": None}
        request = {
            "template": self.source,
            "variables": dict(self.variables),
            "chats": [chat | {"add_generation_prompt": generate}],
        }
        with tempfile.TemporaryFile() as file:
            file.write(json.dumps(request).encode())
            file.seek(0)
            try:
                [text] = run_program(WORKER, stdin=file, timeout=MAX_SECONDS)["texts"]
            except ProgramError as error:
                raise TokenizerError(
                    "text.chat_template_failed",
                    "the chat template must render these messages, got {error}; correct it, or "
                    "give another one with --template FILE",
                    error=error,
                ) from error
        return str(text)

    def end_piece(self, tokenizer: ChatTokenizer) -> str | None:
        """The special piece that follows an answer; None for a template without one."""
        chat = [Message("user", "the-question"), Message("assistant", _ANSWER)]
        after = self.render(chat, generate=False).rpartition(_ANSWER)[2]
        found = re.match(rf"\s*({alternatives(tokenizer.special_pieces)})", after)
        return found[1] if found else None


def encode_chat(
    tokenizer: ChatTokenizer, template: ChatTemplate, messages: Sequence[Message]
) -> list[int]:
    """The token ids of the prompt for the next answer.

    Those of the whole prompt, as in transformers, if no message spells a special piece; otherwise
    each text between the template's special pieces is encoded by itself, and nothing in it is
    special.
    """
    pieces = alternatives(tokenizer.special_pieces)
    marked = [Message(each.role, _marked(tokenizer, pieces, each.content)) for each in messages]
    text = template.render(marked)
    if _START not in text and _END not in text:
        return tokenizer.encode_hf([text])[0]
    ids: list[int] = []
    plain = ""
    for part in re.split(f"({_START}(?:{pieces}){_END}|{pieces})", text):
        if part not in tokenizer.special_pieces:
            plain += part.replace(_START, "").replace(_END, "")
            continue
        ids += [*(tokenizer.encode(plain) if plain else ()), tokenizer.special_pieces[part]]
        plain = ""
    return ids + (tokenizer.encode(plain) if plain else [])


def _marked(tokenizer: ChatTokenizer, pieces: str, content: str) -> str:
    """A message with marks around the special pieces in it, which thereby are plain text."""
    content = content.replace(_START, "").replace(_END, "")
    if tokenizer.encode(content) == tokenizer.encode_hf([content])[0]:
        return content
    marked = re.sub(pieces, rf"{_START}\g<0>{_END}", content)
    return marked if marked != content else f"{_START}{content}{_END}"  # special after normalizing
