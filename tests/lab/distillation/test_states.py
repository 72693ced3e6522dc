"""Masked language modeling with the states of a teacher, whose pieces are others."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file

import jumok
from jumok.errors import InputError
from jumok.lab.distillation.states import (
    StateBatch,
    StateDistillationJob,
    TeacherStates,
)
from jumok.tasks.masked_lm import hidden_states
from jumok.tasks.recipe.recipe import Recipe, load_recipe
from jumok.tasks.runs.setup import prepare_training
from jumok.tasks.runs.train import resume, train
from jumok.text.sentencepiece import SentencePieceTokenizer, VocabularyConfig
from tests.tasks.tiny_jobs import CPU
from tests.tiny_runs import reviews

RECIPE = """
task = "masked_language_modeling"

[data]
train = "{folder}/train.txt"
dev = "{folder}/dev.txt"

[distillation]
teachers = ["{teacher}"]

[vocabulary]
size = 72

[model]
d_model = 32
n_heads = 2
d_ff = 64
n_layers = 1
dropout = 0.0
max_length = 24

[masking]
mlm_probability = 0.3

[training]
steps = 40
batch_tokens = 512
learning_rate = 0.01
warmup_steps = 5
evaluate_every = 20
precision = "float32"
"""
LONG = " ".join(text for text, _ in reviews(12, 4))  # several rows


def student(folder: Path, teacher: Path, *overrides: str) -> Recipe:
    texts = [LONG, *(text for text, _ in reviews(60, 0)), "  두  칸", "가"]
    (folder / "train.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    dev = "".join(f"{text}\n" for text, _ in reviews(20, 1))
    (folder / "dev.txt").write_text(dev, encoding="utf-8")
    path = folder / "student.toml"
    path.write_text(RECIPE.format(folder=folder, teacher=teacher), encoding="utf-8")
    return load_recipe(str(path), overrides)


def job_of(plan: Recipe) -> StateDistillationJob:
    made = prepare_training(plan, CPU).job
    assert isinstance(made, StateDistillationJob)
    return made


def batches(made: StateDistillationJob, number: int = 0) -> list[StateBatch]:
    epoch = made.epoch(number)
    found = [epoch[i] for i in range(len(epoch))]
    assert all(isinstance(batch, StateBatch) for batch in found)
    return found  # type: ignore[return-value]


def test_a_span_has_the_mean_state_of_its_characters(review_run: Path) -> None:
    teacher = TeacherStates.load(str(review_run), 0, CPU)
    pipeline = jumok.load(review_run, device="cpu")
    text = "이 영화 재미있어요"
    ids, offsets = pipeline.vocabulary.encode_with_offsets(text)
    inputs = torch.tensor([[pipeline.vocabulary.cls_id, *ids]])
    with torch.inference_mode():
        states = pipeline.model.hidden_states(inputs)[0, 1:]  # type: ignore[operator]
    token_at = [
        next((n for n, (i, j) in enumerate(offsets) if i <= at < j), -1) for at in range(len(text))
    ]
    spans = [(0, 4), (4, 7), (len(text) - 1, len(text))]
    found, known = teacher([text, "가"], [spans, [(0, 1)]])
    assert known.tolist() == [True] * 4
    for row, (i, j) in zip(found, spans, strict=False):
        mean = states[[at for at in token_at[i:j] if at >= 0]].mean(0)
        assert F.cosine_similarity(row, mean, dim=0) > 0.99  # int8


def test_fewer_layers_and_the_length_of_the_teacher(review_run: Path) -> None:
    whole, last, first = (TeacherStates.load("ko-small-vectors", n, CPU) for n in (0, 4, 1))
    span = [[(0, 2)]]
    states = [teacher(["영화"], span)[0] for teacher in (whole, last, first)]
    assert torch.equal(states[0], states[1])
    assert not torch.allclose(states[0], states[2], atol=1e-2)
    short = TeacherStates.load(str(review_run), 0, CPU)
    text = "영화 " * short.max_length
    _, known = short([text], [[(0, 1), (len(text) - 2, len(text) - 1)]])
    assert known.tolist() == [True, False]
    with pytest.raises(InputError, match="must be at least 0 and at most 4, got 5"):
        TeacherStates.load("ko-small-vectors", 5, CPU)


@pytest.mark.parametrize("packed", [False, True])
def test_every_piece_has_the_state_at_its_characters(
    tmp_path: Path, review_run: Path, packed: bool
) -> None:
    """Whether texts are padded, packed or cut, in the order of any epoch."""
    words = [f"masking.packed={str(packed).lower()}", "model.max_length=8"]
    made = job_of(student(tmp_path, review_run, *words))
    rewritten = made.tokenizer.encode("두칸")  # of a text whose pieces are not its characters
    found: dict[str, list[torch.Tensor]] = {}
    for batch in [batch for number in range(6) for batch in batches(made, number)]:
        torch.testing.assert_close(batch.targets.norm(dim=-1), torch.ones(len(batch.at)))
        ids = batch.texts.input_ids.flatten().clone()
        ids[batch.positions] = batch.labels
        special = set(made.tokenizer.special_ids.values()) - {made.tokenizer.unk_id}
        real = [i for i, token in enumerate(ids.tolist()) if token not in special]
        spaces = [i for i in real if made.tokenizer.piece(int(ids[i])) == "▁"]
        spelled = {at for at in real if int(ids[at]) not in rewritten}
        assert spelled - set(spaces) <= set(batch.at.tolist()) <= set(real)
        for at, target in zip(batch.at.tolist(), batch.targets, strict=True):
            found.setdefault(made.tokenizer.piece(int(ids[at])), []).append(target)
    (teacher,) = made.teachers
    states, _ = teacher(["가"], [[(0, 1)]])
    expected = F.normalize((states[0] - made.mean) @ made.components, dim=-1)
    alone = torch.stack(found["▁가" if "▁가" in found else "가"])
    assert (alone @ expected).max() > 0.99


def test_the_loss_adds_the_cosine(tmp_path: Path, review_run: Path) -> None:
    plan = student(tmp_path, review_run, "distillation.weight=3.0")
    made = job_of(plan)
    batch = batches(made)[0]
    hidden = hidden_states(made.model, batch).flatten(0, 1)
    assert made.components.shape[1] == 16
    cosine = F.cosine_similarity(hidden[batch.at, :16], batch.targets, dim=-1).mean()
    masked = made.model(batch.texts.input_ids, batch.mask).flatten(0, 1)[batch.positions]
    expected = F.cross_entropy(masked, batch.labels, reduction="sum")
    expected = expected + 3 * len(batch.labels) * (1 - cosine)
    torch.testing.assert_close(made.loss(batch), expected, rtol=1e-4, atol=1e-3)


def test_the_states_are_learned_and_training_resumes_exactly(
    tmp_path: Path, review_run: Path
) -> None:
    plan = student(tmp_path, review_run)
    made = job_of(plan)

    def cosine(model: Any) -> float:
        batch = batches(made)[0]
        with torch.no_grad():
            ours = hidden_states(model, batch).flatten(0, 1)[batch.at, :16]
        return float(F.cosine_similarity(ours, batch.targets, dim=-1).mean())

    before = cosine(made.model)
    train(plan, tmp_path / "run")
    assert cosine(jumok.load(tmp_path / "run", device="cpu").model) > before + 0.2
    shutil.copytree(tmp_path / "run", tmp_path / "resumed")
    for path in ("results.json", "model.safetensors", "checkpoints/step-40"):
        target = tmp_path / "resumed" / path
        shutil.rmtree(target) if target.is_dir() else target.unlink()
    resume(tmp_path / "resumed")
    first, second = (
        load_file(tmp_path / name / "model.safetensors") for name in ("run", "resumed")
    )
    assert all(torch.equal(first[key], second[key]) for key in first)


def test_two_teachers(tmp_path: Path, review_run: Path) -> None:
    words = f'distillation.teachers=["{review_run}", "{review_run}"]'
    made = job_of(student(tmp_path, review_run, words))
    one = job_of(student(tmp_path, review_run))
    assert made.mean.shape == (2 * len(one.mean),)
    torch.testing.assert_close(made.mean[: len(one.mean)], one.mean)
    assert torch.isfinite(made.loss(batches(made)[0]))


def test_unsupported_settings_and_teachers(
    tmp_path: Path, review_run: Path, language_run: Path
) -> None:
    for override, message in (
        ("distillation.temperature=2.0", "temperature must be 1.0 with distillation.teachers"),
        ("distillation.rows=3", "rows must be 0 with distillation.teachers, got 3"),
        ("augmentation.subword_sampling=0.5", "sampling must be 0.0 with distillation.teachers"),
        ("model.generator=0.5", "generator must be 0.0 with distillation.teachers"),
        ("distillation.layer=-1", "must be at least 0, got -1; 0 is the last"),
    ):
        with pytest.raises(InputError, match=message):
            student(tmp_path, review_run, override)
    with pytest.raises(InputError, match="layer must be 0 for the task classification"):
        load_recipe("nsmc", [f'distillation.teachers=["{review_run}"]', "distillation.layer=2"])
    texts = [text for text, _ in reviews(60, 0)]
    config = VocabularyConfig(size=320, byte_fallback=True)
    SentencePieceTokenizer.train(texts, config).save(tmp_path / "bytes.model")
    bytes_student = student(tmp_path, review_run, f"vocabulary.file={tmp_path / 'bytes.model'}")
    emoji = "".join(f"{text} 🙂\n" for text in texts)
    (tmp_path / "train.txt").write_text(emoji, encoding="utf-8")
    with pytest.raises(InputError, match="but rewrites all 60 that were read; use"):
        job_of(bytes_student)
    with pytest.raises(InputError, match="must be encoders, got LanguageModel"):
        TeacherStates.load(str(language_run), 0, CPU)
