"""The browser's tokenizer: the ids and texts of SentencePiece, for each kind of vocabulary."""

import random
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest

import jumok
from jumok.formats.web_tokenizer import (
    tokenizer_arrays,
    tokenizer_config,
    unsupported_tokenizer,
)
from jumok.text.sentencepiece import SentencePieceTokenizer, VocabularyConfig
from jumok.text.sentencepiece_proto import PieceType, add_pieces, bpe_model, set_types
from jumok.text.tokenizer import Tokenizer, piece_or_empty
from tests.formats.web_module import run_module

KOREAN = Path(__file__).parents[2] / "README.ko.md"
N_TEXTS = 10_000  # of each vocabulary; half of the time is SentencePiece's
N_ROWS = 2_000  # of random ids that are decoded
MAX_LENGTH = 48  # some texts are longer

_RANGES = {  # the first and the last character, and how often one is drawn
    "syllables": (0xAC00, 0xD7A3, 20),
    "jamo, old ones too": (0x1100, 0x11FF, 6),
    "extended jamo": (0xA960, 0xA97C, 2),
    "more of them": (0xD7B0, 0xD7C6, 2),
    "typed jamo": (0x3131, 0x318E, 4),
    "ASCII": (0x20, 0x7E, 10),
    "control characters": (0x01, 0x1F, 4),
    "marks": (0x300, 0x345, 4),
    "Chinese characters": (0x4E00, 0x9FFF, 3),
    "emoji": (0x1F600, 0x1F64F, 3),
    "tags": (0xE0020, 0xE007F, 1),
    "punctuation, ZWJ and RTL": (0x2000, 0x206F, 4),
}
_STRINGS = (
    " ",
    "  ",
    "\n",
    "\t",
    "▁",
    "[CLS]",
    "[UNK]",
    "<0x41>",
    "👨\u200d👩\u200d👧",
    "ㅋㅋㅋ",
    "\ufeff",
    "\ufffd",
)


def odd_texts(tokenizer: Tokenizer, n: int) -> list[str]:
    """Random texts of rare characters, decomposed syllables and the vocabulary's own pieces."""
    draw = random.Random(0)
    pieces = [piece_or_empty(tokenizer, i).replace("▁", " ") for i in range(len(tokenizer))]
    spans, weights = zip(*((r[:2], r[2]) for r in _RANGES.values()), strict=True)

    def part() -> str:
        kind = draw.random()
        if kind < 0.35:
            return draw.choice(pieces)
        if kind < 0.5:
            return draw.choice(_STRINGS)
        first, last = draw.choices(spans, weights)[0]
        text = "".join(chr(draw.randint(first, last)) for _ in range(draw.randint(1, 4)))
        return unicodedata.normalize("NFD", text) if draw.random() < 0.3 else text

    return ["", " ", "가", *("".join(part() for _ in range(draw.randint(1, 25))) for _ in range(n))]


def trained(**config: object) -> SentencePieceTokenizer:
    lines = KOREAN.read_text(encoding="utf-8").splitlines()
    return SentencePieceTokenizer.train(lines, VocabularyConfig(**config))  # type: ignore[arg-type]


def shipped() -> SentencePieceTokenizer:
    tokenizer = jumok.load("ko-small-vectors", device="cpu").vocabulary
    assert isinstance(tokenizer, SentencePieceTokenizer)
    return tokenizer


def with_types(**config: object) -> SentencePieceTokenizer:
    """A vocabulary with pieces that are never split, and with unused ones."""
    data = trained(**config).to_bytes()
    if config["kind"] == "bpe":
        data = add_pieces(data, [("영화관", 0.0), ("ㅋㅋ", 0.0)], PieceType.USER_DEFINED)
    normal = [i for i in range(len(SentencePieceTokenizer(data))) if i % 5 == 3 and i > 400]
    return SentencePieceTokenizer(set_types(data, dict.fromkeys(normal, PieceType.UNUSED)))


def foreign() -> SentencePieceTokenizer:
    """As in Llama: the spaces of a text are stripped, decomposed Hangul is composed."""
    special = ["<unk>", "<s>", "</s>", "<cls>", "<sep>"]
    bytes_ = [f"<0x{i:02X}>" for i in range(256)]
    words = ["▁", "a", "b", "ab", "▁a", "가", "나", "가나", "▁가", "▁▁", "▁가나"]
    types = [
        *(PieceType.UNKNOWN, *[PieceType.CONTROL] * 4),
        *[PieceType.BYTE] * 256,
        *[PieceType.NORMAL] * len(words),
    ]
    names = {"unk": (0, "<unk>"), "bos": (1, "<s>"), "eos": (2, "</s>")}
    scores = [0.0] * 261 + [float(-i) for i in range(len(words))]
    data = bpe_model(
        [*special, *bytes_, *words],
        scores,
        types,
        names,
        dummy_prefix=True,
        remove_extra_spaces=True,
    )
    return SentencePieceTokenizer(data)


def jamo() -> SentencePieceTokenizer:
    """Every piece is a conjoining jamo or another character; composed syllables are unknown."""
    lines = unicodedata.normalize("NFD", KOREAN.read_text(encoding="utf-8")).splitlines()
    config = VocabularyConfig(kind="char", size=300, normalization="none", required_characters="")
    return SentencePieceTokenizer.train(lines, config)


def random_rows(tokenizer: SentencePieceTokenizer, n: int) -> list[list[int]]:
    """Random ids, special ones, spaces and runs of bytes among them."""
    draw = random.Random(1)
    size = len(tokenizer)
    spaces = [i for i in range(size) if tokenizer.piece(i).startswith("▁")]
    special = [*tokenizer.special_ids.values(), *spaces[:20]]

    def run() -> list[int]:
        if draw.random() < 0.3:
            return [draw.choice(special)]
        most = min(size, draw.choice((size, 280)))  # where there are bytes, they are the first ids
        return [draw.randrange(most) for _ in range(draw.randint(1, 4))]

    return [[i for _ in range(draw.randint(0, 6)) for i in run()] for _ in range(n)]


VOCABULARIES: dict[str, Callable[[], SentencePieceTokenizer]] = {
    "32,000 pieces": shipped,
    "unigram, bytes": lambda: trained(kind="unigram", size=900, byte_fallback=True),
    "unigram, unused pieces": lambda: with_types(kind="unigram", size=900, byte_fallback=True),
    "bpe": lambda: trained(kind="bpe", size=700),
    "bpe, bytes, every type": lambda: with_types(kind="bpe", size=900, byte_fallback=True),
    "bpe, stripped, as in Llama": foreign,
    "characters": lambda: trained(kind="char", size=300),
    "jamo: characters of decomposed text": jamo,
    "characters, not composed": lambda: trained(kind="char", size=300, normalization="none"),
}


@pytest.mark.slow
def test_the_ids_are_those_of_sentencepiece(tmp_path: Path) -> None:
    requests, expected, decoded = [], [], []
    for make in VOCABULARIES.values():
        tokenizer = make()
        assert unsupported_tokenizer(tokenizer) is None
        texts = odd_texts(tokenizer, N_TEXTS)
        arrays = tokenizer_arrays(tokenizer)
        requests.append(
            {
                "config": tokenizer_config(tokenizer, MAX_LENGTH),
                "scores": arrays["tokenizer.scores"].tolist(),
                "types": arrays["tokenizer.types"].tolist(),
                "texts": texts,
                "rows": (rows := random_rows(tokenizer, N_ROWS)),
            }
        )
        decoded.append(tokenizer.decode_batch(rows))
        template = tokenizer.input_template
        expected.append(
            [template.apply_one(i, None, MAX_LENGTH).ids for i in tokenizer.encode_batch(texts)]
        )
    found = run_module({"tokenizers": requests}, tmp_path)
    for name, request, ids, own in zip(VOCABULARIES, requests, found["ids"], expected, strict=True):
        wrong = [text for text, a, b in zip(request["texts"], ids, own, strict=True) if a != b]
        assert not wrong, f"{name}: {len(wrong)} of {len(ids)} texts, such as {wrong[0]!a}"
    for name, request, texts, own in zip(
        VOCABULARIES, requests, found["texts"], decoded, strict=True
    ):
        rows = [row for row, a, b in zip(request["rows"], texts, own, strict=True) if a != b]
        assert not rows, f"{name}: {len(rows)} of {len(texts)} rows of ids, such as {rows[0]}"


@pytest.mark.slow
def test_what_the_page_cannot_read_is_refused() -> None:
    kiwi = pytest.importorskip("kiwipiepy")
    assert kiwi is not None
    tokenizer = trained(kind="unigram", size=500, pretokenizer="kiwi")
    assert "Kiwi" in str(unsupported_tokenizer(tokenizer))
