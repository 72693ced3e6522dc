"""course/transformer.py: the lessons contain all of it, it equals jumok's model, and it learns."""

import ast
import time

import pytest
import torch
from torch.nn.functional import cross_entropy, pad
from torch.nn.utils.rnn import pad_sequence

import jumok
from jumok.course import lessons
from jumok.course.lesson import LEARNERS_FILE, file_pieces
from jumok.course.transformer import Transformer, greedy, learning_rate, load_note
from jumok.data.note_sentences import generate
from jumok.shipped import resolve_model
from jumok.tasks.pipeline.pipeline import Pipeline

TEXTS = [korean for korean, _ in generate("test", 20)]


@pytest.fixture(scope="module")
def note() -> Pipeline:
    return jumok.load("note", device="cpu")


@pytest.fixture(scope="module")
def model() -> Transformer:
    return load_note(resolve_model("note"))


def test_it_imports_nothing_of_jumok() -> None:
    text = LEARNERS_FILE.read_text(encoding="utf-8")
    modules = {
        name
        for node in ast.walk(ast.parse(text))
        for name in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else []
        )
    }
    assert modules == {"math", "pathlib", "safetensors.torch", "torch"}
    assert len([line for line in text.splitlines() if line.strip()]) <= 155


def test_the_lessons_contain_every_line_in_order() -> None:
    quoted = [
        line.split()[1]
        for lesson in lessons()
        for line in lesson.markdown("ko").splitlines()
        if line.startswith("{file} ")
    ]
    assert quoted == list(file_pieces())
    _, body = LEARNERS_FILE.read_text(encoding="utf-8").split('"""\n\n', 1)
    assert body.split() == "\n".join(file_pieces().values()).split()


@pytest.mark.parametrize("text", TEXTS)
def test_logits_and_answer_equal_those_of_note(
    text: str, note: Pipeline, model: Transformer
) -> None:
    vocabulary = note.vocabulary
    source = torch.tensor([[*vocabulary.encode(text), vocabulary.eos_id]])  # (1, S)
    ids = greedy(model, source, vocabulary.bos_id, vocabulary.eos_id, 60)  # (1, T)
    answer = note(text)
    assert vocabulary.decode(ids[0, :-1].tolist()) == answer.output
    target = pad(ids, (1, 0), value=vocabulary.bos_id)  # (1, T+1)
    with torch.no_grad():
        assert torch.equal(model(source, target), note.model(source, target))  # to the last bit


def test_logits_of_a_padded_batch_are_equal(note: Pipeline, model: Transformer) -> None:
    rows = [torch.tensor([*note.vocabulary.encode(text), 3]) for text in TEXTS]
    source = pad_sequence(rows, batch_first=True)  # (B, S)
    target = torch.full((len(rows), 1), note.vocabulary.bos_id)  # (B, 1)
    with torch.no_grad():
        assert torch.equal(model(source, target), note.model(source, target, source != 0))


@pytest.mark.slow
def test_it_learns_to_write_in_reverse_in_a_minute() -> None:
    torch.manual_seed(0)
    start = time.process_time()
    model = Transformer(17, d_model=32, n_heads=2, d_ff=96, n_layers=1, dropout=0.0)
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
    for step in range(1, 601):
        optimizer.param_groups[0]["lr"] = learning_rate(step, 32, 100)
        source = torch.randint(3, 17, (64, 6))  # (B, S)
        target = pad(pad(source.flip(1), (1, 0), value=1), (0, 1), value=2)  # (B, T)
        loss = cross_entropy(model(source, target[:, :-1]).mT, target[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert time.process_time() - start < 60
    unseen = torch.randint(3, 17, (50, 6))
    written = [greedy(model, row[None], 1, 2, 8)[0, :-1].tolist() for row in unseen]
    assert sum(w == row.flip(0).tolist() for w, row in zip(written, unseen, strict=True)) >= 48


def test_learning_rate_rises_and_falls() -> None:
    """Equation (3): its maximum is at the end of the warm-up."""
    rates = [learning_rate(step, 512, 4000) for step in (1, 2000, 4000, 16000)]
    assert rates[1] == pytest.approx(rates[2] / 2)
    assert rates[3] == pytest.approx(rates[2] / 2)
    assert rates[2] == pytest.approx(512**-0.5 * 4000**-0.5)
