"""Chat formats as data: how messages become the prompt of a chat model.

The templates of checkpoints are programs (Jinja); none is run here. A template is recognized by the
SHA-256 of its text; for any other, the user names one of the `FORMATS`.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from jumok.errors import InputError

Role = Literal["system", "user", "assistant"]
ROLES: tuple[Role, ...] = ("system", "user", "assistant")
MAX_MESSAGES = 10_000


@dataclass(frozen=True)
class Message:
    """One message of a chat."""

    role: Role
    content: str


@dataclass(frozen=True)
class ChatFormat:
    """The text around the messages of each role, and what ends an answer.

    `special` are the pieces in the texts of the format that are special tokens; the same characters
    in a message are plain text. `before` and `after` have a text for each role.
    """

    name: str
    special: tuple[str, ...]
    before: Mapping[Role, str]
    after: Mapping[Role, str]
    ends: tuple[str, ...]  # pieces that end an answer
    start: str = ""
    default_system: str | None = None  # the system message of chats without one
    strips: bool = False  # the whitespace around each message
    merges_system: bool = False  # into the first message of the user: the format has no such role


def _each(text: str) -> Mapping[Role, str]:
    """A text for every role; {role} is its name."""
    return {role: text.format(role=role) for role in ROLES}


_CHATML = ("<|im_start|>", "<|im_end|>")
_CHATML_BEFORE, _CHATML_AFTER = _each("<|im_start|>{role}\n"), _each("<|im_end|>\n")
_HEADER = ("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>")
_TURN = ("<bos>", "<start_of_turn>", "<end_of_turn>")
_BAR = ("[|system|]", "[|user|]", "[|assistant|]", "[|endofturn|]")

FORMATS: Mapping[str, ChatFormat] = {
    each.name: each
    for each in (
        ChatFormat("chatml", _CHATML, _CHATML_BEFORE, _CHATML_AFTER, ends=("<|im_end|>",)),
        ChatFormat(
            "qwen2",
            _CHATML,
            _CHATML_BEFORE,
            _CHATML_AFTER,
            ends=("<|im_end|>",),
            default_system="You are a helpful assistant.",
        ),
        ChatFormat(
            "llama3",
            _HEADER,
            before=_each("<|start_header_id|>{role}<|end_header_id|>\n\n"),
            after=_each("<|eot_id|>"),
            ends=("<|eot_id|>",),
            start="<|begin_of_text|>",
            strips=True,
        ),
        ChatFormat(
            "gemma",
            _TURN,
            before={
                "system": "",
                "user": "<start_of_turn>user\n",
                "assistant": "<start_of_turn>model\n",
            },
            after=_each("<end_of_turn>\n"),
            ends=("<end_of_turn>",),
            start="<bos>",
            strips=True,
            merges_system=True,
        ),
        ChatFormat(
            "exaone",
            _BAR,
            before=_each("[|{role}|]"),
            after={"system": "[|endofturn|]\n", "user": "\n", "assistant": "[|endofturn|]\n"},
            ends=("[|endofturn|]",),
            default_system="",
        ),
    )
}

# SHA-256 of a template's text without the whitespace around it -> its format
TEMPLATES: Mapping[str, str] = {
    "153280e3ff55d19da1398bdb3914ee2a51b80429bfaedde11d7d216c39db80f3": "chatml",
    "793202280c0910ab26bc6eb57c8212c2417324c6d8c4efd0d10d59092ab3e3eb": "qwen2",
}


def template_format(template: str) -> ChatFormat:
    """The format of a checkpoint's chat template; InputError for an unknown one."""
    digest = hashlib.sha256(template.strip().encode()).hexdigest()
    if digest not in TEMPLATES:
        raise InputError(
            f"the chat template must be one that jumok knows, got the SHA-256 {digest[:16]}; "
            f"templates are programs and are not run: name a format with --format, one of "
            f"{', '.join(FORMATS)}"
        )
    return FORMATS[TEMPLATES[digest]]


def named_format(name: str) -> ChatFormat:
    """The format of this name.

    >>> named_format("chatml").ends
    ('<|im_end|>',)
    """
    if name not in FORMATS:
        raise InputError(f"the chat format must be one of {', '.join(FORMATS)}, got {name[:40]!r}")
    return FORMATS[name]


def parse_messages(tree: object) -> tuple[Message, ...]:
    """Messages from JSON: `[{"role": "user", "content": "..."}, ...]`, the user's last.

    >>> parse_messages([{"role": "user", "content": "안녕"}])
    (Message(role='user', content='안녕'),)
    """
    if not isinstance(tree, list) or not 1 <= len(tree) <= MAX_MESSAGES:
        raise InputError(
            'messages must be a list of {"role": ..., "content": ...}, got '
            f"{type(tree).__name__}" + (f" of {len(tree)}" if isinstance(tree, list) else "")
        )
    found = tuple(_message(number, each) for number, each in enumerate(tree))
    roles = [each.role for each in found]
    turns = roles[1:] if roles[0] == "system" else roles
    expected = [ROLES[1 + number % 2] for number in range(len(turns))]
    if not turns or turns != expected or len(turns) % 2 == 0:
        raise InputError(
            "messages must be system (or none), then user and assistant in turn, user last, got "
            f"{', '.join(roles)[:80]}"
        )
    return found


def _message(number: int, tree: Any) -> Message:
    if not isinstance(tree, dict) or set(tree) != {"role", "content"}:
        raise InputError(f"message {number} must have the keys role and content, got {tree!r:.60}")
    role, content = tree["role"], tree["content"]
    if role not in ROLES:
        raise InputError(
            f"message {number}: role must be one of {', '.join(ROLES)}, got {role!r:.40}"
        )
    if not isinstance(content, str):
        raise InputError(f"message {number}: content must be a string, got {content!r:.40}")
    return Message(role, content)


@dataclass
class Prompt:
    """Parts of a prompt: special pieces, and the text between them."""

    parts: list[tuple[str, bool]] = field(default_factory=list)  # text, whether a special piece

    def add(self, text: str, special: bool = False) -> None:
        """Append text, which continues the text before it, or a special piece."""
        if not special and self.parts and not self.parts[-1][1]:
            text = self.parts.pop()[0] + text
        if text:
            self.parts.append((text, special))


def prompt_parts(form: ChatFormat, messages: Sequence[Message]) -> list[tuple[str, bool]]:
    r"""The prompt for the next answer: texts, each with whether it is a special piece.

    Only the format's own pieces are special, never what a message contains.

    >>> prompt_parts(FORMATS["chatml"], [Message("user", "a<|im_end|>")])[:3]
    [('<|im_start|>', True), ('user\na<|im_end|>', False), ('<|im_end|>', True)]
    """
    prompt = Prompt()
    splitter = re.compile("(" + "|".join(map(re.escape, form.special)) + ")")

    def add_own(text: str) -> None:
        for part in splitter.split(text):
            prompt.add(part, part in form.special)

    system = form.default_system
    if messages[0].role == "system":
        system, messages = messages[0].content, messages[1:]
    add_own(form.start)
    if system is not None and not form.merges_system:
        messages = [Message("system", system), *messages]
    for number, each in enumerate(messages):
        content = each.content.strip() if form.strips else each.content
        add_own(form.before[each.role])
        if form.merges_system and system is not None and number == 0:
            prompt.add(system + "\n\n")
        prompt.add(content)
        add_own(form.after[each.role])
    add_own(form.before["assistant"])
    return prompt.parts


class ChatTokenizer(Protocol):
    """What a chat uses of a tokenizer."""

    def encode(self, text: str) -> list[int]:
        """The ids of a text, in which nothing is special."""

    def id(self, piece: str) -> int:
        """The id of a piece; InputError for an unknown one."""


def encode_chat(
    tokenizer: ChatTokenizer, form: ChatFormat, messages: Sequence[Message]
) -> list[int]:
    """The token ids of the prompt for the next answer.

    Raises InputError for a tokenizer without the pieces of the format.
    """
    ids: list[int] = []
    for text, special in prompt_parts(form, messages):
        ids += [tokenizer.id(text)] if special else tokenizer.encode(text)
    return ids
