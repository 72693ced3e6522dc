"""Every family, line by line, against AutoTokenizer of transformers."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from jumok.text.pretrained import PretrainedTokenizer, TemplateOutput, load_tokenizer
from tests.pretrained_tokenizers import FOLDERS, N_LINES
from tests.text.pretrained.conftest import Folders, config_of

transformers = pytest.importorskip("transformers")
transformers.logging.set_verbosity_error()

LONG = 10**6
WHOLE = ("bert", "roberta", "kogpt2", "t5", "marian")  # one of each kind: all 10,000 lines


def check_comparable(family: str) -> None:
    """Skip a family that the installed transformers converts otherwise than jumok."""
    if family == "umt5" and Version(transformers.__version__) < Version("5.24"):
        pytest.skip("before 5.24 transformers gave other ids than SentencePiece for umt5")


def both(folder: Path) -> tuple[PretrainedTokenizer, Any]:
    actual = load_tokenizer(folder, config_of(folder))
    assert actual is not None
    return actual, transformers.AutoTokenizer.from_pretrained(folder)


def assert_same(actual: Iterable[TemplateOutput], reference: Any, texts: list[str]) -> None:
    """The same ids and segments in every row; the first text that differs is reported."""
    rows = list(actual)
    assert len(rows) == len(reference["input_ids"]) == len(texts)
    for row, ids, text in zip(rows, reference["input_ids"], texts, strict=True):
        assert row.ids == ids, text
    for row, segments in zip(rows, reference.get("token_type_ids", []), strict=False):
        assert row.token_type_ids == segments


def compare(folder: Path, lines: list[str]) -> None:
    """Single texts, pairs that are too long, written texts, and both ways of decoding."""
    actual, reference = both(folder)
    assert len(actual) == len(reference)
    rows = actual.encode_batch_with_special_tokens(lines, max_length=LONG)
    assert_same(rows, reference(lines), lines)
    assert actual.has_token_type_ids == ("token_type_ids" in reference("a"))
    half = len(lines) // 2
    first, second = lines[:half], lines[half:]
    assert_same(
        actual.encode_batch_with_special_tokens(first, second, max_length=32),
        reference(first, second, truncation=True, max_length=32),
        first,
    )
    if actual.target is not actual:
        rows = actual.target.encode_batch_with_special_tokens(lines, max_length=LONG)
        assert_same(rows, reference(text_target=lines), lines)
    ids = [row.ids for row in rows]
    assert actual.target.decode_batch(ids) == reference.batch_decode(ids, skip_special_tokens=True)
    some = ids[:500]
    assert actual.target.decode_batch(some, keep_special=True) == reference.batch_decode(some)
    assert (
        actual.encode_hf(lines[:500])
        == reference(lines[:500], add_special_tokens=False)["input_ids"]
    )
    special = {
        name: getattr(reference, f"{name.strip('[]').lower()}_token_id") for name in SPECIAL_NAMES
    }
    assert actual.special_ids == {name: i for name, i in special.items() if i is not None}
    limit = reference.model_max_length
    assert actual.model_max_length == (None if limit > 10**20 else limit)


SPECIAL_NAMES = ("[PAD]", "[UNK]", "[BOS]", "[EOS]", "[SEP]", "[CLS]", "[MASK]")


@pytest.mark.slow
@pytest.mark.parametrize("family", FOLDERS)
def test_ids_and_texts_equal_transformers(family: str, folder: Folders, lines: list[str]) -> None:
    check_comparable(family)
    assert len(lines) == N_LINES
    if family == "umt5":  # its piece ㅋㅋ is that of SentencePiece, see test_generic.py
        lines = [line for line in lines if "ㅋㅋ" not in line]
    compare(folder(family), lines if family in WHOLE else lines[:2000])


@pytest.mark.slow
@pytest.mark.parametrize("family", FOLDERS)
def test_ids_and_texts_of_saved_tokenizers_equal_transformers(
    family: str, resaved: Folders, lines: list[str]
) -> None:
    check_comparable(family)
    compare(resaved(family), lines[:500])


@pytest.mark.slow
@pytest.mark.parametrize("family", FOLDERS)
def test_no_text_is_encoded_as_a_special_piece(
    family: str, folder: Folders, lines: list[str]
) -> None:
    actual, reference = both(folder(family))
    special = {i for i, token in reference.added_tokens_decoder.items() if token.special}
    unknown = actual.piece(actual.special_ids.get("[UNK]") or actual.id("<unk>"))
    if family not in ("gpt2", "gpt2-bos"):  # whose unknown piece is the end, and never needed
        special -= {actual.id(unknown)}
    lines = [f"{unknown} 안 {unknown}", *lines[:500]]
    plain, exact = actual.encode_batch(lines), actual.encode_hf(lines)
    typed = [i for i, row in enumerate(exact) if not special.isdisjoint(row) or unknown in lines[i]]
    assert len(typed) > 1, "no line of the sample holds a special piece of this family"
    assert len(plain[0]) > len(exact[0])  # spelled out
    assert all(special.isdisjoint(row) for row in plain)
    assert all(plain[i] == exact[i] for i in set(range(len(lines))) - set(typed))
