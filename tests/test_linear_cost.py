"""Every entry point takes time and memory proportional to its input, hostile inputs included.

The size of each input is quadrupled: processor time and memory of Python may then be 10 times as
large (quadratic cost is 16 times), above what the clock and a first call cost anyway.
"""

import gc
import gzip
import json
import lzma
import struct
import time
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from jumok.config_io import read_toml
from jumok.data.files.tables import read_table
from jumok.decoding.constraints.constraint import any_text_of, words_of
from jumok.decoding.constraints.regex import compile_regex
from jumok.errors import InputError
from jumok.formats.gguf_reader import parse_gguf
from jumok.safe_json import parse_json
from jumok.safetensors_io import read_header
from jumok.shipped import resolve_model
from jumok.tasks.runs.load import load
from jumok.text.chat import parse_messages
from jumok.text.pretrained.load import load_tokenizer
from jumok.text.sentencepiece_proto import add_pieces, read_model
from jumok.unicode_forms import normalize

FREE_SECONDS = 0.15  # the clock, other processes, the first call
FREE_BYTES = 4 * 2**20
FACTOR = 10  # for four times the input


@dataclass(frozen=True)
class Case:
    """An input of about n bytes, and its entry point; `n` is the smaller of two sizes."""

    make: Callable[[int], Any]
    use: Callable[[Any, Path], object]
    n: int = 50_000


def file(name: str, use: Callable[[Path], object]) -> Callable[[bytes | str, Path], object]:
    """An entry point that reads a file of this name."""

    def written(content: bytes | str, folder: Path) -> object:
        path = folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return use(path)

    return written


def table(path: Path) -> object:
    return read_table(path, ["text", "label"], on_bad_rows="skip")


def metadata(n: int) -> bytes:
    """A GGUF of keys, each with a list of numbers."""
    keys = [f"key.{i}".encode() for i in range(n // 40)]
    values = struct.pack("<IIQ4B", 9, 0, 4, 1, 2, 3, 4)
    pairs = b"".join(struct.pack("<Q", len(key)) + key + values for key in keys)
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(keys)) + pairs


def tensors(n: int) -> bytes:
    entries = {
        f"t{i}": {"dtype": "F32", "shape": [1], "data_offsets": [4 * i, 4 * i + 4]}
        for i in range(n // 70)
    }
    header = json.dumps(entries).encode()
    return struct.pack("<Q", len(header)) + header + bytes(4 * len(entries))


def wordpiece(n: int) -> str:
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"p{i}" for i in range(n // 12))]
    model = {
        "type": "WordPiece",
        "unk_token": "[UNK]",
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100,
        "vocab": {piece: i for i, piece in enumerate(pieces)},
    }
    return json.dumps({"version": "1.0", "added_tokens": [], "model": model})


def open_tokenizer(path: Path) -> object:
    return load_tokenizer(path.parent, {"model_type": "bert"})


def conversation(n: int) -> list[dict[str, str]]:
    roles = ["user", "assistant"] * (n // 100) + ["user"]
    return [{"role": role, "content": "안녕하세요. " * 5} for role in roles]


def chat(messages: Any, _: Path) -> object:
    return parse_messages(messages)


note = cache(lambda: load("note"))
MODEL = next(resolve_model("note").glob("*.model"))
LINE = "이 영화 정말 재미있어요\t1\n"
MARKS: dict[str, Callable[[int], str]] = {
    "marks": lambda n: "a" + "\u0301" * (n // 4) + "\u0323" * (n // 4),
    "decomposing": lambda n: "\u0344\u0323" * (n // 4),
    "letters": lambda n: "가나 다" * (n // 10),
    "spaces": lambda n: "가" + " " * n,
    "one word": lambda n: "ㅋ" * (n // 3),
    "unknown": lambda n: "漢🙂" * (n // 7),
}

CASES = {
    **{
        f"normalize: {name}": Case(make, lambda text, _: normalize("NFC", text))
        for name, make in MARKS.items()
    },
    **{
        f"tokenize: {name}": Case(make, lambda text, _: note().vocabulary.encode(text), 50_000)
        for name, make in MARKS.items()
    },
    "tsv": Case(lambda n: "text\tlabel\n" + LINE * (n // 30), file("a.tsv", table)),
    "tsv: header": Case(lambda n: "\t".join(map(str, range(n // 6))), file("a.tsv", table)),
    "tsv: tabs": Case(lambda n: "text\tlabel\n" + "\t" * n, file("a.tsv", table)),
    "tsv: marks": Case(
        lambda n: f"text\tlabel\n{MARKS['marks'](n)}\t{MARKS['marks'](n)}\n", file("a.tsv", table)
    ),
    "csv": Case(lambda n: "text,label\n" + '"가, ""나""",1\n' * (n // 20), file("a.csv", table)),
    "csv: header": Case(lambda n: ",".join(map(str, range(n // 6))), file("a.csv", table)),
    "csv: open quote": Case(
        lambda n: 'text,label\n"' + "a\n" * (n // 2), file("a.csv", table), 25_000
    ),
    "jsonl": Case(lambda n: '{"text": "가나다", "label": 1}\n' * (n // 33), file("a.jsonl", table)),
    "jsonl: repeated key": Case(
        lambda n: "{" + "".join(f'"k{i}": 1, ' for i in range(n // 12)) + '"k9": 2}',
        file("a.jsonl", table),
    ),
    "jsonl: nested": Case(lambda n: "[" * n, file("a.jsonl", table)),
    "json": Case(
        lambda n: json.dumps([{"text": "가", "label": 1}] * (n // 30)), file("a.json", table)
    ),
    "gz": Case(
        lambda n: gzip.compress(("text\tlabel\n" + LINE * (n // 30)).encode()),
        file("a.tsv.gz", table),
    ),
    "gz: members": Case(
        lambda n: b"".join(
            [gzip.compress(b"text\tlabel\n"), *[gzip.compress(b"a\t1\n")] * (n // 25)]
        ),
        file("a.tsv.gz", table),
    ),
    "xz": Case(
        lambda n: lzma.compress(("text\tlabel\n" + LINE * (n // 30)).encode()),
        file("a.tsv.xz", table),
    ),
    "toml: dotted": Case(lambda n: "a" + ".a" * (n // 2) + " = 1", file("a.toml", read_toml)),
    "toml: table": Case(lambda n: "[a" + ".a" * (n // 2) + "]", file("a.toml", read_toml)),
    "toml: tables": Case(
        lambda n: "".join(f"[k{i}{'.a' * 30}]\n" for i in range(n // 70)),
        file("a.toml", read_toml),
        10_000,
    ),
    "toml: nested": Case(lambda n: "a = " + "[" * n, file("a.toml", read_toml)),
    "toml: keys": Case(
        lambda n: "".join(f"k{i} = 1\n" for i in range(n // 10)), file("a.toml", read_toml)
    ),
    "toml: text": Case(lambda n: 'a = "' + "\\n." * (n // 3) + '"', file("a.toml", read_toml)),
    "json object": Case(
        lambda n: json.dumps({f"k{i}": [i] for i in range(n // 12)}).encode(),
        lambda data, _: parse_json(data),
    ),
    "json object: nested": Case(lambda n: b'{"a": ' + b"[" * n, lambda data, _: parse_json(data)),
    "gguf": Case(metadata, lambda data, folder: parse_gguf(data, len(data), folder)),
    "safetensors": Case(tensors, file("model.safetensors", read_header)),
    "tokenizer.json": Case(wordpiece, file("tokenizer.json", open_tokenizer)),
    "sentencepiece": Case(
        lambda n: add_pieces(MODEL.read_bytes(), ((f"조각{i}", -1.0) for i in range(n // 20)), 1),
        lambda data, _: read_model(data),
    ),
    "chat": Case(conversation, chat),
    "choices": Case(
        lambda n: [f"선택 {i}" for i in range(n // 12)], lambda texts, _: any_text_of(texts), 5_000
    ),
    "words": Case(
        lambda n: [f"선택 {i}" for i in range(n // 12)], lambda texts, _: words_of(texts), 1_000
    ),
    "pattern": Case(
        lambda n: "|".join(f"a{i}b*" for i in range(n // 8)),
        lambda pattern, _: compile_regex(pattern),
        2_500,
    ),
    "pattern: groups": Case(lambda n: "(" * n, lambda pattern, _: compile_regex(pattern), 10_000),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_four_times_the_input_costs_at_most_ten_times(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    case = CASES[name]
    small, large = case.make(case.n), case.make(4 * case.n)
    run(case, small, tmp_path)  # imports, caches of functions
    before = min(run(case, small, tmp_path) for _ in range(2))
    limit = FACTOR * before + FREE_SECONDS
    after = run(case, large, tmp_path)
    assert after <= limit or run(case, large, tmp_path) <= limit
    peaks = []
    for each in (small, large):
        tracemalloc.start()
        run(case, each, tmp_path)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] <= FACTOR * peaks[0] + FREE_BYTES


def run(case: Case, content: Any, folder: Path) -> float:
    """The processor time of an entry point."""
    gc.collect()
    gc.freeze()  # collections of the tests' own objects take 0.1 s
    started = time.process_time()
    with suppress(InputError):
        case.use(content, folder)
    seconds = time.process_time() - started
    gc.unfreeze()
    return seconds
