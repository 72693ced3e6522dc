"""Every family, line by line, against AutoTokenizer of transformers."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from jumok.text.pretrained import PretrainedTokenizer, TemplateOutput, load_tokenizer
from tests.pretrained_tokenizers import FOLDERS, N_LINES
from tests.text.pretrained.conftest import Folders, config_of

transformers = pytest.importorskip("transformers")
transformers.logging.set_verbosity_error()

LONG = 10**6
VARIANTS = ("gpt2-bos", "mt5", "mbart50", "umt5")  # of families whose 10,000 lines are compared


def both(folder: Path) -> tuple[PretrainedTokenizer, Any]:
    ours = load_tokenizer(folder, config_of(folder))
    assert ours is not None
    return ours, transformers.AutoTokenizer.from_pretrained(folder)


def assert_same(ours: Iterable[TemplateOutput], theirs: Any, texts: list[str]) -> None:
    """The same ids and segments in every row; the first text that differs is reported."""
    rows = list(ours)
    assert len(rows) == len(theirs["input_ids"]) == len(texts)
    for row, ids, text in zip(rows, theirs["input_ids"], texts, strict=True):
        assert row.ids == ids, text
    for row, segments in zip(rows, theirs.get("token_type_ids", []), strict=False):
        assert row.token_type_ids == segments


def compare(folder: Path, lines: list[str]) -> None:
    """Single texts, pairs that are too long, written texts, and both ways of decoding."""
    ours, theirs = both(folder)
    assert len(ours) == len(theirs)
    rows = ours.encode_batch_with_special_tokens(lines, max_length=LONG)
    assert_same(rows, theirs(lines), lines)
    assert ours.has_token_type_ids == ("token_type_ids" in theirs("a"))
    half = len(lines) // 2
    first, second = lines[:half], lines[half:]
    assert_same(
        ours.encode_batch_with_special_tokens(first, second, max_length=32),
        theirs(first, second, truncation=True, max_length=32),
        first,
    )
    if ours.target is not ours:
        rows = ours.target.encode_batch_with_special_tokens(lines, max_length=LONG)
        assert_same(rows, theirs(text_target=lines), lines)
    ids = [row.ids for row in rows]
    assert ours.target.decode_batch(ids) == theirs.batch_decode(ids, skip_special_tokens=True)
    some = ids[:500]
    assert ours.target.decode_batch(some, keep_special=True) == theirs.batch_decode(some)
    assert ours.encode_hf(lines[:500]) == theirs(lines[:500], add_special_tokens=False)["input_ids"]
    special = {
        name: getattr(theirs, f"{name.strip('[]').lower()}_token_id") for name in SPECIAL_NAMES
    }
    assert ours.special_ids == {name: i for name, i in special.items() if i is not None}
    limit = theirs.model_max_length
    assert ours.model_max_length == (None if limit > 10**20 else limit)


SPECIAL_NAMES = ("[PAD]", "[UNK]", "[BOS]", "[EOS]", "[SEP]", "[CLS]", "[MASK]")


@pytest.mark.slow
@pytest.mark.parametrize("family", FOLDERS)
def test_ids_and_texts_are_those_of_transformers(
    family: str, folder: Folders, lines: list[str]
) -> None:
    assert len(lines) == N_LINES
    compare(folder(family), lines[:2000] if family in VARIANTS else lines)


@pytest.mark.slow
@pytest.mark.parametrize("family", FOLDERS)
def test_so_are_they_from_what_transformers_saves(
    family: str, resaved: Folders, lines: list[str]
) -> None:
    compare(resaved(family), lines[:1000])


@pytest.mark.slow
@pytest.mark.parametrize("family", FOLDERS)
def test_no_special_piece_comes_from_a_text(family: str, folder: Folders, lines: list[str]) -> None:
    ours, theirs = both(folder(family))
    special = {i for i, token in theirs.added_tokens_decoder.items() if token.special}
    unknown = ours.piece(ours.special_ids.get("[UNK]") or ours.id("<unk>"))
    if family not in ("gpt2", "gpt2-bos"):  # whose unknown piece is the end, and never needed
        special -= {ours.id(unknown)}
    lines = [f"{unknown} 안 {unknown}", *lines[:2000]]
    plain, exact = ours.encode_batch(lines), ours.encode_hf(lines)
    typed = [i for i, row in enumerate(exact) if not special.isdisjoint(row) or unknown in lines[i]]
    assert len(typed) > 1, "no line of the sample holds a special piece of this family"
    assert len(plain[0]) > len(exact[0])  # spelled out
    assert all(special.isdisjoint(row) for row in plain)
    assert all(plain[i] == exact[i] for i in set(range(len(lines))) - set(typed))
