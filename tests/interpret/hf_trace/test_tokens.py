"""Tokens of fast and slow transformers tokenizers: a space piece belongs to the next word."""

from collections.abc import Mapping
from typing import Any

import pytest

from jumok.interpret.hf_trace.tokens import HFEncoding, hf_tokens

PIECES = ["</s>", "<unk>", "▁이", "▁", "가"]
TEXT = "이 훌륭 가"
IDS = [2, 3, 1, 3, 4, 0]
SPANS = [(0, 1), (1, 2), (2, 4), (4, 5), (5, 6), (0, 0)]  # of a fast tokenizer


class Found(dict[str, list[Any]]):
    """What a fast tokeniser makes of the text."""

    def sequence_ids(self) -> list[int | None]:
        return [0, 0, 0, 0, 0, None]


class Pieces:
    """A tokeniser of the pieces above."""

    all_special_ids = [0, 1]  # noqa: RUF012  (as theirs have it)
    special_tokens_map: Mapping[str, object] = {"unk_token": "<unk>", "eos_token": "</s>"}
    pad_token_id: int | None = None

    def __init__(self, is_fast: bool) -> None:
        self.is_fast = is_fast

    def __call__(
        self,
        text: str | None = None,
        text_pair: str | None = None,
        *,
        text_target: str | None = None,
        return_offsets_mapping: bool = False,
    ) -> HFEncoding:
        return Found(input_ids=IDS, offset_mapping=SPANS)

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        return [PIECES[id_] for id_ in ids]

    def decode(self, token_ids: list[int], *, skip_special_tokens: bool) -> str:
        kept = [PIECES[i] for i in token_ids if i not in self.all_special_ids]
        return "".join(kept).replace("▁", " ").removeprefix(" ")


@pytest.mark.parametrize("is_fast", [True, False])
def test_a_space_piece_belongs_to_the_next_word(is_fast: bool) -> None:
    found = hf_tokens(IDS, [1] * len(IDS), Pieces(is_fast), TEXT)
    assert list(zip(found.pieces, found.words, strict=True)) == [
        ("▁이", 0), ("▁", 1), ("<unk>", 1), ("▁", 2), ("가", 2), ("</s>", -1),
    ]  # fmt: skip
    covered = [TEXT[begin:end].strip() for begin, end in found.spans]
    assert covered == ["이", "", "훌륭", "", "가", ""]
