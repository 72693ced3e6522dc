"""Text pairs: input ids, truncation, augmentation, comparison and prediction."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

import jumok
from jumok.errors import InputError
from jumok.models import PairClassifier, TransformerConfig
from jumok.models.pooling import pair_features, similarity_features
from jumok.tasks.classification import ClassificationJob
from jumok.tasks.inputs.text_encoder import TextEncoder, TextInputs, token_type_ids
from jumok.tasks.pipeline.sequence_classification import predict_all
from jumok.tasks.recipe.recipe import load_recipe
from jumok.tasks.recipe.tables import AugmentationConfig
from jumok.tasks.runs.train import train
from jumok.tasks.shared.encoder_job import LabelledBatch
from jumok.text.ragged import Ragged
from tests.errors import raises
from tests.tasks.tiny_jobs import CPU, classification_job, pair_rows, review_vocabulary
from tests.tiny_runs import REVIEWS

ROWS = pair_rows(40, 3)
SEGMENTS = {"n_segments": 2}


def batches(job: ClassificationJob, number: int = 0) -> Iterator[LabelledBatch]:
    epoch = job.epoch(number)
    return (epoch[index] for index in range(len(epoch)))


def popped(first: int, second: int, capacity: int) -> tuple[int, int]:
    """As in BERT: remove pieces of the longer text until both fit."""
    while first + second > capacity:
        if first > second:
            first -= 1
        else:
            second -= 1
    return first, second


def test_input_ids_of_a_pair() -> None:
    vocabulary = review_vocabulary()
    row = TextEncoder(vocabulary, 24)(["이 영화"], ["재미있어요"])[0].tolist()
    cls, sep = vocabulary.cls_id, vocabulary.sep_id
    first, second = vocabulary.encode("이 영화"), vocabulary.encode("재미있어요")
    assert row == [cls, *first, sep, *second, sep]
    segments = token_type_ids(torch.tensor([row]), sep)[0].tolist()
    assert segments == [0] * (len(first) + 2) + [1] * (len(second) + 1)


def test_empty_texts() -> None:
    vocabulary = review_vocabulary()
    rows = TextEncoder(vocabulary, 24)(["", "이"], ["", ""])
    cls, sep = vocabulary.cls_id, vocabulary.sep_id
    assert rows[0].tolist() == [cls, sep, sep]
    assert rows[1].tolist() == [cls, *vocabulary.encode("이"), sep, sep]


@given(st.integers(0, 12), st.integers(0, 12), st.integers(3, 20))
def test_the_longer_text_is_truncated_first(first: int, second: int, max_length: int) -> None:
    encode = TextEncoder(review_vocabulary(), max_length)
    a, b = list(range(100, 100 + first)), list(range(200, 200 + second))
    row = encode.add_special_tokens(Ragged.from_lists([a]), Ragged.from_lists([b]))[0].tolist()
    kept_a, kept_b = popped(first, second, max_length - 3)
    sep = encode.tokenizer.sep_id
    assert row == [encode.tokenizer.cls_id, *a[:kept_a], sep, *b[:kept_b], sep]


def test_lines_of_pairs() -> None:
    lines = ["가\t나", "", "\t나"]
    assert TextInputs.from_lines(lines, paired=True) == TextInputs(["가", "", ""], ["나", "", "나"])
    assert TextInputs.from_lines(lines, paired=False) == TextInputs(lines)
    for line in ("가", "가\t나\t다"):
        with raises(InputError, "input.not_a_pair"):
            TextInputs.from_lines([line], paired=True)


# An epoch


def test_augmentation_keeps_the_separator() -> None:
    augmentation = AugmentationConfig(
        subword_sampling=1.0, sampling_alpha=0.1, token_dropout=0.5, rdrop_alpha=2.0
    )
    job = classification_job(ROWS, SEGMENTS, augmentation)
    vocabulary = job.tokenizer
    cuts = set()
    for batch in batches(job):
        assert batch.two_views
        assert ((batch.texts.input_ids == vocabulary.sep_id).sum(-1) == 2).all()
        assert (batch.texts.input_ids[:, 0] == vocabulary.cls_id).all()
        cuts |= {tuple(row) for row in batch.texts.input_ids.tolist()}
        assert job.loss(batch).isfinite()
    assert len(cuts) > 1.9 * len(ROWS)  # the two views of a pair differ


def test_both_segment_embeddings_are_trained() -> None:
    for kind in ("encoder", "encoder_decoder"):
        job = classification_job(ROWS, SEGMENTS | {"kind": kind})
        job.loss(next(batches(job))).backward()  # type: ignore[no-untyped-call]
        gradient = job.model.get_parameter("encoder.embedding.segments.weight").grad
        assert gradient is not None
        assert gradient.abs().sum(-1).gt(0).all()


def test_a_single_text_has_token_type_0() -> None:
    rows = [(first, label) for first, _, label in ROWS]
    job = classification_job(rows, SEGMENTS)
    job.loss(next(batches(job))).backward()  # type: ignore[no-untyped-call]
    gradient = job.model.get_parameter("encoder.embedding.segments.weight").grad
    assert gradient is not None
    assert gradient[0].any()
    assert not gradient[1].any()


# Pairs compared


def comparing(seed: int = 0) -> PairClassifier:
    torch.manual_seed(seed)
    config = TransformerConfig(
        vocabulary_size=30, d_model=8, n_heads=2, d_ff=16, n_layers=1, n_segments=2, dropout=0.0
    )
    return PairClassifier(config, 2).eval()


def test_pair_features_exclude_special_tokens() -> None:
    """[CLS] a [SEP] b [SEP]: each mean is over the tokens of one text, for any padding."""
    hidden = torch.arange(8.0)[None, :, None].expand(2, 8, 3)
    real = torch.tensor([[True] * 6 + [False] * 2, [False] * 2 + [True] * 6])
    segments = torch.tensor([[0, 0, 0, 0, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0, 1, 1]])
    found = pair_features(hidden, real, segments).unflatten(-1, (4, 3))
    for row, (u, v) in zip(found, [(1.5, 4.0), (3.5, 6.0)], strict=True):
        assert row[:, 0].tolist() == [u, v, v - u, u * v]


def test_similarity_features_by_hand() -> None:
    """Against a loop over the tokens of the texts, for any padding."""
    hidden = torch.randn(2, 8, 5, generator=torch.Generator().manual_seed(0))
    real = torch.tensor([[True] * 6 + [False] * 2, [False] * 2 + [True] * 6])
    segments = torch.tensor([[0, 0, 0, 0, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0, 1, 1]])
    found = similarity_features(hidden, real, segments)
    for row, (firsts, seconds) in enumerate([([1, 2], [4]), ([3, 4], [6])]):
        a, b = hidden[row, firsts], hidden[row, seconds]
        near = torch.tensor([[F.cosine_similarity(x, y, dim=0) for y in b] for x in a])
        expected = [F.cosine_similarity(a.mean(0), b.mean(0), dim=0)]
        expected += [near.amax(1).mean(), near.amax(0).mean()]
        torch.testing.assert_close(found[row], torch.stack(expected))


def test_similarity_is_learned_first() -> None:
    """The maps start at 0; a small trained similarity already separates the pairs."""
    model = comparing()
    assert not model(
        torch.tensor([[5, 7, 4, 8, 4]]), segments=torch.tensor([[0, 0, 0, 1, 1]])
    ).any()
    with torch.no_grad():
        model.similarity.weight.add_(0.01)
    segments = torch.tensor([[0, 0, 0, 1, 1]] * 2)
    same, other = model(torch.tensor([[5, 7, 4, 7, 4], [5, 7, 4, 9, 4]]), segments=segments)[:, 0]
    assert same > other + 0.005  # of 0.01 * 8 * 3 at most


def test_pair_features_of_an_empty_text() -> None:
    model = comparing()
    assert pair_features(torch.ones(1, 3, 8), None, None)[0, 8:16].eq(0).all()
    assert similarity_features(torch.ones(1, 3, 8), None, None).eq(0).all()
    assert model(torch.tensor([[5, 7, 4, 4]])).isfinite().all()


def test_compare_pooling_trains_and_is_independent_of_the_batch() -> None:
    job = classification_job(ROWS, SEGMENTS | {"pooling": "compare"})
    job.loss(next(batches(job))).backward()  # type: ignore[no-untyped-call]
    gradient = job.model.get_parameter("output.weight").grad
    assert gradient is not None
    assert gradient.unflatten(-1, (4, -1)).abs().sum((0, 2)).gt(0).all()
    gradient = job.model.get_parameter("similarity.weight").grad
    assert gradient is not None
    assert gradient.abs().sum(0).gt(0).all()
    torch.nn.init.normal_(job.model.get_parameter("output.weight"))
    job.model.eval()
    together = predict_all(job.model, job.train.ids, job.tokenizer, CPU)
    for i in range(5):
        alone = predict_all(job.model, job.train.ids.take([i]), job.tokenizer, CPU)
        torch.testing.assert_close(together[i], alone[0], atol=1e-5, rtol=0)  # float32 sums


def test_compare_pooling_needs_pairs() -> None:
    for overrides in (["data.corpus=nsmc"], ["data.corpus=kornli", "model.n_segments=0"]):
        with raises(InputError, "recipe.compare_needs_pairs"):
            load_recipe("nsmc", ["model.pooling=compare", *overrides])


# A run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny run: whether two reviews agree."""
    folder = tmp_path_factory.mktemp("pairs")
    for seed, (split, n) in enumerate([("train", 120), ("dev", 30), ("test", 40)]):
        lines = ["one\tother\tlabel", *map("\t".join, pair_rows(n, seed))]
        (folder / f"{split}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    path = folder / "recipe.toml"
    path.write_text(REVIEWS.format(folder=folder), encoding="utf-8")
    overrides = ["data.text=one", "data.pair=other", "model.n_segments=2", "model.max_length=24"]
    train(load_recipe(str(path), overrides), folder / "run")
    return folder / "run"


def test_a_run_predicts_pairs(run: Path) -> None:
    loaded = jumok.load(run)
    lines = ["이 영화 재미있어요\t음악이 최고예요 ㅋㅋ", "", "이 영화\t이 영화"]
    answers = loaded(lines)
    assert [answer.text for answer in answers] == lines
    assert loaded(lines[0]).probabilities == pytest.approx(answers[0].probabilities, abs=1e-5)
    with raises(InputError, "input.not_a_pair"):
        loaded("이 영화")


def test_logits_of_ids_equal_those_of_texts(run: Path) -> None:
    loaded = jumok.load(run)
    row = TextEncoder(loaded.vocabulary, 24)(["이 영화"], ["별로예요"])[0]
    ids = torch.tensor(np.array([row], dtype=np.int64))
    segments = token_type_ids(ids, loaded.vocabulary.sep_id)
    logits = loaded.logits(ids, token_type_ids=segments)
    probabilities = list(loaded("이 영화\t별로예요").probabilities.values())
    torch.testing.assert_close(logits.softmax(-1)[0].tolist(), probabilities, atol=1e-6, rtol=0)
    assert not torch.equal(logits, loaded.logits(ids))


def test_initialization_from_a_run_without_segments(
    run: Path, review_run: Path, tmp_path: Path
) -> None:
    """Every weight that fits is loaded; the segment embedding is new."""
    path = run.parent / "recipe.toml"
    overrides = ["data.text=one", "data.pair=other", "model.n_segments=2", "training.steps=1"]
    overrides += [f"model.init={review_run}", "training.learning_rate=1e-9"]
    train(load_recipe(str(path), overrides), tmp_path / "run")
    old, new = jumok.load(review_run).model, jumok.load(tmp_path / "run").model
    name = "encoder.embedding.tokens.weight"
    torch.testing.assert_close(new.get_parameter(name), old.get_parameter(name))
    assert new.get_parameter("encoder.embedding.segments.weight").any()


@pytest.mark.parametrize("overrides", [["model.n_segments=1"], ["data.pieces=true"]])
def test_invalid_settings_for_pairs(overrides: list[str]) -> None:
    with raises(InputError, "recipe.unusable_pairs"):
        load_recipe("nsmc", ["data.corpus=question_pair", "augmentation={}", *overrides])


def test_recipes_with_pairs() -> None:
    assert load_recipe("nsmc", ["data.corpus=kornli"]).paired
    assert not load_recipe("nsmc").paired
    assert not load_recipe("nsmc", ["data.corpus=chatbot"]).paired


# Texts alone
