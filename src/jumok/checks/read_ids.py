"""What a model reads for 1,000 sentences, special tokens included, and what AutoTokenizer gives.

The other checks compare outputs for equal ids; a model may agree there and read other ids.
"""

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, product
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from jumok.atomic_io import write_atomically
from jumok.checks.invariance import Check, Measurement, NotApplicable
from jumok.checks.target import CheckTarget, text_samples
from jumok.errors import JumokError, Message, TokenizerError
from jumok.extras import missing_dependency
from jumok.models import LanguageModel
from jumok.tasks.pipeline.causal_generation import prompt_ids
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.text.pretrained import PretrainedTokenizer
from jumok.text.pretrained.files import TOKENIZER
from jumok.text.pretrained.tokenizer_json import TokenizerJson
from jumok.unicode_forms import normalize

N_SENTENCES = 1_000

_SUBJECTS = (
    "이 영화는", "어제 만난 친구가", "The weather", "my 3 cats", "서울특별시는", "GPU 2대가",
    "아버지가", "한국어 tokenizer가", "Dr. Müller", "ㅋㅋㅋ 그게", "東京は", "김치찌개(2인분)는",
    "an old café",
)  # fmt: skip
_PREDICATES = (
    "정말 재미있었어요.", "방에 들어가신다!", "is really cold today.", "doesn't work...",
    "3,500원입니다", "2026-11-28 09:30에 출발했다", "좋았다 ㅠㅠ 😭", "was 12.5% better 🙂",
    "안 됩니다?!", "1/2 × 100 = 50", "읽고\n쓴다.", "goes to www.example.com/a?b=1",
)  # fmt: skip
_FORMS = (
    "{} {}",
    "  {}  {} ",
    "{}{}",
    "“{}” {}",
    "{} 👩‍👩‍👧 {} 🇰🇷",
    "{}\u00a0{}\u200b",
    "{}: {} – {}",
)


def sentences() -> list[str]:
    """1,000 texts: Korean, English, mixed; numbers, emoji, NFD, and spaces in unusual places.

    >>> texts = sentences()
    >>> len(texts), len(set(texts)), texts[0]
    (1000, 1000, '이 영화는 정말 재미있었어요.')
    """
    made = (
        form.format(subject, predicate, subject)
        for form, subject, predicate in product(_FORMS, _SUBJECTS, _PREDICATES)
    )
    texts = list(islice(made, N_SENTENCES - 1))
    third = [normalize("NFD", text) if i % 3 == 2 else text for i, text in enumerate(texts)]
    return [*third, ""]


@dataclass(frozen=True)
class ReadIdsCheck(Check):
    """The ids that predictions are computed from must be those of AutoTokenizer."""

    name: str = "read = AutoTokenizer"
    compared: str = "the ids that the model reads for 1,000 sentences, and those of AutoTokenizer"

    def compare(self, target: CheckTarget) -> Measurement:
        """Not applicable to a model that is not imported, or without transformers."""
        pipeline = target.pipeline
        tokenizer = _auto_tokenizer(pipeline)
        texts = sentences()
        if isinstance(pipeline.model, LanguageModel) and not _has_empty_prompt(pipeline):
            texts.remove("")
        if pipeline.is_pair("a\tb"):
            texts[::2] = [f"{a}\t{b}" for a, b in zip(texts[::2], texts[1::2], strict=True)]
        different: list[tuple[str, list[int], list[int]]] = []
        samples = text_samples(pipeline, texts, generate=False)
        for text, sample in zip(texts, samples, strict=True):
            expected, types = _expected(pipeline, tokenizer, text)
            same = sample.ids.tolist() == expected
            if sample.segments is not None:
                same = same and sample.segments.tolist() == types
            if not same:
                different.append((text, sample.ids.tolist(), expected))
        n = len(texts)
        if different:
            text, ids, expected = different[0]
            raise JumokError(
                "check.different_ids",
                "{n_different} of {n} sentences have other ids: {text!r} is read as {ids}, and "
                "AutoTokenizer gives {expected}{cause}",
                n_different=len(different),
                n=n,
                text=text[:40],
                ids=_start(ids),
                expected=_start(expected),
                cause=_cause(pipeline, different),
            )
        return Measurement(0.0, 0.0, (n, n))


def _has_empty_prompt(pipeline: Pipeline) -> bool:
    """Whether an empty text gives a language model an id to read: of [BOS] or of the template."""
    try:
        return bool(prompt_ids(pipeline, ""))
    except TokenizerError:
        return False


def _cause(
    pipeline: Pipeline, different: Sequence[tuple[str, list[int], list[int]]]
) -> Message | str:
    """Which of both gives the ids of tokenizer.json itself; "" if neither does, or without one.

    Only texts that are not truncated are compared.
    """
    vocabulary, max_length = pipeline.vocabulary, pipeline.recipe.model.max_length
    if not isinstance(vocabulary, PretrainedTokenizer) or TOKENIZER not in vocabulary.files:
        return ""
    tokenizer = TokenizerJson.read(vocabulary.files).build()
    whole = [rows for rows in different if max(map(len, rows[1:])) < max_length]
    own = [_encoded(tokenizer, text, pair=pipeline.is_pair(text)) for text, _, _ in whole]
    if own and own == [ids for _, ids, _ in whole]:
        return Message(
            "check.file_gives_read_ids",
            "; tokenizer.json itself gives the ids that are read: this version of transformers "
            'replaces its steps by those of a class, so set "tokenizer_class": '
            '"TokenizersBackend" in tokenizer_config.json',
        )
    if own and own == [ids for _, _, ids in whole]:
        return Message(
            "check.file_gives_other_ids",
            "; tokenizer.json itself gives the ids of AutoTokenizer",
        )
    return ""


def _encoded(tokenizer: Tokenizer, line: str, *, pair: bool) -> list[int]:
    text, _, other = line.partition("\t") if pair else (line, "", None)
    ids: list[int] = tokenizer.encode(text, other).ids
    return ids


def _start(ids: Sequence[int]) -> str:
    """The first ids in brackets.

    >>> _start([1, 2])
    '[1, 2]'
    """
    return f"[{', '.join(map(str, ids[:8]))}{', ...' if len(ids) > 8 else ''}]"


def _expected(pipeline: Pipeline, tokenizer: Any, text: str) -> tuple[list[int], list[int]]:
    """The ids and token types of transformers, at most as many as the model reads."""
    max_length = pipeline.recipe.model.max_length
    parts = text.split("\t") if pipeline.is_pair(text) else [text]
    columns = [[part] for part in parts]  # by itself, an empty second text would be no text
    if isinstance(pipeline.model, LanguageModel):
        ids = list(tokenizer(*columns)["input_ids"][0]) or [pipeline.vocabulary.decoder_start_id]
        return ids[:max_length], []  # a prompt is never empty
    found = tokenizer(*columns, truncation=True, max_length=max_length)
    ids = list(found["input_ids"][0])
    return ids, list(found.get("token_type_ids", [[0] * len(ids)])[0])


def _auto_tokenizer(pipeline: Pipeline) -> Any:
    """The tokenizer of transformers for the files of an imported model."""
    origin, vocabulary = pipeline.origin, pipeline.vocabulary_or_none
    if origin is None or not isinstance(vocabulary, PretrainedTokenizer):
        raise NotApplicable("check.not_imported_tokenizer", "trained with jumok, not imported")
    try:
        from transformers import AutoTokenizer
    except ImportError:
        raise NotApplicable(missing_dependency("this check", "transformers").message) from None
    if not (origin.folder / "origin.json").is_file():
        return AutoTokenizer.from_pretrained(origin.folder, local_files_only=True)
    with tempfile.TemporaryDirectory() as name:  # an imported run keeps the files elsewhere
        folder = Path(name)
        vocabulary.save(folder)
        write_atomically(folder / "config.json", json.dumps(dict(origin.config)).encode())
        return AutoTokenizer.from_pretrained(folder, local_files_only=True)
