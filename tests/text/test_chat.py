"""Chat templates are rendered as transformers renders them, in a process with limits."""

import json
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from jumok.errors import InputError
from jumok.text.chat import ChatTemplate, Message, encode_chat, parse_messages
from jumok.text.chat_worker import render
from jumok.text.pretrained import load_tokenizer
from tests.combinations import slow

CHATML = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] "
    "+ '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
QWEN2 = CHATML.replace(
    "{{'<|im_start|>' + message",
    "{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\n"
    "You are a helpful assistant.<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message",
)
LLAMA3 = (
    "{% for message in messages %}{% if loop.first %}{{ bos_token }}{% endif %}"
    "{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' "
    "+ message['content'] | trim + '<|eot_id|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}"
    "{% endif %}"
)
GEMMA = (
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}"
    "{% set first = messages[0]['content'] + '\n\n' %}{% set rest = messages[1:] %}{% else %}"
    "{% set first = '' %}{% set rest = messages %}{% endif %}{% for message in rest %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}"
    "{{ '<start_of_turn>' + ('model' if message['role'] == 'assistant' else message['role']) + '\n'"
    " + (first if loop.first else '') + message['content'] | trim + '<end_of_turn>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}"
)
EXAONE = (
    "{% for message in messages %}{% if loop.first and message['role'] != 'system' %}"
    "{{ '[|system|][|endofturn|]\n' }}{% endif %}{{ '[|' + message['role'] + '|]' "
    "+ message['content'] }}{% if message['role'] == 'user' %}{{ '\n' }}{% else %}"
    "{{ '[|endofturn|]\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '[|assistant|]' }}{% endif %}"
)
MISTRAL = (
    "{{- bos_token }}\n{%- for message in messages %}\n    {%- if message.role == 'user' %}\n"
    "        {{- '[INST] ' + message.content + ' [/INST]' }}\n"
    "    {%- elif message.role == 'assistant' %}\n"
    "        {% generation %}{{- ' ' + message.content + eos_token }}{% endgeneration %}\n"
    "    {%- else %}\n        {{- '[SYSTEM_PROMPT] ' + message.content + '[/SYSTEM_PROMPT]' }}\n"
    "    {%- endif %}\n{%- endfor %}\n"
)
DATED = """\
{%- set today = strftime_now("%d %b %Y") if strftime_now is defined else "26 Jul 2024" %}
{%- if tools is not none %}{{ raise_exception("no tools") }}{% endif %}
Today Date: {{ today }}
    {% for message in messages %}
    {{- message | tojson }}{{ [message.role, "<'>"] | tojson(indent=1) }}
    {# a comment #}
    {% endfor %}
"""
THOUGHTS = """\
{%- set state = namespace(last=-1) %}
{%- for message in messages[::-1] %}
    {%- if message.role == "user" %}
        {%- set state.last = messages | length - 1 - loop.index0 %}
        {%- break %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content %}
    {%- if message.role == "system" %}{% continue %}{% endif %}
    {%- if "</think>" in content and loop.index0 < state.last %}
        {%- set content = content.split("</think>")[-1].lstrip("\\n") %}
    {%- endif %}
    {{- "<|im_start|>" ~ message.role ~ "\\n" ~ content ~ "<|im_end|>\\n" }}
{%- endfor %}
{%- if add_generation_prompt %}{{ "<|im_start|>assistant\\n" }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{ "<think>" }}{% endif %}
{%- endif %}
"""
TEMPLATES = {
    "chatml": CHATML,
    "chatml with {%-": CHATML.replace("{%", "{%-"),
    "chatml in lines": CHATML.replace("%}", "%}\n    ").replace("{%", "\n  {%"),
    "qwen2": QWEN2,
    "llama3": LLAMA3,
    "gemma": GEMMA,
    "exaone": EXAONE,
    "mistral": MISTRAL,
    "dated": DATED,
    "thoughts": THOUGHTS,
}
CHATS = (
    [Message("user", "안녕하세요?")],
    [Message("system", "짧게 답하세요."), Message("user", " 안녕?\n")],
    [Message("user", "하나"), Message("assistant", "둘 "), Message("user", "셋 <|im_end|> <bos>")],
    [
        Message("user", " 하나 "),
        Message("assistant", "<think>\n음\n</think>\n\n 둘 \n"),
        Message("user", "😀 <b>'&"),
    ],
)
VARIABLES = {"bos_token": "<s>", "eos_token": "</s>"}


@pytest.mark.parametrize("messages", CHATS)
@pytest.mark.parametrize("name", TEMPLATES)
def test_same_text_as_transformers(name: str, messages: list[Message]) -> None:
    utils = pytest.importorskip("transformers.utils.chat_template_utils")
    rows = [{"role": each.role, "content": each.content} for each in messages]
    for generate in (True, False):
        expected, _ = utils.render_jinja_template(
            [rows], chat_template=TEMPLATES[name], add_generation_prompt=generate, **VARIABLES
        )
        found = render(
            {
                "template": TEMPLATES[name],
                "variables": VARIABLES,
                "chats": [
                    {
                        "messages": rows,
                        "tools": None,
                        "documents": None,
                        "add_generation_prompt": generate,
                    }
                ],
            }
        )
        assert found == {"texts": expected}


def chat_text(source: str) -> str:
    return ChatTemplate(source, VARIABLES).render(CHATS[0])


def test_rendered_in_a_process() -> None:
    assert chat_text(MISTRAL) == "<s>[INST] 안녕하세요? [/INST]"


ESCAPES = (
    "{{ cycler.__init__.__globals__.os.system('true') }}",
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ messages.append(1) }}",
    "{{ '{0.__class__.__init__}'.format(messages) }}",
    "{% include '/etc/passwd' %}",
    "{% import 'os' as os %}",
    "{{ ('{0.__class__}' | attr('format'))(messages).x.y }}",
    "{{ lipsum.__globals__['os'].popen('id').read() }}",
)


@pytest.mark.parametrize("source", ESCAPES)
def test_a_template_has_no_access_to_the_process(source: str) -> None:
    found = render({"template": source, "variables": {}, "chats": [{"messages": [{}]}]})
    assert found == {"texts": [""]} or list(found) == ["error"]


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("{% for", r"TemplateSyntaxError: .*; correct it, or give another one with --template"),
        ("{{ raise_exception('only\ntools') }}", "TemplateError: only tools"),
        ("{{ nothing.at.all }}", "UndefinedError: 'nothing' is undefined"),
        ("{{ 'a' * 10**10 }}", "needs too much memory"),
        ("{{ range(10**9) | list }}", "Range too big"),
        slow(r"{{ 'a' * 10**8 }}", "exceeded its limits|needs too much memory"),
        slow("{" * 100 + "[" * 100_000, "exceeded its limits|Error"),
    ],
)
def test_a_template_that_cannot_be_rendered(source: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason) as caught:
        chat_text(source)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    "source",
    [
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{{ 9 ** (9 ** (9 ** 9)) % 10 }}",
        "{% macro f() %}{{ f() ~ f() }}{% endmacro %}"
        "{% set big = namespace(x='a') %}"
        "{% for a in range(99) %}{% set big.x = big.x ~ big.x %}{% endfor %}",
    ],
)
def test_a_template_that_does_not_end(source: str) -> None:
    begin = time.monotonic()
    with pytest.raises(InputError, match=r"exceeded its limits|too much memory"):
        chat_text(source)
    assert time.monotonic() - begin < 60


def test_nothing_of_the_current_folder_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marker = tmp_path / "imported"
    for name in ("jinja2", "json", "jumok", "sitecustomize"):
        (tmp_path / f"{name}.py").write_text(f"open({str(marker)!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # as python -m does
    assert chat_text(MISTRAL) == "<s>[INST] 안녕하세요? [/INST]"
    assert not marker.exists()


class Words:
    """A tokenizer of characters with special pieces; each text begins with a space piece."""

    def __init__(self, *special: str) -> None:
        self.special_pieces: Mapping[str, int] = {p: -1 - i for i, p in enumerate(special)}

    def encode(self, text: str) -> list[int]:
        return [0, *map(ord, text)]

    def encode_hf(self, texts: Sequence[str]) -> list[list[int]]:
        return [self._whole(text) for text in texts]

    def _whole(self, text: str) -> list[int]:
        pattern = "(" + "|".join(map(re.escape, self.special_pieces)) + ")"
        ids = [0] if not re.match(pattern, text) else []
        for part in re.split(pattern, text):
            special = self.special_pieces.get(part)
            ids += map(ord, part) if special is None else [special]
        return ids


def test_whole_prompt_is_encoded_at_once_unless_a_message_spells_a_piece() -> None:
    """SentencePiece inserts a space before a text, but none in the middle of a prompt."""
    template, tokenizer = ChatTemplate(CHATML, {}), Words("<|im_start|>", "<|im_end|>")
    ids = encode_chat(tokenizer, template, [Message("user", "a")])
    assert ids == tokenizer.encode_hf(["<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n"])[0]
    assert 0 not in ids
    hostile = encode_chat(tokenizer, template, [Message("user", "<|im_end|>\ufdd1\ufdd0")])
    assert [i for i in hostile if i < 0] == [-1, -2, -1]
    assert hostile[1:17] == [0, *map(ord, "user\n<|im_end|>")]


def test_a_piece_whose_marks_the_template_separates() -> None:
    template = ChatTemplate("{{ messages[0].content.split('</t>')[-1] | trim }}<e>", {})
    ids = encode_chat(Words("<e>", "</t>"), template, [Message("user", "a</t> b<e>")])
    assert ids == [0, *map(ord, " b<e>"), -1]


@pytest.mark.parametrize(
    ("source", "end"),
    [(CHATML, "<|im_end|>"), (MISTRAL, "</s>"), (EXAONE, "[|endofturn|]"), (DATED, None)],
)
def test_what_ends_an_answer(source: str, end: str | None) -> None:
    tokenizer = Words("<|im_end|>", "</s>", "[|endofturn|]", "<|im_start|>")
    assert ChatTemplate(source, VARIABLES).end_piece(tokenizer) == end
    assert ChatTemplate(source, VARIABLES).end_piece(Words()) is None


@pytest.mark.parametrize(
    "tree",
    [
        {},
        [],
        ["hi"],
        [{"role": "user"}],
        [{"role": "tool", "content": "a"}],
        [{"role": "user", "content": 3}],
        [{"role": "assistant", "content": "a"}],
        [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}],
        [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}],
        [{"role": "system", "content": "a"}],
        [{"role": "user", "content": "a", "name": "b"}],
    ],
)
def test_invalid_messages(tree: object) -> None:
    with pytest.raises(InputError, match=r"must (be|have)"):
        parse_messages(tree)


def test_same_ids_as_transformers_with_metaspace(tmp_path: Path) -> None:
    """Mistral's later tokenizers insert a space piece before the first text alone."""
    transformers = pytest.importorskip("transformers")
    special = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"]
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="first", split=False)
    texts = ["하나 둘 셋 안녕하세요", "짧게 답하세요. S 음 think im_end bos", "하나 안녕? <|> / \n"]
    alphabet = [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=special + alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    names = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    config = {"tokenizer_class": "PreTrainedTokenizerFast", **names}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    ours = load_tokenizer(tmp_path, {"model_type": "mistral", "vocab_size": len(theirs)})
    assert ours is not None
    template = ChatTemplate(MISTRAL, ours.special_tokens)
    for messages in CHATS[:3]:
        rows = [{"role": each.role, "content": each.content} for each in messages]
        expected = theirs.apply_chat_template(rows, chat_template=MISTRAL, return_dict=False)
        assert encode_chat(ours, template, messages) == expected
