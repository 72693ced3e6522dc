"""Explanations: predictions without each word, and the attention that words receive."""

import numpy as np
import pytest

from jumok.evaluation.regression import spearman
from jumok.interpret import leave_one_out
from jumok.interpret.leave_one_out import attention_received, remove_span
from jumok.interpret.schema import Explained
from jumok.interpret.trace import Trace
from jumok.interpret.tracing import trace
from tests.interpret.random_models import PAIRS, REVIEWS, loaded_of

LONG = "이 영화 정말 재미있어요 ㅋㅋ"


def explained(made: Trace, number: int = 0) -> Explained:
    assert made.info.classification is not None
    return made.info.classification.sequences[number]


@pytest.mark.parametrize("kind", ["classifier", "first token", "encoder-decoder classifier"])
def test_explanations_equal_predictions_without_the_word(kind: str) -> None:
    loaded = loaded_of(kind)
    made = trace(loaded, [LONG, REVIEWS[0]])
    assert made.info.classification is not None
    assert made.info.classification.labels == loaded.labels
    for number, text in enumerate((LONG, REVIEWS[0])):
        found = explained(made, number)
        answer = loaded(text).probabilities  # type: ignore[attr-defined]
        assert np.allclose(found.probabilities, list(answer.values()), atol=1e-5)
        eojeols = text.split()
        assert [word.text for word in found.words] == eojeols
        for place, word in enumerate(found.words):
            shorter = " ".join(eojeols[:place] + eojeols[place + 1 :])
            answer = loaded(shorter).probabilities  # type: ignore[attr-defined]
            assert np.allclose(word.without, list(answer.values()), atol=1e-5)
            assert text[slice(*word.span)] == word.text


def test_words_of_pairs_are_left_out_of_their_own_text() -> None:
    loaded = loaded_of("pairs")
    found = explained(trace(loaded, PAIRS[0]))
    for word in found.words:
        first, second = PAIRS[0].split("\t")
        begin = word.span[0]
        if begin > len(first):
            second = remove_span(second, (begin - len(first) - 1, word.span[1] - len(first) - 1))
        else:
            first = remove_span(first, word.span)
        answer = loaded(f"{first}\t{second}").probabilities  # type: ignore[attr-defined]
        assert np.allclose(word.without, list(answer.values()), atol=1e-5)


@pytest.mark.parametrize("kind", ["classifier", "first token", "encoder-decoder classifier"])
def test_nothing_moves_into_the_window_of_a_truncated_text(kind: str) -> None:
    """Words that were not read have no contribution, and the others none of words behind them."""
    loaded = loaded_of(kind)
    words = LONG.split()
    ending = " 배우 연기가 너무 아쉽고 지루했지만 음악은 좋았어요"
    sentence = " ".join(words * 3)
    first, second = trace(loaded, sentence + ending), trace(loaded, sentence + " ㅋㅋ" * 40)
    tokens = first.info.tokens("source")
    assert tokens.truncated > 0
    found, other = explained(first), explained(second)
    last_read = max(tokens.words)
    assert len(found.words) == last_read + 1 < len((sentence + ending).split())
    for word, same in zip(found.words, other.words, strict=True):
        assert np.allclose(word.without, same.without, atol=1e-5)


def test_truncated_pairs_leave_out_the_words_of_both_texts_that_were_read() -> None:
    loaded = loaded_of("pairs")
    made = trace(loaded, "\t".join([" ".join(LONG.split() * 4)] * 2))
    tokens = made.info.tokens("source")
    assert tokens.truncated > 0
    spans = [word.span for word in explained(made).words]
    tab = tokens.text.index("\t")
    assert any(end <= tab for _, end in spans)
    assert any(begin > tab for begin, _ in spans)
    assert len(spans) == len(set(tokens.words) - {-1}) < len(tokens.text.split())


def test_muted_heads_apply_to_explanations() -> None:
    loaded = loaded_of("classifier")
    mute = [("encoder", layer, head) for layer in (0, 1) for head in (0, 1)]
    plain, muted = explained(trace(loaded, LONG)), explained(trace(loaded, LONG, mute=mute))
    alone = explained(trace(loaded, remove_span(LONG, plain.words[0].span), mute=mute))
    assert np.allclose(muted.words[0].without, alone.probabilities, atol=1e-5)
    assert not np.allclose(muted.words[0].without, plain.words[0].without, atol=1e-3)


@pytest.mark.parametrize("kind", ["classifier", "first token", "encoder-decoder classifier"])
def test_agreement_is_the_rank_correlation_with_attention(kind: str) -> None:
    loaded = loaded_of(kind)
    made = trace(loaded, LONG, pad_to=20)
    found, tokens = explained(made), made.info.tokens("source")
    block = "cross" if kind == "encoder-decoder classifier" else "encoder"
    heads = made.weights(block, 1)
    real = made.info.tokens(made.info.block(block).queries).real
    paid = np.zeros(len(tokens))
    rows = [0] if kind == "first token" else [t for t, is_real in enumerate(real) if is_real]
    for head in heads:
        for t in rows:
            paid += head[t] / (len(rows) * len(heads))
    assert np.allclose(attention_received(loaded, made, 0), paid, atol=1e-6)
    assert abs(paid.sum() - 1) < 1e-5
    of_words = [
        sum(paid[i] for i in range(len(tokens)) if tokens.words[i] == number)
        for number in range(len(found.words))
    ]
    best = int(np.argmax(found.probabilities))
    changes = [abs(word.without[best] - found.probabilities[best]) for word in found.words]
    assert found.agreement is not None
    assert abs(found.agreement - spearman(changes, of_words)) < 1e-9


def test_two_words_give_no_agreement() -> None:
    found = explained(trace(loaded_of("classifier"), "재미있어요 ㅋㅋ"))
    assert len(found.words) == 2
    assert found.agreement is None


def test_explanations_are_optional() -> None:
    found = explained(trace(loaded_of("classifier"), LONG, explain=False))
    assert found.words == ()
    assert found.agreement is None
    assert abs(sum(found.probabilities) - 1) < 1e-6


def test_only_the_first_words_of_long_texts_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leave_one_out, "MAX_WORDS", 3)
    made = trace(loaded_of("classifier"), "가 나 다 라 마")
    assert [word.text for word in explained(made).words] == ["가", "나", "다"]
    assert "Only the first 3 of 5 words were left out one at a time." in made.info.notes


def test_other_tasks_are_not_explained() -> None:
    for kind in ("regression", "tagging", "masked"):
        text = PAIRS[0] if kind == "regression" else REVIEWS[0]
        assert trace(loaded_of(kind), text).info.classification is None
