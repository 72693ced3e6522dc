"""Subword regularisation: a function of (texts, alpha, seed), and the distribution it promises."""

import itertools
import math
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

from jumok.errors import InputError
from jumok.text import SentencePieceTokenizer
from jumok.text.sentencepiece_proto import read_model
from tests.errors import raises
from tests.text.sample_texts import CORPUS, SENTENCES, sentencepiece_model, trained

KINDS = ["unigram", "bpe"]

PROGRAM = """
import random, hashlib, sys
import numpy as np
import sentencepiece
from tests.text.sample_texts import CORPUS, trained
sentencepiece.set_random_generator_seed(5); np.random.seed(3); random.seed(4)
for kind in ("bpe", "unigram"):
    trained(kind).sample_batch(CORPUS[:7], alpha=0.3, seed=99)
for kind in ("unigram", "bpe"):
    rows = trained(kind).sample_batch(CORPUS, alpha=0.2, seed=7)
    print(hashlib.sha256(repr(rows).encode()).hexdigest())
"""


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_gives_the_same_ids_after_other_calls(kind: str) -> None:
    vocabulary = trained(kind)
    first = vocabulary.sample_batch(CORPUS, alpha=0.2, seed=7)
    other = vocabulary.sample_batch(CORPUS, alpha=0.2, seed=8)
    vocabulary.sample_batch(SENTENCES, alpha=0.9, seed=7)
    sentencepiece.set_random_generator_seed(1)
    fresh = SentencePieceTokenizer(vocabulary.to_bytes())
    assert first == vocabulary.sample_batch(CORPUS, alpha=0.2, seed=7)
    assert first == fresh.sample_batch(list(CORPUS), alpha=0.2, seed=7)
    assert first != other


def test_a_new_process_gives_the_same_ids(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    paths = {"PYTHONPATH": f"{root}{os.pathsep}{root / 'src'}"}
    printed = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            cwd=tmp_path,
            env=paths | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(printed) == 1
    assert len(printed.pop().split()) == 2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("byte_fallback", [False, True])
@pytest.mark.parametrize("alpha", [0.0, 0.1, 1.0])
def test_a_sample_decodes_to_the_same_text(kind: str, byte_fallback: bool, alpha: float) -> None:
    vocabulary = trained(kind, byte_fallback)
    texts = [*SENTENCES, "", "  뷁뷁 이  영화 뷁", "훮👍가\n나"]
    sampled = vocabulary.sample_batch(texts, alpha=alpha, seed=3)
    rows = vocabulary.encode_batch(texts)
    assert vocabulary.decode_batch(sampled) == vocabulary.decode_batch(rows)
    unk = vocabulary.unk_id
    assert [row.count(unk) for row in sampled] == [row.count(unk) for row in rows]


@given(
    st.lists(st.text(st.sampled_from("영화배우는가 ▁\n훮👍[CLS]")), max_size=5), st.integers(0, 99)
)
def test_any_text_survives_sampling(texts: list[str], seed: int) -> None:
    for kind in KINDS:
        vocabulary = trained(kind, True)
        sampled = vocabulary.sample_batch(texts, alpha=0.3, seed=seed)
        assert vocabulary.decode_batch(sampled) == [text.replace("▁", " ") for text in texts]


def test_bpe_without_dropout_is_the_plain_encoding() -> None:
    vocabulary = trained("bpe")
    assert vocabulary.sample_batch(CORPUS, alpha=0.0, seed=1) == vocabulary.encode_batch(CORPUS)


def test_bpe_drops_a_merge_with_probability_alpha() -> None:
    """A word of one merge is left apart with probability alpha."""
    vocabulary = SentencePieceTokenizer(
        sentencepiece_model(["가나 가나 다"] * 3, model_type="bpe", vocab_size=8)
    )
    assert vocabulary.pieces("가나") == ["▁", "가나"] or vocabulary.pieces("가나") == ["▁가", "나"]
    texts = ["가나"] * 20_000
    apart = sum(len(row) == 3 for row in vocabulary.sample_batch(texts, alpha=0.3, seed=2))
    assert abs(apart / len(texts) - 0.3) < 0.015  # 4.6 standard deviations


@pytest.mark.parametrize("alpha", [0.0, 0.2, 1.0])
def test_unigram_samples_every_segmentation_by_its_probability(alpha: float) -> None:
    """Against all cuts of a word written out, with SentencePiece's own scores."""
    vocabulary = trained()
    itself = sentencepiece.SentencePieceProcessor(model_proto=vocabulary.to_bytes())
    word = "▁영화에서"
    weights = {}
    for ends in itertools.product([False, True], repeat=len(word) - 1):
        cuts = [0, *(i + 1 for i, end in enumerate(ends) if end), len(word)]
        pieces = tuple(word[a:b] for a, b in itertools.pairwise(cuts))
        ids = [itself.piece_to_id(piece) for piece in pieces]
        if itself.unk_id() not in ids:
            weights[pieces] = math.exp(alpha * sum(map(itself.get_score, ids)))
    total, n = sum(weights.values()), 20_000
    assert len(weights) >= 4
    rows = vocabulary.sample_batch(["영화에서"] * n, alpha=alpha, seed=4)
    counts = Counter(tuple(vocabulary.piece(i) for i in row) for row in rows)
    assert set(counts) <= set(weights)
    for pieces, weight in weights.items():
        p = weight / total
        tolerance = 5 * math.sqrt(p * (1 - p) / n) + 1 / n  # five standard deviations
        assert abs(counts[pieces] / n - p) <= tolerance


def test_unigram_with_a_large_alpha_returns_the_best_segmentation() -> None:
    """Of cuts that score alike any may come, so the scores are compared."""
    vocabulary = trained()
    scores = read_model(vocabulary.to_bytes()).scores
    sampled = vocabulary.sample_batch(CORPUS, alpha=100.0, seed=1)
    for row, best in zip(sampled, vocabulary.encode_batch(CORPUS), strict=True):
        if vocabulary.unk_id not in best:
            assert sum(scores[i] for i in row) > sum(scores[i] for i in best) - 0.2


@pytest.mark.parametrize("kind", KINDS)
def test_user_defined_pieces_are_never_split(kind: str) -> None:
    data = sentencepiece_model(model_type=kind, user_defined_symbols=["<제목>", "<제", "[SEP]"])
    vocabulary = SentencePieceTokenizer(data)
    texts = ["이 영화<제목>정말 <제목><제[SEP]"] * 20
    for row in vocabulary.sample_batch(texts, alpha=0.5, seed=0):
        assert row.count(vocabulary.id("<제목>")) == 2
        assert row.count(vocabulary.id("<제")) == 1
        assert vocabulary.sep_id not in row


@pytest.mark.parametrize(
    ("kind", "alpha", "seed", "message"),
    [
        ("unigram", -0.1, 0, "text.unigram_alpha"),
        ("unigram", float("nan"), 0, "text.unigram_alpha"),
        ("bpe", 1.5, 0, "text.bpe_alpha"),
        ("bpe", 0.1, -1, "text.seed"),
    ],
)
def test_invalid_alpha_and_seed_are_errors(
    kind: str, alpha: float, seed: int, message: str
) -> None:
    with raises(InputError, message):
        trained(kind).sample_batch(["가"], alpha=alpha, seed=seed)
