"""Causal language modeling: packed equals unpacked, every token is scored once, continuation."""

import json
import math
import random
import unicodedata
from dataclasses import replace
from functools import cache
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from jumok.config_io import from_dict
from jumok.data.config import DataConfig
from jumok.data.resumable_loader import Epoch
from jumok.data.table import Table
from jumok.decoding import CausalLMDecoder, DecodingConfig
from jumok.errors import InputError
from jumok.evaluation.language_models import LanguageModelMetrics
from jumok.models import LanguageModel
from jumok.nn import AttentionMask
from jumok.tasks import causal_lm
from jumok.tasks.causal_lm import CausalLMJob, PackedBatch, TokenizedDocuments, score_documents
from jumok.tasks.inputs.batches import ShardedBatches
from jumok.tasks.pipeline.outputs import GeneratedText
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.recipe.recipe import Recipe, load_recipe
from jumok.tasks.recipe.tables import ModelConfig, WindowConfig
from jumok.tasks.registry import get_task
from jumok.tasks.runs.load import load
from jumok.tasks.runs.train import train
from jumok.tasks.task import GenerativeTask
from jumok.text.sentencepiece import SentencePieceTokenizer, VocabularyConfig
from jumok.training.config import TrainingConfig
from tests.tasks.tiny_jobs import joint, splits
from tests.tiny_runs import reviews

CPU = torch.device("cpu")
TEXTS = [text for text, _ in reviews(24, 0)]
LONG = " ".join(TEXTS)


@cache
def vocabulary() -> SentencePieceTokenizer:
    return SentencePieceTokenizer.train(TEXTS, VocabularyConfig(size=66))


def recipe(across: bool = False, overlap: float = 0.5, **changes: Any) -> Recipe:
    model = {"kind": "decoder", "d_model": 16, "n_heads": 2, "d_ff": 32, "n_layers": 2}
    model |= {"vocabulary_size": len(vocabulary()), "max_length": 16, "dropout": 0.0}
    return Recipe(
        name="tiny",
        task="language_modeling",
        data=DataConfig(),
        windows=WindowConfig(across_documents=across, overlap=overlap),
        decoding=DecodingConfig(max_length=12),
        model=from_dict(ModelConfig, model | changes),
        training=TrainingConfig(steps=10, batch_tokens=64),
    )


def model(plan: Recipe) -> LanguageModel:
    torch.manual_seed(0)
    return LanguageModel(plan.model).eval()


def documents(texts: list[str]) -> TokenizedDocuments:
    return TokenizedDocuments.of(texts, vocabulary())


def job(plan: Recipe, texts: list[str] = TEXTS) -> CausalLMJob:
    data = splits([(text,) for text in texts], ["text"])
    return CausalLMJob(plan, model(plan), joint(vocabulary()), data, CPU)


@torch.inference_mode()
def nats(network: LanguageModel, row: Any, context: int = 10_000) -> Tensor:
    """-log p of every token but the first, each from at most `context` previous tokens."""
    ids = torch.tensor(np.asarray(row)[None].astype(np.int64))
    found = []
    for location in range(1, ids.shape[1]):
        logits = network(ids[:, max(location - context, 0) : location])[0, -1]
        found.append(-logits.log_softmax(-1)[ids[0, location]])
    return torch.stack(found)


# Packing


@pytest.mark.parametrize("positions", ["learned", "rotary", "relative"])
@torch.inference_mode()
def test_packed_loss_equals_unpacked_loss(positions: str) -> None:
    plan = recipe(positions=positions)
    learner = job(plan)
    epoch = learner.epoch(0)
    packed = math.fsum(learner.loss(epoch[i]).item() for i in range(len(epoch)))
    rows = learner.train.rows
    alone = math.fsum(nats(learner.model, rows[i]).sum().item() for i in range(len(rows)))
    assert packed == pytest.approx(alone, rel=1e-5)  # sums of float32 in another order
    assert sum(epoch[i].n_targets for i in range(len(epoch))) == len(learner.train.rows.ids) - len(
        TEXTS
    )
    assert len(epoch) < len(TEXTS)  # several share a row


@torch.inference_mode()
def test_in_one_stream_the_previous_document_matters() -> None:
    def second(first: str) -> float:
        plan = recipe(across=True, max_length=64)
        learner = job(plan, [first, "이 영화 최고예요"])
        both = score_documents(
            learner.model, learner.dev, plan.model.max_length, plan.windows, vocabulary(), CPU
        )
        alone = nats(learner.model, learner.dev.rows[0]).sum().item()
        return both.nll_nats - alone

    assert second("연기가 좋았어요") != pytest.approx(second("결말이 별로예요"), abs=1e-3)


def windows(epoch: Epoch[PackedBatch]) -> frozenset[tuple[int, ...]]:
    """The windows of an epoch, in any order."""
    found = set()
    for batch in map(epoch.__getitem__, range(len(epoch))):
        apart = torch.arange(len(batch.ids))[:, None].expand_as(batch.ids)  # a window a row
        numbers = apart if batch.window_ids is None else batch.window_ids
        for row in zip(numbers.tolist(), batch.ids.tolist(), strict=True):
            for number, tokens in groupby(zip(*row, strict=True), key=itemgetter(0)):
                if number >= 0:
                    found.add(tuple(token for _, token in tokens))
    return frozenset(found)


def targets(batches: list[PackedBatch]) -> list[int]:
    """All tokens that count in the loss, in the order of their ids."""
    found = [
        batch.labels if batch.loss_mask is None else batch.labels[batch.loss_mask]
        for batch in batches
    ]
    return sorted(torch.cat([labels.flatten() for labels in found]).tolist())


def test_every_epoch_has_every_token_once_in_new_windows() -> None:
    for plan in (recipe(), recipe(across=True)):
        learner = job(plan, [*TEXTS, LONG])
        references, rows = [], []
        for number in (0, 1):
            epoch = learner.epoch(number)
            batches = [epoch[i] for i in range(len(epoch))]
            rows.append(torch.cat([batch.ids for batch in batches]).tolist())
            references.append(targets(batches))
        ids = learner.train.rows.ids
        assert references[0] == references[1] == sorted(ids[ids != vocabulary().bos_id].tolist())
        read = {windows(learner.epoch(number)) for number in range(4)}
        assert len(read) > 1  # two epochs may draw the same one of 16 beginnings
        again = learner.epoch(1)
        assert torch.cat([again[i].ids for i in range(len(again))]).tolist() == rows[1]


def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, tokens in (("LARGE", 100), ("SHARD", 100), ("BLOCK", 30)):
        monkeypatch.setattr(causal_lm, f"{name}_TOKENS", tokens)


@pytest.mark.parametrize("across", [False, True])
def test_large_data_are_shuffled_in_shards(monkeypatch: pytest.MonkeyPatch, across: bool) -> None:
    small_shards(monkeypatch)
    learner = job(recipe(across), [*TEXTS, LONG])
    epochs = [learner.epoch(number) for number in (0, 1)]
    ids = learner.train.rows.ids
    assert len(ids) > 4 * causal_lm.SHARD_TOKENS
    seen = []
    for epoch in epochs:
        assert isinstance(epoch, ShardedBatches)
        batches = [epoch[i] for i in range(len(epoch))]
        assert targets(batches) == sorted(ids[ids != vocabulary().bos_id].tolist())
        seen.append(torch.cat([batch.ids for batch in batches]).tolist())
    assert seen[0] != seen[1]
    again = job(recipe(across), [*TEXTS, LONG]).epoch(1)
    for index in (len(again) - 1, 0, len(again) // 2):  # as a training that resumes there
        assert torch.equal(again[index].ids, epochs[1][index].ids)


# Scores


@torch.inference_mode()
def test_large_data_are_scored_as_small_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = recipe()
    learner = job(plan, [*TEXTS, LONG])

    def score() -> LanguageModelMetrics:
        width = plan.model.max_length
        return score_documents(learner.model, learner.dev, width, plan.windows, vocabulary(), CPU)

    whole = score()
    small_shards(monkeypatch)
    assert len(list(learner.dev.shards())) > 1
    parts = score()
    assert (parts.n, parts.tokens, parts.bytes) == (whole.n, whole.tokens, whole.bytes)
    assert parts.nll_nats == pytest.approx(whole.nll_nats, rel=1e-5)  # packed into other rows


@pytest.mark.slow
@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize("overlap", [0.0, 0.5, 0.9])
def test_each_token_of_a_long_document_is_scored_once(across: bool, overlap: float) -> None:
    plan = recipe(across, overlap)
    learner = job(plan, [LONG])
    row, width = learner.dev.rows[0], plan.model.max_length
    found = score_documents(
        learner.model, learner.dev, plan.model.max_length, plan.windows, vocabulary(), CPU
    )
    # by hand: windows a stride apart, of which all but the first count their newest tokens alone
    stride, expected, done = width - int(width * overlap), 0.0, 0
    while done < len(row) - 1:
        end = min(width if done == 0 else done + stride, len(row) - 1)
        begin = max(end - width, 0)
        expected += nats(learner.model, row[begin : end + 1])[done - begin :].sum().item()
        done = end
    assert found.tokens == len(row) - 1
    assert found.nll_nats == pytest.approx(expected, rel=1e-5)
    assert found.bytes == len(LONG.encode())


def test_unicode_normalization_does_not_change_bits_per_byte() -> None:
    apart = unicodedata.normalize("NFD", LONG)
    assert apart != LONG
    both = [TokenizedDocuments.of([text], vocabulary()) for text in (LONG, apart)]
    assert len(both[0].rows.ids) == len(both[1].rows.ids)
    assert both[0].bytes == both[1].bytes == len(LONG.encode())


def test_an_untrained_model_has_the_perplexity_of_its_vocabulary() -> None:
    plan = recipe(tie_embeddings=False)
    learner = job(plan)
    torch.nn.init.zeros_(learner.model.output.weight)
    found = score_documents(
        learner.model, learner.dev, plan.model.max_length, plan.windows, vocabulary(), CPU
    )
    assert found.perplexity == pytest.approx(len(vocabulary()))
    bits = found.tokens * math.log2(len(vocabulary()))
    assert found.bits_per_byte == pytest.approx(bits / len("".join(TEXTS).encode()))
    assert found.n == len(TEXTS)


def test_evaluation_scores() -> None:
    plan = recipe()
    loaded = get_task(plan.task).pipeline(model(plan), vocabulary(), plan, (), CPU)
    table = Table.from_columns({"text": [*TEXTS[:3], "뷁", ""]})
    scores = loaded.task.evaluate(loaded, table, "test").scores
    assert list(scores)[:5] == ["task", "split", "n", "perplexity", "bits_per_byte"]
    assert (scores["task"], scores["split"], scores["n"]) == ("language_modeling", "test", 5)
    assert 0 < scores["unknown"] < 0.2


def test_scores_do_not_depend_on_other_rows() -> None:
    plan = recipe()
    network = model(plan)
    one_by_one = [
        score_documents(
            network, documents([text]), plan.model.max_length, plan.windows, vocabulary(), CPU
        ).nll_nats
        for text in TEXTS
    ]
    together = score_documents(
        network, documents(TEXTS), plan.model.max_length, plan.windows, vocabulary(), CPU
    ).nll_nats
    assert together == pytest.approx(sum(one_by_one), rel=1e-5)


# Continuing


def go_on(loaded: Pipeline, *texts: str) -> list[GeneratedText]:
    answers = loaded.predict(texts)
    assert all(isinstance(answer, GeneratedText) for answer in answers)
    return cast(list[GeneratedText], answers)


def continuer(across: bool = False) -> Pipeline:
    plan = recipe(across)
    return get_task(plan.task).pipeline(model(plan), vocabulary(), plan, (), CPU)


def test_a_continuation_equals_greedy_by_hand() -> None:
    loaded = continuer()
    (answer,) = go_on(loaded, "이 영화")
    ids = [vocabulary().bos_id, *vocabulary().encode("이 영화")]
    given, score = len(ids), 0.0
    with torch.inference_mode():
        while len(ids) < given + 12 and ids[-1] != vocabulary().eos_id and len(ids) <= 16:
            log_p = loaded.model(torch.tensor([ids]))[0, -1].log_softmax(-1)
            ids.append(int(log_p.argmax()))
            score += float(log_p.max())
    before, whole = vocabulary().decode_batch([ids[:given], ids])
    assert answer.text == "이 영화"
    assert before + answer.output == whole
    assert answer.score == pytest.approx(score, rel=1e-4)


def test_continuations_are_independent_and_in_order() -> None:
    for loaded in (continuer(), continuer(across=True)):
        texts = ["이 영화", "", "음악이 정말 좋았어요 추천합니다", "연기가 너무", "이 영화"]
        together = go_on(loaded, *texts)
        assert [answer.text for answer in together] == texts
        for text, answer in zip(texts, together, strict=True):
            (alone,) = go_on(loaded, text)
            assert alone.output == answer.output
            assert alone.score == pytest.approx(answer.score, abs=1e-4)


def test_prompts_of_different_lengths_share_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Padded where prompt and output fit the window; otherwise one batch per length."""
    capacities: list[int] = []
    init = CausalLMDecoder.__init__

    def counted(self: CausalLMDecoder, *given: Any, capacity: int) -> None:
        capacities.append(capacity)
        init(self, *given, capacity=capacity)

    monkeypatch.setattr(CausalLMDecoder, "__init__", counted)
    texts = ["이 영화", "", "연기가 너무 좋았어요", "이"]
    lengths = {len(vocabulary().encode(text)) for text in texts}
    assert len(lengths) == len(texts)
    for settings in ([], ["beam=2"], ["sample=true", "seed=3"]):
        loaded = continuer().with_decoding(["max_length=4", *settings, "kernel=torch"])
        together = go_on(loaded, *texts)
        assert capacities == [1 + max(lengths) + 4 - 1]
        for text, answer in zip(texts, together, strict=True):
            (alone,) = go_on(loaded, text)
            assert alone.output == answer.output
            assert alone.score == pytest.approx(answer.score, abs=1e-4)
        capacities.clear()
    go_on(continuer().with_decoding(["max_length=16", "kernel=torch"]), *texts)
    assert len(capacities) >= len(texts)
    assert set(capacities) == {16}  # whole windows, which slide


def test_max_ratio_does_not_apply() -> None:
    loaded = continuer().with_decoding(["max_ratio=1.5"])
    assert isinstance(loaded.task, GenerativeTask)
    assert "max_ratio" not in str(loaded.task.effective_decoding(loaded))


def test_n_best_and_samples_belong_to_their_prompt() -> None:
    loaded = continuer().with_decoding(["sample=true", "n_best=3", "seed=5"])
    (answer,) = go_on(loaded, "이 영화")
    assert answer.n_best is not None
    assert len({each.output for each in answer.n_best}) > 1
    assert answer.output == answer.n_best[0].output
    _, again = go_on(loaded, "연기가", "이 영화")
    assert again.n_best is not None
    assert [each.output for each in again.n_best] == [each.output for each in answer.n_best]


def test_a_prompt_longer_than_the_window_is_continued() -> None:
    loaded = continuer().with_decoding(["max_length=40", "min_length=30"])
    prompt = " ".join(TEXTS[:6])
    assert len(vocabulary().encode(prompt)) > loaded.recipe.model.max_length
    (answer,) = go_on(loaded, prompt)
    assert len(vocabulary().encode(answer.output)) > loaded.recipe.model.max_length


# From recipe to run


RECIPE = """
name = "reviews"
task = "language_modeling"

[data]
train = "{folder}/train.txt"
test = "{folder}/test.txt"
dev_rows = 20

[vocabulary]
size = 66

[model]
kind = "decoder"
d_model = 32
n_heads = 2
d_ff = 64
n_layers = 1
norm_first = true
positions = "rotary"
dropout = 0.0
max_length = 32

[training]
steps = 200
batch_tokens = 512
learning_rate = 0.01
schedule = "cosine"
warmup_steps = 5
evaluate_every = 100
precision = "float32"

[decoding]
max_length = 30
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("language-model")
    for seed, (split, n) in enumerate([("train", 160), ("test", 30)]):
        lines = [text for text, _ in reviews(n, seed)]
        (folder / f"{split}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    path = folder / "recipe.toml"
    path.write_text(RECIPE.format(folder=folder), encoding="utf-8")
    train(load_recipe(str(path)), folder / "run")
    return folder / "run"


def test_a_language_model_learns_reviews(run: Path) -> None:
    loaded = load(run)
    results = json.loads((run / "results.json").read_text(encoding="utf-8"))
    assert results["task"] == "language_modeling"
    assert results["perplexity"] < 10  # 66 before anything is learned
    assert results["dev"]["metric"] == "bits_per_byte"
    rng = random.Random(0)
    prompts = rng.sample(["이 영화 정말", "음악이 너무", "결말이 정말", "배우들이 너무"], 4)
    known = {word for text, _ in reviews(120, 0) for word in text.split()}
    for answer in go_on(loaded, *prompts):
        assert answer.output.startswith(" ")
        assert set(answer.output.split()) <= known


@pytest.mark.parametrize("name", ["lm-ko", "lm-ko-modern", "characters"])
def test_builtin_language_model_recipes(name: str) -> None:
    assert load_recipe(name).task == "language_modeling"


def test_windows_need_a_language_model() -> None:
    with pytest.raises(
        InputError, match=r"\[windows\] must be left out for the task classification"
    ):
        load_recipe("nsmc", ["windows.overlap=0.25"])


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@torch.inference_mode()
def test_label_smoothing_of_tokens_is_for_training_only(smoothing: float) -> None:
    """The dev loss has none, so that runs can be compared."""
    plan = recipe()
    plan = replace(plan, training=replace(plan.training, label_smoothing=smoothing))
    learner = job(plan)
    batch = learner.epoch(0)[0]
    assert batch.window_ids is not None
    assert batch.loss_mask is not None
    mask = AttentionMask.from_segments(batch.window_ids, causal=True)
    logits = learner.model(batch.ids, mask, positions=batch.positions)  # (R, W, V)
    references = batch.labels.masked_fill(~batch.loss_mask, -100)
    plain = F.cross_entropy(
        logits.transpose(1, 2), references, reduction="sum", label_smoothing=smoothing
    )
    torch.testing.assert_close(learner.loss(batch), plain, rtol=1e-5, atol=0)
    assert learner.evaluate().loss == job(recipe()).evaluate().loss
