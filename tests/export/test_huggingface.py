"""Folders for transformers: the same logits, ids and texts; imported checkpoints unchanged."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

import jumok
from jumok.errors import InputError, JumokError
from jumok.export import export
from jumok.formats.onnx_session import exported_logits
from jumok.tasks.inputs.text_encoder import TextEncoder
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.recipe.recipe import load_recipe
from jumok.tasks.runs.import_checkpoint import import_checkpoint
from jumok.tasks.runs.train import train
from tests import hf_folders
from tests.combinations import slow
from tests.errors import raises
from tests.export.small_models import names_in
from tests.pretrained.hf_variants import VARIANTS
from tests.tasks.tiny_jobs import TAGS, tag_rows
from tests.tiny_runs import readings, reviews, write_tsv

transformers = pytest.importorskip("transformers")
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

FEW = ["training.steps=8", "training.evaluate_every=8"]
SHORT = "decoding.max_length=12"
BERT = ["model.pooling=first", "model.pooler=tanh", "model.embedding_norm=true"]
LINES = """
name = "lines"
task = "{task}"
[data]
train = "{folder}/train.{suffix}"
dev = "{folder}/dev.{suffix}"
test = "{folder}/dev.{suffix}"
[vocabulary]
size = 66
[model]
kind = "{kind}"
d_model = 16
n_heads = 2
d_ff = 32
n_layers = 2
max_length = 24
{model}
[training]
steps = 8
batch_tokens = 256
learning_rate = 0.01
evaluate_every = 8
precision = "float32"
"""


def ours(run: Path) -> Pipeline:
    return jumok.load(run, device="cpu")


def theirs(folder: Path, auto: str) -> tuple[Any, Any]:
    """As a person opens the folder."""
    model = getattr(transformers, auto).from_pretrained(folder)
    return model.eval(), transformers.AutoTokenizer.from_pretrained(folder)


def exported(run: Path, out: Path) -> dict[str, Any]:
    """The report of an export to transformers, which must be equal."""
    done = export(run, "hf", out)
    compared = done.report.compared
    assert compared.difference <= 1e-5
    for searched in compared.searches:
        assert (searched.search, searched.others) == ("ids", ())
    config: dict[str, Any] = json.loads((out / "config.json").read_text())
    return config


@pytest.fixture
def trained(
    review_recipe: Path, reading_recipe: Path, tmp_path: Path
) -> Callable[[str, list[str]], Path]:
    """A run of these words, trained for a moment."""

    def of(task: str, words: list[str]) -> Path:
        path = {"reviews": review_recipe, "readings": reading_recipe}.get(task, tmp_path / task)
        if not path.exists():
            _write_lines(path, task)
        train(load_recipe(str(path), [*FEW, *words]), tmp_path / "run")
        return tmp_path / "run"

    return of


def _write_lines(path: Path, task: str) -> None:
    tags = task.startswith("tagging")
    for seed, (split, n) in enumerate([("train", 60), ("dev", 12)]):
        if tags:
            write_tsv(path.parent / f"{split}.tsv", ("text", "tags"), tag_rows(n, seed))
        else:
            lines = "".join(f"{text}\n" for text, _ in reviews(n, seed))
            (path.parent / f"{split}.txt").write_text(lines, encoding="utf-8")
    name = task.removesuffix(".toml")
    decoder = name == "language_modeling"
    text = LINES.format(
        task=name,
        folder=path.parent,
        suffix="tsv" if tags else "txt",
        kind="decoder" if decoder else "encoder",
        model="norm_first = true" if decoder else 'embedding_norm = true\nactivation = "gelu"',
    )
    path.write_text(text.replace("size = 66", "size = 45") if tags else text, encoding="utf-8")


def label_logits(run: Path, out: Path, text: str) -> tuple[Tensor, Tensor, Any]:
    loaded = ours(run)
    model, tokenizer = theirs(out, "AutoModelForSequenceClassification")
    model_inputs = tokenizer(text, return_tensors="pt")
    with torch.no_grad():
        logits = model(**model_inputs).logits
    return loaded.logits(model_inputs["input_ids"]), logits, model


# What was trained here


def test_a_classifier_is_a_bert(trained: Callable[..., Path], tmp_path: Path) -> None:
    run, out = trained("reviews", BERT), tmp_path / "out"
    config = exported(run, out)
    assert config["architectures"] == ["BertForSequenceClassification"]
    assert names_in(out) == [
        *("README.md", "config.json", "generation_config.json", "model.safetensors"),
        *("tokenizer.json", "tokenizer_config.json", "vocabulary.model"),
    ]
    loaded = ours(run)
    for text, _ in reviews(5, 7):
        mine, found, model = label_logits(run, out, text)
        torch.testing.assert_close(mine, found, atol=1e-5, rtol=0)
        answer = loaded(text)
        assert model.config.id2label[int(found.argmax())] == answer.label
        assert float(found.softmax(-1).max()) == pytest.approx(answer.probability, abs=1e-5)
    card = (out / "README.md").read_text(encoding="utf-8")
    assert "AutoModelForSequenceClassification.from_pretrained" in card
    assert "| test | accuracy | " in card
    assert "difference   logits of all 30 rows of dev: at most" in card
    assert "ids          30 of 30 texts equal" in card


@pytest.mark.slow
@pytest.mark.parametrize("to", ["hf", "onnx"])
def test_positions_from_1_convolutions_and_fused_projections(
    trained: Callable[..., Path], tmp_path: Path, to: str
) -> None:
    """How the function is computed is left out; the table begins with the row of position 0."""
    notes = ["model.ffn_projection=conv1d", "model.fused_qkv=true", "model.position_offset=1"]
    run, out = trained("reviews", [*BERT, *notes]), tmp_path / "out"
    report = export(run, to, out).report
    assert report.compared.difference <= 1e-5
    if to == "hf":
        assert json.loads((out / "config.json").read_text())["model_type"] == "bert"


@pytest.mark.slow
@pytest.mark.parametrize("to", ["hf", "onnx"])
def test_a_regression_predicts_on_the_scale_of_its_data(
    trained: Callable[..., Path], tmp_path: Path, to: str
) -> None:
    for split, n in (("train", 40), ("dev", 10)):
        rows = [(text, str(1 + 4.0 * (label == "positive"))) for text, label in reviews(n, n)]
        write_tsv(tmp_path / f"{split}.tsv", ("text", "score"), rows)
    files = [f'data.{name}="{tmp_path}/{file}.tsv"' for name, file in
             (("train", "train"), ("dev", "dev"), ("test", "dev"))]  # fmt: skip
    scale = ["regression.lowest=1", "regression.highest=5"]
    run, out = trained("reviews", [*BERT, "task=regression", *files, *scale]), tmp_path / "out"
    text = "음악이 좋았어요"
    if to == "onnx":
        pytest.importorskip("onnxruntime")
        pytest.importorskip("onnxscript")
        assert export(run, "onnx", out).report.compared.difference <= 1e-5
        vocabulary = ours(run).vocabulary
        ids = TextEncoder(vocabulary, 24)([text])[0]
        found = exported_logits(out)(torch.from_numpy(ids)[None])
    else:
        config = exported(run, out)
        assert (config["id2label"], config["problem_type"]) == ({"0": "score"}, "regression")
        _, found, _ = label_logits(run, out, text)
    assert ours(run)(text).score == pytest.approx(float(found), abs=1e-5)


def test_a_tagger_and_a_masked_language_model(trained: Callable[..., Path], tmp_path: Path) -> None:
    for task, auto, head in (
        ("tagging", "AutoModelForTokenClassification", "BertForTokenClassification"),
        ("masked_language_modeling", "AutoModelForMaskedLM", "BertForMaskedLM"),
    ):
        run = trained(f"{task}.toml", [])
        config = exported(run, tmp_path / task)
        assert config["architectures"] == [head]
        model, tokenizer = theirs(tmp_path / task, auto)
        model_inputs = tokenizer("철수가 서울에 가요", return_tensors="pt")
        with torch.no_grad():
            found = model(**model_inputs).logits
        mine = ours(run).logits(model_inputs["input_ids"])
        torch.testing.assert_close(mine, found, atol=1e-5, rtol=0)
        shutil.rmtree(run)


ROTARY = ["positions=rotary", "norm=rms", "gated=true", "bias=false", "activation=silu"]


@pytest.mark.parametrize(
    ("architecture", "words"),
    [
        ("GPT2LMHeadModel", []),
        slow("LlamaForCausalLM", ROTARY),
        slow("MistralForCausalLM", [*ROTARY, "layer_pattern=L", "sliding_window=3"]),
        slow("Qwen3ForCausalLM", [*ROTARY, "qk_norm=true", "layer_pattern=GL", "sliding_window=2"]),
        (
            "Exaone4ForCausalLM",
            [*ROTARY, "qk_norm=true", "sublayer_norm=true", "norm_first=false"],
        ),
    ],
)
def test_a_language_model(
    architecture: str, words: list[str], trained: Callable[..., Path], tmp_path: Path
) -> None:
    """What it writes is what ours writes, from a beginning and from nothing."""
    settings = ["decoding.max_length=6", *(f"model.{word}" for word in words)]
    run, out = trained("language_modeling.toml", settings), tmp_path / "out"
    assert exported(run, out)["architectures"] == [architecture]
    assert json.loads((out / "generation_config.json").read_text())["max_new_tokens"] == 6
    model, tokenizer = theirs(out, "AutoModelForCausalLM")
    loaded = ours(run)
    for text in ("이 영화", "음악이 정말", ""):
        model_inputs = tokenizer(text, return_tensors="pt")
        with torch.no_grad():
            rows = model.generate(**model_inputs)
        before = tokenizer.decode(model_inputs["input_ids"][0], skip_special_tokens=True)
        whole = tokenizer.decode(rows[0], skip_special_tokens=True)
        assert loaded(text).output == whole.removeprefix(before)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "words"),
    [
        ("marian", []),
        (
            "marian",
            ["decoding.beam=3", "decoding.length_penalty=0.6", "decoding.early_stopping=true"],
        ),
        (
            "marian",
            [
                "decoding.no_repeat_ngram=2",
                "decoding.min_length=5",
                "decoding.repetition_penalty=1.3",
            ],
        ),
        ("marian", ["vocabulary.joint=false", "vocabulary.size=28", "vocabulary.target_size=26"]),
        ("pegasus", ["model.norm_first=true"]),
        ("bart", ["model.positions=learned", "model.embedding_norm=true"]),
    ],
    ids=["marian", "beam", "rules", "two-vocabularies", "pegasus", "bart"],
)
def test_translations_are_the_same(
    trained: Callable[..., Path], tmp_path: Path, family: str, words: list[str]
) -> None:
    words = ["training.steps=30", "training.evaluate_every=30", SHORT, *words]
    run, out = trained("readings", words), tmp_path / "out"
    assert exported(run, out)["model_type"] == family
    model, tokenizer = theirs(out, "AutoModelForSeq2SeqLM")
    writes = tokenizer
    if (out / "target_tokenizer").exists():
        writes = transformers.AutoTokenizer.from_pretrained(out / "target_tokenizer")
    assert (writes is not tokenizer) == ("vocabulary.joint=false" in words)
    texts = [text for text, _ in readings(8, 11)]
    model_inputs = tokenizer(texts, return_tensors="pt", padding=True)
    model_inputs.pop("token_type_ids", None)
    with torch.no_grad():
        rows = model.generate(**model_inputs)
    found = writes.batch_decode(rows, skip_special_tokens=True)
    assert [answer.output for answer in ours(run)(texts)] == found
    assert len(set(found)) > 1


def test_sampling_settings_are_exported_and_unsupported_ones_listed(
    trained: Callable[..., Path], tmp_path: Path
) -> None:
    draws = {"temperature": 0.7, "top_k": 0, "top_p": 0.9, "min_p": 0.05, "typical_p": 0.8}
    words = [f"decoding.{name}={value}" for name, value in draws.items()]
    unsaid = ['decoding.stop=["구 구"]', "decoding.max_ratio=1.5"]
    run, out = trained("readings", [SHORT, "decoding.sample=true", *words, *unsaid]), tmp_path / "o"
    exported(run, out)
    found = transformers.GenerationConfig.from_pretrained(out)
    assert (found.do_sample, found.num_beams, found.max_new_tokens) == (True, 1, 12)
    assert {name: getattr(found, name) for name in draws} == draws
    card = (out / "README.md").read_text(encoding="utf-8")
    assert 'missing from generation_config.json: max_ratio=1.5, stop=["구 구"].' in card


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "task", "words", "auto"),
    [
        (hf_folders.roberta, "reviews", BERT, "AutoModelForSequenceClassification"),
        (hf_folders.klue_roberta, "reviews", BERT, "AutoModelForSequenceClassification"),
        (hf_folders.marian, "readings", ["vocabulary.joint=false", SHORT], "AutoModelForSeq2SeqLM"),
        (hf_folders.t5, "readings", [SHORT], "AutoModelForSeq2SeqLM"),
        (hf_folders.bart, "readings", [SHORT], "AutoModelForSeq2SeqLM"),
        (hf_folders.gpt2, "language_modeling.toml", [], "AutoModelForCausalLM"),
    ],
    ids=["roberta", "klue-roberta", "marian", "t5", "bart", "gpt2"],
)
def test_a_finetuned_checkpoint_keeps_its_tokenizer(
    trained: Callable[..., Path],
    tmp_path: Path,
    make: Callable[[Path], Any],
    task: str,
    words: list[str],
    auto: str,
) -> None:
    folder, out = tmp_path / "folder", tmp_path / "out"
    make(folder)
    run = trained(task, [f'model.init="{folder}"', "training.learning_rate=1e-3", *words])
    exported(run, out)
    loaded, (model, tokenizer) = ours(run), theirs(out, auto)
    before = transformers.AutoTokenizer.from_pretrained(folder)
    texts = ["삼 일 오", "이 영화 정말 재미있어요"]
    assert tokenizer(texts)["input_ids"] == before(texts)["input_ids"]
    model_inputs = tokenizer(texts[0], return_tensors="pt")
    given = torch.tensor([[3, 5, 7]]) if model.config.is_encoder_decoder else None
    more = {} if given is None else {"decoder_input_ids": given}
    with torch.no_grad():
        found = model(**model_inputs, **more).logits
    mine = loaded.logits(model_inputs["input_ids"], decoder_input_ids=given)
    torch.testing.assert_close(mine, found, atol=1e-5, rtol=1e-5)
    if given is not None:
        with torch.no_grad():
            rows = model.generate(**model_inputs)
        written = tokenizer.decode(rows[0], skip_special_tokens=True)
        assert loaded(texts[0]).output == written


# Imported checkpoints

MADE = ["bert-all-stored", "gpt2-bare", "t5-own-head", "bert-unsaid", "roberta-tokens",
        "electra-discriminator", "marian-all-stored", "bart-bare"]  # fmt: skip


@pytest.mark.parametrize("name", [*MADE[:3], *map(slow, MADE[3:])])
def test_an_imported_checkpoint_is_exported_unchanged(tmp_path: Path, name: str) -> None:
    """Byte by byte, with no tokeniser."""
    [variant] = [each for each in VARIANTS if each.name == name]
    variant.save(tmp_path / "folder")
    _goes_out_as_it_came(tmp_path)


@pytest.mark.parametrize(
    "make",
    [
        lambda folder: hf_folders.bert(folder, dtype=torch.bfloat16),
        lambda folder: hf_folders.bert(folder, "ForTokenClassification", TAGS),
        hf_folders.roberta,
        slow(hf_folders.gpt2),
        slow(hf_folders.t5),
        lambda folder: hf_folders.marian(folder, separate=True),
    ],
    ids=["bfloat16", "bert", "roberta", "gpt2", "t5", "marian"],
)
def test_an_imported_tokenizer_is_exported_unchanged(
    tmp_path: Path, make: Callable[[Path], Any]
) -> None:
    make(tmp_path / "folder")
    _goes_out_as_it_came(tmp_path)
    first, again = (
        transformers.AutoTokenizer.from_pretrained(tmp_path / name) for name in ("folder", "out")
    )
    texts = ["삼 일 오", "이 영화 정말 재미있어요 ㅋㅋ"]
    assert first(texts)["input_ids"] == again(texts)["input_ids"]


def _goes_out_as_it_came(home: Path) -> None:
    folder, out = home / "folder", home / "out"
    import_checkpoint(folder, home / "run")
    done = export(home / "run", "hf", out)
    assert done.report.compared.difference <= 1e-5
    for path in folder.iterdir():
        if path.suffix != ".safetensors":
            assert (out / path.name).read_bytes() == path.read_bytes(), path.name
    assert {*names_in(out)} == {*names_in(folder), "README.md"}
    before, after = (load_file(each / "model.safetensors") for each in (folder, out))
    assert before.keys() == after.keys()
    for name, tensor in before.items():
        assert after[name].dtype == tensor.dtype
        assert torch.equal(after[name], tensor), name
    card = (out / "README.md").read_text(encoding="utf-8")
    assert "imported from a " in card
    (opening,) = [line for line in card.splitlines() if line.startswith("from transformers")]
    auto = opening.split()[3].removesuffix(",")
    getattr(transformers, auto).from_pretrained(out)


# What is refused


def test_errors_leave_no_folder(
    review_run: Path, reading_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    with raises(InputError, "export.unknown_weight_type"):
        export(reading_run, "hf", out, "int8")
    with pytest.raises(InputError, match=r'bert does with .*model\.pooling = "first"') as error:
        export(review_run, "hf", out)
    assert 'model.pooler = "tanh"' in str(error.value)
    assert "model.embedding_norm = true" in str(error.value)
    monkeypatch.setattr("jumok.export.huggingface.HuggingFace.tolerance", 0.0)
    with raises(JumokError, "export.outputs_differ"):
        export(reading_run, "hf", out)
    assert names_in(tmp_path) == []


def test_a_model_without_equivalent(review_recipe: Path, tmp_path: Path) -> None:
    words = [*FEW, "model.kind=encoder_decoder"]
    train(load_recipe(str(review_recipe), words), tmp_path / "run")
    with pytest.raises(
        InputError, match="no equivalent of the class EncoderDecoderClassifier; no other format"
    ):
        export(tmp_path / "run", "hf", tmp_path / "out")
    assert names_in(tmp_path) == ["run"]
