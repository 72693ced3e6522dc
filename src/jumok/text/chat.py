"""Chat formats as data: how messages become the prompt of a chat model.

The templates of checkpoints are programs (Jinja); none is run here. A template is recognized by the
SHA-256 of its text; for any other, the user names one of the `FORMATS`.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Literal, Protocol

from jumok.errors import InputError

Role = Literal["system", "user", "assistant"]
ROLES: tuple[Role, ...] = ("system", "user", "assistant")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
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
    in a message are plain text. `before` and `after` have a text for each role, in which `{today}`
    is the date.
    """

    name: str
    special: tuple[str, ...]
    before: Mapping[Role, str]
    after: Mapping[Role, str]
    ends: tuple[str, ...]  # pieces that end an answer
    start: str = ""
    optional: tuple[str, ...] = ()  # those of `special` that are plain text in older vocabularies
    default_system: str | None = None  # the system message of chats without one
    strips: bool = False  # the whitespace around each message
    system: Literal["role", "merged", "none"] = "role"  # merged: into the first message of the user
    thought_end: str | None = None  # earlier answers are kept from behind it
    strips_rest: bool = False  # the whitespace around what is kept of them; else newlines before it
    generation: str | None = None  # what begins the next answer, if other than before["assistant"]


def _each(text: str) -> Mapping[Role, str]:
    """A text for every role; {role} is its name."""
    return {role: text.replace("{role}", role) for role in ROLES}


def _chatml(name: str, default_system: str | None, thought_end: str | None = None) -> ChatFormat:
    return ChatFormat(
        name,
        ("<|im_start|>", "<|im_end|>"),
        before=_each("<|im_start|>{role}\n"),
        after=_each("<|im_end|>\n"),
        ends=("<|im_end|>",),
        default_system=default_system,
        thought_end=thought_end,
    )


def _llama3(name: str, head: str | None = None) -> ChatFormat:
    """With a `head`, each chat begins with a system message that begins with it."""
    before = _each("<|start_header_id|>{role}<|end_header_id|>\n\n")
    return ChatFormat(
        name,
        ("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
        before=before if head is None else {**before, "system": before["system"] + head},
        after=_each("<|eot_id|>"),
        ends=("<|eot_id|>",),
        start="<|begin_of_text|>",
        default_system=None if head is None else "",
        strips=True,
    )


def _mistral(
    name: str,
    *,
    user: tuple[str, str],
    assistant: tuple[str, str],
    system: tuple[str, str] = ("", ""),
    has_system: Literal["role", "merged", "none"] = "role",
) -> ChatFormat:
    """Each pair is the text before and after the messages of a role."""
    own = ("[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]") if has_system == "role" else ()
    pieces = ("[INST]", "[/INST]", *own)
    return ChatFormat(
        name,
        ("<s>", "</s>", *pieces),
        before={"system": system[0], "user": user[0], "assistant": assistant[0]},
        after={"system": system[1], "user": user[1], "assistant": assistant[1]},
        ends=("</s>",),
        start="<s>",
        optional=pieces,
        system=has_system,
        generation="",
    )


_KNOWLEDGE = "Cutting Knowledge Date: December 2023\nToday Date: "
_BAR = ("[|system|]", "[|user|]", "[|assistant|]", "[|endofturn|]")

FORMATS: Mapping[str, ChatFormat] = {
    each.name: each
    for each in (
        _chatml("chatml", None),
        _chatml("qwen2", "You are a helpful assistant."),
        _chatml("qwen2.5", "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."),
        _chatml("qwen3", None, thought_end="</think>"),
        _chatml("smollm2", "You are a helpful AI assistant named SmolLM, trained by Hugging Face"),
        _llama3("llama3"),
        _llama3("llama3.1", _KNOWLEDGE + "26 Jul 2024\n\n"),
        _llama3("llama3.2", _KNOWLEDGE + "{today}\n\n"),
        ChatFormat(
            "gemma",
            ("<bos>", "<start_of_turn>", "<end_of_turn>"),
            before={
                "system": "",
                "user": "<start_of_turn>user\n",
                "assistant": "<start_of_turn>model\n",
            },
            after=_each("<end_of_turn>\n"),
            ends=("<end_of_turn>",),
            start="<bos>",
            strips=True,
            system="merged",
        ),
        ChatFormat(
            "exaone",
            _BAR,
            before=_each("[|{role}|]"),
            after={"system": "[|endofturn|]\n", "user": "\n", "assistant": "[|endofturn|]\n"},
            ends=("[|endofturn|]",),
            default_system="",
        ),
        ChatFormat(
            "exaone4",
            _BAR,
            before={
                "system": "[|system|]\n",
                "user": "[|user|]\n",
                "assistant": "[|assistant|]\n<think>\n\n</think>\n\n",  # answers without thoughts
            },
            after=_each("[|endofturn|]\n"),
            ends=("[|endofturn|]",),
            thought_end="</think>",
            strips_rest=True,
        ),
        _mistral(
            "mistral",
            user=(" [INST] ", " [/INST]"),
            assistant=(" ", "</s>"),
            has_system="merged",
        ),
        _mistral(
            "mistral-v0.1",
            user=("[INST] ", " [/INST]"),
            assistant=("", "</s> "),
            has_system="none",
        ),
        _mistral(
            "mistral-v7",
            user=("[INST] ", "[/INST]"),
            assistant=(" ", "</s>"),
            system=("[SYSTEM_PROMPT] ", "[/SYSTEM_PROMPT]"),
        ),
        _mistral(
            "mistral-v7-tekken",
            user=("[INST]", "[/INST]"),
            assistant=("", "</s>"),
            system=("[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"),
        ),
    )
}

# SHA-256 of a template's text without the whitespace around it -> its format
TEMPLATES: Mapping[str, str] = {
    "58c1a1f04baa7adaeaba1f90267c3d57d9396f0c1f0129bdde9e76d3c6784af7": "chatml",
    "153280e3ff55d19da1398bdb3914ee2a51b80429bfaedde11d7d216c39db80f3": "chatml",
    "793202280c0910ab26bc6eb57c8212c2417324c6d8c4efd0d10d59092ab3e3eb": "qwen2",
    "55b2f4a26ac9ee719330a61a0c39d9e538b0e9322212f048326318cff4f8674a": "qwen2.5",
    "4e9918361c284a93880606d182d64da6a9fe97cdc1f5c5a78c1c8840444246fc": "qwen2.5",
    "87a2728cb8dc9fe424d624542f6060ec05a1d285ebbec578bb078900e33396b5": "qwen3",
    "872be49dbb638044ad01b60388f48d469ff2980e5f0dccdc22ec907db54d0788": "smollm2",
    "ba03a121d097859c7b5b9cd03af99aafe95275210d2876f642ad9929a150f122": "llama3",
    "93c0e9aa3629bbd77e68dbc0f5621f6e6b23aa8d74b932595cdb8d64684526d7": "llama3.1",
    "d82792f95932f1c9cef5c4bd992f171225e3bf8c7b609b4557c9e1ec96be819f": "llama3.2",
    "85be955460e4cbe4ef52f0288eec237909dfa5a6641364def318dc4bfeae1952": "gemma",
    "8d9e3a3c114fb2053ec500184677af4f7e5f8ec2582443cd535834e68b3ade29": "gemma",
    "627e212836e41c6231988b4ae595a16ddfd7814d2c39fd7bf3105651f8bbeebd": "exaone",
    "de64119ec8394ec3619221283a05fc8019c9a319cbdf2a471fe1ee8c36119616": "exaone4",
    "bbc58aad99454df60138be9530c9601a0adfe3d8932cda975e1f10b2410ddc51": "mistral",
    "7e995b379ec01747807246483647cd99030abf331653f1119e16d7ac041a3495": "mistral-v0.1",
    "3c4ad5fa60dd8c7ccdf82fa4225864c903e107728fcaf859fa6052cb80c92ee9": "mistral-v7",
    "d99c0a28fd4eebd7ba2cc0309651f6d7c5486024989bc42f6bb4cc558d553689": "mistral-v7-tekken",
}


def template_format(template: str) -> ChatFormat:
    """The format of a checkpoint's chat template; InputError for an unknown one."""
    digest = hashlib.sha256(template.strip().encode()).hexdigest()
    if digest not in TEMPLATES:
        raise InputError(
            f"the chat template must be one of the {len(TEMPLATES)} that jumok recognizes, got the "
            f"SHA-256 {digest[:16]}; templates are programs and are not run: name a format with "
            f"--format, one of {', '.join(FORMATS)}"
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

    Only the format's own pieces are special, never what a message contains. Raises InputError for a
    system message in a format without one.

    >>> prompt_parts(FORMATS["chatml"], [Message("user", "a<|im_end|>")])[:3]
    [('<|im_start|>', True), ('user\na<|im_end|>', False), ('<|im_end|>', True)]
    """
    prompt = Prompt()
    splitter = re.compile("(" + "|".join(map(re.escape, form.special)) + ")")
    today = f"{date.today():%d} {_MONTHS[date.today().month - 1]} {date.today():%Y}"

    def add_own(text: str) -> None:
        for part in splitter.split(text.replace("{today}", today)):
            prompt.add(part, part in form.special)

    system = form.default_system
    if messages[0].role == "system":
        system, messages = messages[0].content, messages[1:]
        if form.system == "none":
            raise InputError(
                f"the chat format {form.name} has no system message, got one; leave it out, or put "
                "it into the first message of the user"
            )
    add_own(form.start)
    if system is not None and form.system == "role":
        messages = [Message("system", system), *messages]
    for number, each in enumerate(messages):
        content = each.content
        if form.thought_end and each.role == "assistant" and form.thought_end in content:
            content = content.rpartition(form.thought_end)[2]
            content = content.strip() if form.strips_rest else content.lstrip("\n")
        add_own(form.before[each.role])
        if form.system == "merged" and system is not None and number == 0:
            prompt.add(system + "\n\n")
        prompt.add(content.strip() if form.strips else content)
        add_own(form.after[each.role])
    add_own(form.before["assistant"] if form.generation is None else form.generation)
    return prompt.parts


class ChatTokenizer(Protocol):
    """What a chat uses of a tokenizer."""

    def encode(self, text: str) -> list[int]:
        """The ids of a text, in which nothing is special."""

    def encode_hf(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of texts, in which special pieces are special."""

    def id(self, piece: str) -> int:
        """The id of a piece; InputError for an unknown one."""


def encode_chat(
    tokenizer: ChatTokenizer, form: ChatFormat, messages: Sequence[Message]
) -> list[int]:
    """The token ids of the prompt for the next answer.

    Those of the whole prompt, as in transformers, if no message spells a special piece; otherwise
    each text between the format's own pieces is encoded by itself, and nothing in it is special.
    Raises InputError for a tokenizer without the pieces of the format.
    """
    missing = {piece for piece in form.optional if not _has(tokenizer, piece)}
    prompt = Prompt()
    for text, special in prompt_parts(form, messages):
        prompt.add(text, special and text not in missing)
    plain = [text for text, special in prompt.parts if not special]
    own = [tokenizer.id(text) for text, special in prompt.parts if special]
    encoded = [tokenizer.encode(text) for text in plain]
    if encoded == tokenizer.encode_hf(plain):  # no message spells a special piece
        [whole] = tokenizer.encode_hf(["".join(text for text, _ in prompt.parts)])
        if [i for i in whole if i in set(own)] == own:
            return whole
    texts = iter(encoded)
    return [
        i
        for text, special in prompt.parts
        for i in ([tokenizer.id(text)] if special else next(texts))
    ]


def _has(tokenizer: ChatTokenizer, piece: str) -> bool:
    try:
        tokenizer.id(piece)
    except InputError:
        return False
    return True
