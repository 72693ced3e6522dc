"""The calculation view shows only lines and formulas that this model executed, for every family."""

import ast
import re
import sys
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch

import jumok
from jumok.interpret.hf_trace.trace import trace_transformers
from jumok.interpret.trace import Trace
from jumok.interpret.tracing import trace
from jumok.pretrained.architecture import FAMILIES
from jumok.tasks.pipeline.pipeline import Pipeline
from tests import hf_folders
from tests.browser.chromium import Window
from tests.browser.conftest import Serve, Windows
from tests.browser.test_views import POSITIONS
from tests.interpret.random_models import KINDS, loaded_of, texts_of
from tests.pretrained.hf_variants import randomize

PACKAGE = Path(jumok.__file__).parent
TEXT = "이 영화 정말 재미있어요"

FOLDERS: dict[str, Callable[[Path], Any]] = {
    "bert": hf_folders.bert,
    "megatron-bert": partial(hf_folders.other_encoder, family="MegatronBert"),
    "roberta": hf_folders.roberta,
    "xlm-roberta": partial(hf_folders.other_encoder, family="XLMRoberta"),
    "electra": partial(hf_folders.other_encoder, family="Electra"),
    "distilbert": hf_folders.distilbert,
    "modernbert": hf_folders.modernbert,
    "deberta-v2": hf_folders.deberta,
    "gpt2": hf_folders.gpt2,
    "t5": hf_folders.t5,
    "mt5": hf_folders.mt5,
    "bart": hf_folders.bart,
    "mbart": partial(hf_folders.other_encoder_decoder, family="MBart"),
    "marian": hf_folders.marian,
    **{
        family: partial(hf_folders.llama, family=family)
        for family in ("llama", "mistral", "qwen2", "qwen3", "gemma3_text", "exaone", "exaone4")
    },
    "pegasus": partial(hf_folders.other_encoder_decoder, family="Pegasus"),
}


# Families whose layers are computed as those of another one.
LIKE_OTHERS = ("roberta", "xlm-roberta", "electra", "mt5", "mbart", "pegasus", "qwen2", "exaone")


class ExecutedLines:
    """The lines of the package that run inside the context: (file, line)."""

    def __init__(self) -> None:
        self.lines: set[tuple[str, int]] = set()

    def __enter__(self) -> "ExecutedLines":
        self._previous = sys.gettrace()
        sys.settrace(self._call)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._previous)

    def _call(self, frame: FrameType, event: str, _: object) -> Any:
        inside = frame.f_code.co_filename.startswith(str(PACKAGE))
        return self._line if inside else None

    def _line(self, frame: FrameType, event: str, _: object) -> Any:
        if event == "line":
            name = Path(frame.f_code.co_filename).relative_to(PACKAGE.parent).as_posix()
            self.lines.add((name, frame.f_lineno))
        return self._line

    def unexecuted(self, caption: str, code: str) -> list[int]:
        """The statements among quoted lines, "jumok/nn/layer.py:38", that did not run."""
        name, _, first = caption.rpartition(":")
        quoted = range(int(first), int(first) + len(code.splitlines()))
        starts = [line for line in _statement_lines(name) if line in quoted] or [int(first)]
        return [line for line in starts if (name, line) not in self.lines]


@cache
def _statement_lines(name: str) -> tuple[int, ...]:
    tree = ast.parse((PACKAGE.parent / name).read_text(encoding="utf-8"))
    return tuple(node.lineno for node in ast.walk(tree) if isinstance(node, ast.stmt))


def check_lesson(
    window: Window, made: Trace, executed: ExecutedLines | None, *, whole: bool = True
) -> int:
    """The marks of the first and last layer of each block, and steps; returns how many quote lines.

    Of the first block the steps of both layers are visited, of others those of one, or without
    `whole` of the first block's last layer alone. No line may be quoted without `executed`: code of
    another library ran.
    """
    page, quoted = window.page, 0
    source = page.locator("[data-role=source]")
    for block in made.info.blocks:
        for layer in sorted({0, block.layers - 1}):
            at = f"v=calculation&b={block.name}&L={layer}&lang=en"
            window.show(f"{at}&t=0")
            steps = page.locator("[data-role=step]")
            shown = partial(page.locator(".calculation").get_attribute, "data-layer")
            window.wait_until_equal(shown, f"{block.name}.{layer}", at)
            marks = marks_of(window, f"{made.info.model.family} {block.name}.{layer}")
            assert "✗" not in marks
            # tokens, ids and positions are given, not computed
            assert executed is None or marks.count("✓") >= steps.count() - 4, marks
            last = layer == block.layers - 1
            if block != made.info.blocks[0] and (not whole or last != (block.name == "cross")):
                continue
            if not whole and not last:
                continue
            for number in range(steps.count()):
                window.show(f"{at}&t={number}")
                where = f"{made.info.model.family} {block.name}.{layer}, step {number}"
                current = partial(steps.nth(number).get_attribute, "aria-current")
                window.wait_until_equal(current, "step", where)
                title = page.locator(".calculation-head h2").inner_text()
                texts = page.locator(".calculation-texts").inner_html()
                if source.count():
                    assert executed is not None, f"{where} ({title}): {source.inner_text()}"
                    caption = source.locator("figcaption").inner_text().strip()
                    code = source.locator("pre").inner_text()
                    assert not executed.unexecuted(caption, code), f"{where} ({title}): {caption}"
                    quoted += 1
                if "embedding" in title and made.info.model.embedding_scale == 1:
                    assert "msqrt" not in texts, where
                if title.endswith("mask"):
                    sums = page.locator("[data-role=sum]").all_inner_texts()
                    assert all("M = 1" not in text for text in sums), where
                if block.scale == 1 and "embedding" not in title:
                    assert "<msqrt><mi>d" not in texts, f"{where} ({title})"
                for number_of_matrix in range(page.locator("[data-role=verdict]").count()):
                    verdict = page.locator("[data-role=verdict]").nth(number_of_matrix)
                    assert "✗" not in verdict.inner_text(), f"{where} ({title})"
                if made.info.model.norm_first:
                    assert "Add & Norm" not in title, where
                if made.info.model.norm != "layer":
                    assert not re.search(r"\bLN\b", page.inner_text(".calculation-main")), where
                assert page.locator("[role=alert]").count() == 0
    return quoted


def marks_of(window: Window, where: str) -> str:
    """The texts of all steps, once each is checked."""
    steps = window.page.locator("[data-role=step]")
    steps.first.wait_for()
    window.wait_until_equal(lambda: "…" in "".join(steps.all_inner_texts()), False, where)
    return "".join(steps.all_inner_texts())  # checked marks of a layer do not change


@pytest.mark.parametrize("family", FAMILIES.names())
def test_every_quoted_line_of_a_family_was_executed(
    windows: Windows, serve: Serve, tmp_path: Path, family: str
) -> None:
    FOLDERS[family](tmp_path / "model")
    with ExecutedLines() as executed:
        model = jumok.load(tmp_path / "model")
        assert isinstance(model, Pipeline)
        if model.task.generates:
            model = model.with_decoding(["max_length=5"])
        made = trace(model, TEXT)
    assert made.info.model.implementation == "jumok"
    path = made.save(tmp_path / "trace.safetensors")
    with windows() as window:
        window.open(serve(path), "v=calculation&lang=en")
        assert check_lesson(window, made, executed, whole=family not in LIKE_OTHERS) > 8


@pytest.mark.parametrize(
    ("kind", "positions"),
    [
        *((kind, "sinusoidal") for kind in KINDS),
        *(("sequences", name) for name in POSITIONS[1:]),
        ("language model", "relative"),
        ("pairs", "learned"),
    ],
)
def test_every_quoted_line_of_our_own_kinds_was_executed(
    windows: Windows, serve: Serve, tmp_path: Path, kind: str, positions: str
) -> None:
    with ExecutedLines() as executed:
        loaded_of.cache_clear()
        made = trace(loaded_of(kind, positions), texts_of(kind))
    path = made.save(tmp_path / "trace.safetensors")
    with windows() as window:
        window.open(serve(path), "v=calculation&lang=en")
        assert check_lesson(window, made, executed) > 15


SMALL = {
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "num_key_value_heads": 3,
    "head_dim": 8,
    "vocab_size": 30,
    "max_position_embeddings": 40,
    "pad_token_id": 0,
}
T5 = {"d_model": 24, "d_kv": 8, "d_ff": 40, "num_layers": 2, "num_heads": 3, "vocab_size": 30}
MARIAN = hf_folders.BART | {"vocab_size": 30, "scale_embedding": True, "pad_token_id": 0}
# The class, its config, and what the lesson has to contain: whether the embedding is multiplied by
# √d (not known of OPT), linear maps have biases, queries and keys are normalized, and the window.
MODELS: dict[str, tuple[str, dict[str, Any], tuple[bool, bool, bool, int | None]]] = {
    "Bert": ("BertModel", SMALL, (False, True, False, None)),
    "T5": ("T5Model", T5 | {"decoder_start_token_id": 0}, (False, False, False, None)),
    "Marian": ("MarianMTModel", MARIAN | {"decoder_start_token_id": 0}, (True, True, False, None)),
    "Llama": ("LlamaForCausalLM", SMALL, (False, False, False, None)),
    "Qwen3": ("Qwen3ForCausalLM", SMALL, (False, False, True, None)),
    "Mistral": ("MistralForCausalLM", SMALL | {"sliding_window": 3}, (False, False, False, 3)),
    "Gemma2": (
        "Gemma2ForCausalLM",
        SMALL | {"sliding_window": 3, "query_pre_attn_scalar": 16},
        (True, False, False, 3),
    ),
    "OPT": (
        "OPTForCausalLM",
        SMALL | {"ffn_dim": 40, "word_embed_proj_dim": 24},
        (False, True, False, None),
    ),
}


def transformers_trace(family: str) -> Trace:
    """A trace of a small random model of transformers."""
    import transformers

    architecture, settings, _ = MODELS[family]
    config = getattr(transformers, f"{family}Config")(**settings)
    model = randomize(getattr(transformers, architecture)(config).eval(), 3)
    ids = torch.tensor([[4, 9, 11, 5, 7, 8], [3, 6, 12, 5, 0, 0]])
    real = (ids != 0).long()
    if config.is_encoder_decoder:
        return trace_transformers(model, ids, real, torch.tensor([[0, 4, 8], [0, 9, 9]]))
    return trace_transformers(model, ids, real)


@pytest.mark.parametrize("family", MODELS)
def test_the_lesson_of_a_model_of_transformers_states_what_it_computes(
    windows: Windows, serve: Serve, tmp_path: Path, family: str
) -> None:
    made = transformers_trace(family)
    assert made.info.model.implementation == "transformers"
    is_scaled, has_biases, has_head_norm, span = MODELS[family][2]
    path = made.save(tmp_path / "trace.safetensors")
    with windows() as window:
        window.open(serve(path), "v=calculation&lang=en")
        assert check_lesson(window, made, None) == 0
        for block in made.info.blocks:
            titles = titles_of(window, block.name)
            step = partial(texts_of_step, window, block.name, titles)
            assert ("norm of Q and K" in titles) == has_head_norm
            rotated = made.info.model.positions == "rotary" and block.name != "cross"
            assert ("rotary" in titles) == rotated
            embedding = step("embedding")
            assert ("<msqrt>" in embedding) == is_scaled
            assert ("multiplied by" in embedding) == is_scaled
            assert ("does not multiply" in embedding) == (not is_scaled and family != "OPT")
            for title in ("FFN: first layer", "FFN: second layer"):
                assert ("<mi>b</mi>" in step(title)) == has_biases
            mask = step("mask")
            assert ("window" in mask) == (span is not None)
            assert span is None or f"{span} or more positions away" in mask
            assert ("later tokens" in mask) == block.causal
            if family == "Marian":
                assert "<mi>i</mi><mo>+</mo><mi>d</mi><mo>/</mo><mn>2</mn>" in step("positions")
            bugs = window.page.locator("[data-role=bug]").all_inner_texts()
            assert ("no division by √d" in bugs) == (family not in ("T5", "Gemma2"))
            assert ("no scaling" in bugs) == (family == "Gemma2")


def titles_of(window: Window, block: str) -> list[str]:
    """The titles of all steps of layer 0, once all are checked."""
    window.show(f"v=calculation&lang=en&b={block}&L=0&t=0")
    steps = window.page.locator("[data-role=step]")
    window.wait_until_equal(lambda: "…" in "".join(steps.all_inner_texts()), False, block)
    return [text.split(maxsplit=1)[1] for text in steps.all_inner_texts()]


def texts_of_step(window: Window, block: str, titles: list[str], title: str) -> str:
    """The description and the formula of a step of layer 0."""
    number = titles.index(title)
    window.show(f"v=calculation&lang=en&b={block}&L=0&t={number}")
    current = partial(
        window.page.locator("[data-role=step]").nth(number).get_attribute, "aria-current"
    )
    window.wait_until_equal(current, "step", title)
    description = window.page.inner_text(".calculation-head p")
    return description + window.page.locator(".calculation-texts").inner_html()


def test_a_step_asks_for_a_prediction_before_its_result(
    windows: Windows, serve: Serve, tmp_path: Path
) -> None:
    path = trace(loaded_of("classifier"), texts_of("classifier")).save(tmp_path / "a.safetensors")
    with windows() as window:
        window.open(serve(path), "v=calculation&lang=en&t=8")
        verdict = window.page.locator("[data-role=verdict]")
        verdict.wait_for()
        window.page.locator("[data-role=ask]").check()
        question = window.page.locator("[data-role=predict]")
        question.wait_for()
        assert question.inner_text().rstrip().count("= ?") == 1
        assert verdict.count() == 0
        assert window.page.locator("[data-role=stage] [role=grid]").count() == 0
        assert not window.violations()
        question.locator("input").fill("0.5")
        question.locator("button").click()
        verdict.wait_for()
        assert "predicted 0.5" in window.page.inner_text("[data-role=guess]")
        window.wait_until_equal(
            lambda: "calculation.ask=1" in window.run("location.hash"), True, "the address"
        )
        window.page.locator("[data-role=next]").click()  # the next step asks again
        question.wait_for()
