"""What imported models read: through every entry point the ids that AutoTokenizer gives."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, processors
from transformers import AutoTokenizer

from jumok.checks import CheckTarget, draw_samples, run_checks
from jumok.checks.read_ids import ReadIdsCheck
from jumok.data.table import Table
from jumok.interpret.sequences import continuation_sequence
from jumok.tasks.pipeline.causal_generation import prompt_ids
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.runs.evaluate import evaluate
from jumok.tasks.runs.import_checkpoint import import_checkpoint
from jumok.tasks.runs.load import load
from jumok.text.pretrained import PretrainedTokenizer
from jumok.text.template import Template
from tests import hf_folders
from tests.combinations import slow

BOS, EOS = "<|im_start|>", "<|im_end|>"
FAMILIES = ("llama", slow("mistral"), slow("qwen2"), slow("qwen3"), "gemma3_text")
TEXTS = ["영화", "삼천 원", "a b", ""]


def decoder(folder: Path, family: str = "llama", single: str = f"{BOS} $A") -> Any:
    """A random decoder whose tokenizer.json surrounds each text with these special tokens."""
    model = hf_folders.llama(folder, family, chat=True)
    path = str(folder / "tokenizer.json")
    tokenizer = Tokenizer.from_file(path)
    special = [(piece, tokenizer.token_to_id(piece)) for piece in (BOS, EOS)]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=single, pair=f"{single} $B", special_tokens=special
    )
    tokenizer.save(path)
    names = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps(names | {"bos_token": BOS}))
    return model


def ids_of(folder: Path, text: str) -> list[int]:
    return list(AutoTokenizer.from_pretrained(folder)(text).input_ids)


def continued(model: Any, tokenizer: Any, text: str, n: int) -> str:
    """The greedy continuation by transformers."""
    rows = tokenizer(text, return_tensors="pt")
    rows = {name: rows[name] for name in ("input_ids", "attention_mask")}
    with torch.inference_mode():
        found = model.generate(**rows, max_new_tokens=n, do_sample=False, eos_token_id=None)
    return str(tokenizer.decode(found[0, rows["input_ids"].shape[1] :], skip_special_tokens=True))


def result_of_check(pipeline: Pipeline) -> Any:
    samples = draw_samples(pipeline)
    target = CheckTarget(pipeline, samples, 0, 0)
    return next(iter(run_checks(target, [ReadIdsCheck()])))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_prompt_has_the_special_tokens_of_its_tokenizer(tmp_path: Path, family: str) -> None:
    decoder(tmp_path / "hf", family)
    pipeline = load(tmp_path / "hf")
    for text in TEXTS:
        assert prompt_ids(pipeline, text) == ids_of(tmp_path / "hf", text)
    assert result_of_check(pipeline).result == "pass"
    import_checkpoint(tmp_path / "hf", tmp_path / "run")
    imported = load(tmp_path / "run")
    assert prompt_ids(imported, "영화") == prompt_ids(pipeline, "영화")
    assert result_of_check(imported).result == "pass"


@pytest.mark.parametrize("single", [f"{BOS} $A {EOS}", f"$A {EOS}", f"{BOS} {BOS} $A"])
def test_templates_of_any_form(tmp_path: Path, single: str) -> None:
    decoder(tmp_path, single=single)
    pipeline = load(tmp_path)
    for text in TEXTS:
        assert prompt_ids(pipeline, text) == ids_of(tmp_path, text)
        read = continuation_sequence(pipeline, text, [7, 8])
        assert list(read.ids) == [*ids_of(tmp_path, text), 7, 8]
        assert len(read.spans) == len(read.ids)
        own = [span for span in read.spans[: len(read.ids) - 2] if span is not None]
        assert len(own) == len(pipeline.vocabulary.encode(text))


@pytest.mark.parametrize("family", FAMILIES)
def test_every_entry_point_continues_as_generate(tmp_path: Path, family: str) -> None:
    model = decoder(tmp_path, family)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    pipeline = load(tmp_path).with_decoding(["max_length=8", "min_length=8"])
    expected = [continued(model, tokenizer, text, 8) for text in TEXTS]
    assert [one.output for one in pipeline(TEXTS)] == expected
    for text, output in zip(TEXTS, expected, strict=True):
        parts: list[str] = []
        pipeline.task.stream(pipeline, text, parts.append)
        assert "".join(parts) == output


@pytest.mark.parametrize("family", ["llama", "gemma3_text"])
def test_the_perplexity_of_texts_by_themselves(tmp_path: Path, family: str) -> None:
    model = decoder(tmp_path, family)
    texts = ["영화", "삼천 원", "a b"]
    nats, n = 0.0, 0
    for text in texts:
        ids = torch.tensor([ids_of(tmp_path, text)])
        with torch.inference_mode():
            nats += model(ids, labels=ids).loss.item() * (ids.shape[1] - 1)
        n += ids.shape[1] - 1
    found = evaluate(load(tmp_path), Table.from_columns({"text": texts}), "dev").scores
    assert found["tokens"] == n
    assert found["perplexity"] == pytest.approx(math.exp(nats / n), rel=1e-5)


def test_the_check_finds_a_prompt_without_its_special_token(tmp_path: Path) -> None:
    decoder(tmp_path)
    pipeline = load(tmp_path)
    tokenizer = pipeline.vocabulary
    assert isinstance(tokenizer, PretrainedTokenizer)
    pipeline._vocabulary = replace(tokenizer, source_template=Template())
    found = result_of_check(pipeline)
    assert found.result == "fail"
    # an empty text is [BOS] in any case
    assert "999 of 1000 sentences have other ids" in found.reason


def test_the_check_compares_the_files_of_an_imported_model() -> None:
    found = result_of_check(load("note"))
    assert (found.result, found.reason) == ("not applicable", "trained with jumok, not imported")


PAIRS = ["이 영화\t정말 재미있어요", "별로", "하나\t", "둘 셋 넷\t다섯"]


@pytest.mark.parametrize("family", ["bert", "klue_roberta"])
def test_a_tab_separates_the_texts_of_a_pair(tmp_path: Path, family: str) -> None:
    make = getattr(hf_folders, family)
    model = make(tmp_path, "ForSequenceClassification", ["a", "b", "c"])
    tokenizer, pipeline = AutoTokenizer.from_pretrained(tmp_path), load(tmp_path)
    for text, found in zip(PAIRS, pipeline(PAIRS), strict=True):
        rows = tokenizer(*([part] for part in text.split("\t")), return_tensors="pt")
        if model.config.type_vocab_size == 1:  # as klue/roberta's, whose tokenizer gives types
            rows.pop("token_type_ids", None)
        with torch.inference_mode():
            logits = model(**rows).logits
        expected = logits[0].softmax(-1).tolist()
        assert list(found.probabilities.values()) == pytest.approx(expected, abs=1e-5)
    assert result_of_check(pipeline).reason == ""
