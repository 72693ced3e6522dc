"""Imported checkpoints: predictions, evaluation and initialization like runs of jumok."""

import json
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import jumok
from jumok import safetensors_io as tensorfile
from jumok.checks import text_samples
from jumok.cli.options import apply_decoding
from jumok.data.table import Table
from jumok.errors import InputError, StorageError
from jumok.interpret.sequences import source_sequence
from jumok.models.weights import named_weights
from jumok.tasks.inputs.text_encoder import TextEncoder
from jumok.tasks.inputs.token_labels import TokenizedTexts
from jumok.tasks.pipeline.generation_pipeline import as_generation
from jumok.tasks.pipeline.outputs import GeneratedText
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.recipe.recipe import load_recipe
from jumok.tasks.registry import get_task
from jumok.tasks.runs.evaluate import evaluate
from jumok.tasks.runs.import_checkpoint import import_checkpoint
from jumok.tasks.runs.initialize_from import initialize_from, load_tokenizers
from jumok.tasks.runs.train import resume, train
from jumok.tasks.token_classification import to_entities, viterbi_tags
from tests import hf_folders
from tests.errors import raises
from tests.tasks.tiny_jobs import TAGS, tag_rows
from tests.tiny_runs import reviews, write_readings, write_reviews, write_tsv

transformers = pytest.importorskip("transformers")
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

TEXTS = ["이 영화 정말 재미있어요", "별로", "", "철수가 서울에 가요 [SEP] 3 1"]
SPOKEN = ["삼 일 오", "구", "이 이 팔 사 영"]
LABELS = ("negative", "positive", "없음")
MODELS: dict[str, Callable[[Path], Any]] = {
    "masked": hf_folders.bert,
    "bytes": hf_folders.roberta,
    "texts": lambda folder: hf_folders.bert(folder, "ForSequenceClassification", LABELS),
    "score": lambda folder: hf_folders.klue_roberta(folder, "ForSequenceClassification", ["score"]),
    "tokens": lambda folder: hf_folders.klue_roberta(folder, "ForTokenClassification", TAGS),
    "pairs-bytes": lambda folder: hf_folders.roberta(
        folder, "ForSequenceClassification", LABELS, type_vocab_size=2
    ),
    "pairs-unsaid": lambda folder: without_segments(
        folder, hf_folders.bert(folder, "ForSequenceClassification", LABELS)
    ),
    "modernbert": hf_folders.modernbert,
    "modernbert-texts": lambda folder: hf_folders.modernbert(
        folder, "ForSequenceClassification", LABELS, classifier_pooling="mean"
    ),
    "modernbert-tokens": lambda folder: hf_folders.modernbert(
        folder, "ForTokenClassification", TAGS
    ),
    "deberta": hf_folders.deberta,
    "deberta-texts": lambda folder: hf_folders.deberta(folder, "ForSequenceClassification", LABELS),
    "gpt2": hf_folders.gpt2,
    "t5": hf_folders.t5,
    "t5-own-head": lambda folder: hf_folders.with_untied_head(folder, hf_folders.t5),
    "bart": hf_folders.bart,
    "marian": hf_folders.marian,
    "marian-separate": lambda folder: hf_folders.marian(folder, separate=True),
    "bare": lambda folder: hf_folders.bert(folder, "Model"),
    "bare-gpt2": lambda folder: hf_folders.gpt2(folder, "Model"),
    "bfloat16": lambda folder: hf_folders.bert(
        folder, "ForSequenceClassification", LABELS, torch.bfloat16
    ),
}
Made = Callable[[str], Path]


def without_segments(folder: Path, model: object) -> None:
    """Set the tokenizer config to return no token types."""
    path = folder / "tokenizer_config.json"
    changed_config = json.loads(path.read_text()) | {
        "model_input_names": ["input_ids", "attention_mask"]
    }
    path.write_text(json.dumps(changed_config))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The folder of a model, created once; tests do not write into it."""
    root = tmp_path_factory.mktemp("foreign")

    def of_name(name: str) -> Path:
        if not (root / name).exists():
            MODELS[name](root / name)
        return root / name

    return of_name


@pytest.fixture
def copied(made: Made, tmp_path: Path) -> Made:
    """A copy that tests may change."""
    return lambda name: Path(shutil.copytree(made(name), tmp_path / name))


def theirs(folder: Path) -> tuple[Any, Any]:
    """The model and the tokenizer in transformers."""
    config = json.loads((folder / "config.json").read_text())
    model = getattr(transformers, config["architectures"][0]).from_pretrained(folder)
    return model.eval(), transformers.AutoTokenizer.from_pretrained(folder)


@torch.no_grad()
def their_logits(folder: Path, text: str) -> Tensor:
    """The ids of one text, in which typed special tokens are plain text."""
    model, tokenizer = theirs(folder)
    model_inputs = tokenizer(text, return_tensors="pt", split_special_tokens=True, truncation=True)
    return model(**model_inputs).logits[0]


# Answers to texts


@pytest.mark.parametrize("name", ["texts", "bfloat16"])
def test_probabilities_equal_those_of_transformers(made: Made, name: str) -> None:
    loaded = jumok.load(made(name), device="cpu")
    assert (loaded.recipe.task, loaded.labels) == ("classification", LABELS)
    for text, answer in zip(TEXTS[:3], loaded(TEXTS[:3]), strict=True):
        model, tokenizer = theirs(made(name))
        with torch.no_grad():
            expected = model.float()(**tokenizer(text, return_tensors="pt")).logits[0].softmax(-1)
        assert answer.label == LABELS[int(expected.argmax())]
        found = torch.tensor([answer.probabilities[label] for label in LABELS])
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", ["pairs-bytes", "pairs-unsaid"])
def test_token_types_of_a_pair_equal_those_of_transformers(
    made: Made, tmp_path: Path, name: str
) -> None:
    """None: the embedding has two rows, and transformers uses the first one for all tokens."""
    import_checkpoint(made(name), tmp_path / "out")
    path = tmp_path / "out" / "recipe.toml"
    path.write_text(path.read_text().replace('\npair = ""', '\npair = "second"'))
    loaded = jumok.load(tmp_path / "out", device="cpu")
    assert loaded.recipe.model.n_segments == 2
    answer = loaded("이 영화\t별로예요")
    model, tokenizer = theirs(made(name))
    model_inputs = tokenizer("이 영화", "별로예요", return_tensors="pt")
    assert "token_type_ids" not in model_inputs
    with torch.no_grad():
        expected = model(**model_inputs).logits[0].softmax(-1)
    found = torch.tensor([answer.probabilities[label] for label in LABELS])
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    (sample,) = text_samples(loaded, ["이 영화\t별로예요"])
    assert sample.segments is None
    assert set(source_sequence(loaded, "이 영화\t별로예요").segments) == {0}


def test_a_multi_label_classifier_decides_each_label(copied: Made) -> None:
    """By the sigmoid, as the pipeline of transformers does."""
    folder = copied("texts")
    path = folder / "config.json"
    changed_config = json.loads(path.read_text()) | {"problem_type": "multi_label_classification"}
    path.write_text(json.dumps(changed_config))
    loaded = jumok.load(folder, device="cpu")
    assert loaded.recipe.task == "multi_label_classification"
    answer = loaded("재미있어요")
    expected = their_logits(folder, "재미있어요").sigmoid().tolist()
    assert list(answer.probabilities.values()) == pytest.approx(expected, abs=1e-5)


def test_a_problem_type_without_labels_is_an_error(copied: Made) -> None:
    """The logits exist, but their softmax has no meaning."""
    folder = copied("texts")
    path = folder / "config.json"
    changed_config = json.loads(path.read_text()) | {"problem_type": "regression"}
    path.write_text(json.dumps(changed_config))
    loaded = jumok.load(folder, device="cpu")
    sentence = "must be single_label_classification or multi_label_classification, got 'regress"
    with pytest.raises(InputError, match=sentence):
        loaded("재미있어요")
    table = Table.from_columns({"text": ["재미있어요"], "label": [LABELS[0]]})
    with pytest.raises(InputError, match=sentence):
        evaluate(loaded, table, "dev")
    assert jumok.trace(loaded, "재미있어요").info.classification is None
    assert loaded.logits(torch.tensor([[2, 9, 3]])).shape == (1, 3)


def test_one_label_is_regression(made: Made) -> None:
    loaded = jumok.load(made("score"), device="cpu")
    assert loaded.recipe.task == "regression"
    for text in [*TEXTS, "연기가 " * 60]:  # a [SEP] that is typed, and more than is read
        expected = float(their_logits(made("score"), text)[0])
        assert loaded(text).score == pytest.approx(expected, abs=1e-5)


def test_entities_follow_id2label(made: Made) -> None:
    loaded = jumok.load(made("tokens"), device="cpu")
    texts = [text for text, _ in tag_rows(6, 3)]
    read = TokenizedTexts.encode(texts, TextEncoder(loaded.vocabulary, 38))
    numbers = [their_logits(made("tokens"), text).log_softmax(-1).numpy() for text in texts]
    expected = viterbi_tags(read, numbers, TAGS)
    assert loaded(texts) == [
        to_entities(text, tags) for text, tags in zip(texts, expected, strict=True)
    ]
    assert any(answer.entities for answer in loaded(texts))


@pytest.mark.parametrize(("name", "mask"), [("masked", "[MASK]"), ("bytes", "<mask>")])
def test_fill_mask_equals_transformers(made: Made, name: str, mask: str) -> None:
    loaded = jumok.load(made(name), device="cpu")
    vocabulary = loaded.vocabulary
    model, tokenizer = theirs(made(name))
    inside = "##" if name == "masked" else ""
    special = set(vocabulary.special_ids.values())
    opening = tokenizer.tokenize("a")[0].startswith("Ġ")  # whether a text begins with a space
    assert not opening
    for text in ("이 영화 [MASK] 정말 재미있어요", "삼 [MASK]", "[MASK] 정말 재미있어요"):
        spaced = opening or not text.startswith("[")
        ids = tokenizer(text.replace("[MASK]", mask), return_tensors="pt")["input_ids"]
        with torch.no_grad():
            logits = model(ids).logits[0]
        log_p = logits[ids[0] == tokenizer.mask_token_id][0].log_softmax(-1)
        pieces = tokenizer.convert_ids_to_tokens(range(len(vocabulary)))
        begins = [
            i not in special
            and (not piece.startswith(inside) if inside else piece.startswith("Ġ") is spaced)
            and bool(word := tokenizer.decode([i]).strip())
            and "\ufffd" not in word
            for i, piece in enumerate(pieces)
        ]
        best = max(range(len(begins)), key=lambda i: float(log_p[i]) if begins[i] else -1e9)
        answer = loaded(text)
        assert answer.output == text.replace("[MASK]", tokenizer.decode([best]).strip())
        assert answer.score == pytest.approx(float(log_p[best]), abs=1e-4)


# What is written


def written(folder: Path, texts: Sequence[str]) -> list[str]:
    """The outputs of transformers with the folder's settings, one text at a time."""
    model, tokenizer = theirs(folder)
    found = []
    for text in texts:
        given = tokenizer(text, return_tensors="pt")
        with torch.no_grad():
            rows = model.generate(**given)
        behind = 0 if model.config.is_encoder_decoder else given["input_ids"].shape[1]
        found.append(tokenizer.decode(rows[0][behind:], skip_special_tokens=True))
    return found


def write_settings(folder: Path, **settings: Any) -> Path:
    """The folder with other settings in its generation_config.json; None removes one."""
    path = folder / "generation_config.json"
    changed_config = {**json.loads(path.read_text()), **settings}
    path.write_text(
        json.dumps({key: value for key, value in changed_config.items() if value is not None})
    )
    return folder


GREEDY: dict[str, Any] = {"max_length": 12}
BEAM = {"max_new_tokens": 9, "num_beams": 3, "length_penalty": 0.4, "early_stopping": True}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        *((name, s) for name in ("t5", "bart", "marian-separate") for s in (GREEDY, BEAM)),
        ("marian", {"max_length": 10, "num_beams": 2, "length_penalty": 0.0}),
        ("bart", {"max_length": 10, "num_beams": 2, "forced_eos_token_id": None}),
        ("marian", {"max_length": 12, "num_beams": 3, "forced_bos_token_id": 7}),
        ("marian", {"max_length": 12, "bad_words_ids": [[2], [5, 6], [9]], "min_length": 6}),
        ("marian", {"max_length": 12, "num_beams": 2, "no_repeat_ngram_size": 2}),
        ("marian", {"max_length": 12, "num_beams": 2, "early_stopping": "never"}),
        ("marian", {"max_length": 12, "decoder_start_token_id": 1}),
    ],
    ids=lambda each: each if isinstance(each, str) else "-".join(each),
)
def test_generation_equals_transformers(copied: Made, name: str, settings: dict[str, Any]) -> None:
    folder = write_settings(copied(name), **settings)
    answers = jumok.load(folder, device="cpu").predict(SPOKEN)
    assert [answer.output for answer in answers] == written(folder, SPOKEN)


@pytest.mark.parametrize("settings", [{}, {"num_beams": 3}], ids=["greedy", "beam"])
def test_continuation_equals_transformers(copied: Made, settings: dict[str, Any]) -> None:
    folder = write_settings(copied("gpt2"), max_new_tokens=12, pad_token_id=0, **settings)
    loaded = jumok.load(folder, device="cpu")
    texts = [text for text in TEXTS if text]
    assert [answer.output for answer in loaded(texts)] == written(folder, texts)
    assert isinstance(loaded("").output, str)  # they refuse it


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gpt2", "bart", "t5", "marian"])
@pytest.mark.parametrize("beam", [1, 3])
def test_constraints_with_an_imported_tokenizer(made: Made, name: str, beam: int) -> None:
    """With pieces that are bytes, and embeddings without a piece."""
    loaded = jumok.load(made(name), device="cpu").with_decoding([f"beam={beam}"])
    assert isinstance(loaded, Pipeline)
    digits = "[0-9](?: [0-9])*"
    for answer in loaded.with_decoding([f'pattern="{digits}"']).predict(SPOKEN):
        assert isinstance(answer, GeneratedText)
        assert re.fullmatch(digits, answer.output)
    [one] = loaded.with_decoding(['choices=["3 1", "5"]']).predict(SPOKEN[:1])
    assert one.output in ("3 1", "5")  # type: ignore[union-attr]


@pytest.mark.parametrize("beam", [1, 3])
def test_a_forced_token_is_before_the_prefix(copied: Made, beam: int) -> None:
    """A language code is not a part of the text, of a prefix or of a choice."""
    folder = write_settings(copied("marian"), max_length=14, forced_bos_token_id=7)
    loaded = jumok.load(folder, device="cpu").with_decoding([f"beam={beam}"])
    vocabulary = loaded.target_vocabulary
    plain, known = vocabulary.decode([7]), vocabulary.decode(vocabulary.encode("3 1"))
    for overrides, expected in ((["prefix=3 1"], known), (["choices=['3 1', '5']"], None)):
        for answer in loaded.with_decoding(overrides).predict(SPOKEN):
            assert isinstance(answer, GeneratedText)
            assert answer.tokens[0].id == 7
            text = vocabulary.decode([token.id for token in answer.tokens[1:]])
            assert answer.output.startswith(plain)
            assert text.startswith(expected) if expected else text in ("3 1", "5")


def test_the_rules_of_generation_config_are_printed(
    copied: Made, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = {"forced_bos_token_id": 7, "forced_eos_token_id": 0, "bad_words_ids": [[5, 6], [9]]}
    folder = write_settings(copied("marian"), max_length=9, num_beams=1, **rules)
    apply_decoding(jumok.load(folder), [])
    assert capsys.readouterr().err == (
        "decoding max_length=8; generation_config.json bans 2 sequences, "
        "forces token 7 at position 0, forces token 0 at position 7\n"
    )
    write_settings(folder, eos_token_id=[0, 4], bad_words_ids=None, forced_bos_token_id=None)
    apply_decoding(jumok.load(folder), [])
    assert capsys.readouterr().err == (
        "decoding max_length=8; generation_config.json forces token 0 at position 7, "
        "ends texts at [4] too\n"
    )


def test_generation_settings_in_config_json(copied: Made) -> None:
    folder = copied("marian")
    (folder / "generation_config.json").unlink()
    path = folder / "config.json"
    changed_config = json.loads(path.read_text())
    changed_config |= {
        "num_beams": 4,
        "max_length": 9,
        "bad_words_ids": [[2]],
        "forced_eos_token_id": 0,
    }
    path.write_text(json.dumps(changed_config))
    loaded = jumok.load(folder, device="cpu")
    ranking = "length_penalty=1.0 length_norm='power' early_stopping=False"
    assert str(loaded.recipe.decoding) == f"beam=4 {ranking} max_length=8"
    assert [answer.output for answer in loaded(SPOKEN)] == written(folder, SPOKEN)
    (folder / "generation_config.json").write_text(json.dumps({"max_length": 9}))
    assert str(jumok.load(folder).recipe.decoding) == "max_length=8"  # which then has all settings


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"num_beams": "four"}, "pretrained.config_value"),
        ({"num_beams": 2, "length_penalty": "long"}, "pretrained.config_value"),
        ({"bad_words_ids": 5.5}, "pipeline.generation_config_ids"),
        ({"bad_words_ids": [[]]}, "pipeline.generation_config_ids"),
        ({"suppress_tokens": [40]}, "pipeline.generation_config_ids"),
        (
            {"forced_bos_token_id": 40},
            "pipeline.generation_config_ids",
        ),
        (
            {"decoder_start_token_id": 40},
            "pipeline.generation_config_ids",
        ),
        ({"forced_bos_token_id": -1}, "pretrained.config_value"),
        ({"early_stopping": [1], "num_beams": 2}, None),
    ],
)
def test_invalid_generation_settings(
    copied: Made, settings: dict[str, Any], sentence: str | None
) -> None:
    folder = write_settings(copied("marian"), **settings)
    if sentence is None:
        assert jumok.load(folder).recipe.decoding.early_stopping is False
        return
    with raises(InputError, sentence):
        jumok.load(folder)


# Ids


def sides(loaded: Pipeline, rows: list[list[int]], side: str) -> tuple[Tensor, Tensor]:
    """Rows of ids padded on one side, and their mask."""
    width = max(map(len, rows)) + 2
    ids, real = [], []
    for row in rows:
        gap = [0] * (width - len(row))
        ids.append(gap + row if side == "left" else row + gap)
        real.append(gap + [1] * len(row) if side == "left" else [1] * len(row) + gap)
    return torch.tensor(ids), torch.tensor(real)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", ["masked", "bytes", "texts", "tokens", "gpt2", "t5", "bart"])
def test_padding_does_not_change_the_logits(made: Made, name: str, side: str) -> None:
    """In a batch of jumok as alone in transformers."""
    loaded = jumok.load(made(name), device="cpu")
    model, _ = theirs(made(name))
    rows = [[5, 9, 11, 30, 31, 8], [12, 7], [40, 6, 6, 21]]
    ids, real = sides(loaded, rows, side)
    given = None
    if model.config.is_encoder_decoder:
        given = torch.tensor([[2, 8, 9]] * 3)
    logits = loaded.logits(ids, real, decoder_input_ids=given)
    hidden = loaded.hidden_states(ids, real, decoder_input_ids=given)
    assert logits.dtype == hidden.dtype == torch.float32
    for number, row in enumerate(rows):
        model_inputs = {"input_ids": torch.tensor([row])}
        if given is not None:
            model_inputs["decoder_input_ids"] = given[:1]
        with torch.no_grad():
            out = model(**model_inputs, output_hidden_states=True)
        last = (out.get("decoder_hidden_states") or out.hidden_states)[-1][0]
        locations = slice(None) if given is not None else real[number] == 1
        torch.testing.assert_close(hidden[number][locations], last, atol=1e-5, rtol=1e-5)
        actual = logits[number] if name == "texts" else logits[number][locations]
        torch.testing.assert_close(actual, out.logits[0], atol=1e-5, rtol=1e-5)


def test_without_a_tokenizer_ids_are_accepted(copied: Made) -> None:
    folder = hf_folders.without_tokenizer(copied("texts"))
    loaded = jumok.load(folder, device="cpu")
    ids = torch.tensor([[2, 9, 11, 3]])
    with torch.no_grad():
        expected = theirs_alone(folder)(ids).logits
    torch.testing.assert_close(loaded.logits(ids), expected, atol=1e-5, rtol=0)
    with raises(InputError, "pipeline.no_tokenizer"):
        loaded("재미있어요")
    out = folder.parent / "out"
    import_checkpoint(folder, out)
    again = jumok.load(out, device="cpu")
    torch.testing.assert_close(again.logits(ids), loaded.logits(ids), atol=1e-6, rtol=0)
    with raises(InputError, "run.no_tokenizer_to_initialize"):
        load_tokenizers(folder)
    with raises(InputError, "run.no_vocabulary"):
        load_tokenizers(out)


def test_an_encoder_of_t5_has_no_unused_hyperparameters(
    tmp_path: Path, made: Made, review_recipe: Path
) -> None:
    """It has no decoder keys; a recipe that is initialized from the whole model may have them."""
    hf_folders.t5(tmp_path / "t5", "EncoderModel")
    import_checkpoint(tmp_path / "t5", tmp_path / "run")
    alone = jumok.load(tmp_path / "run", device="cpu").recipe.model
    assert (alone.kind, alone.scale_output, alone.n_decoder_layers) == ("encoder", False, None)
    begun = load_recipe(str(review_recipe), [f"model.init={made('t5')}"]).model
    assert (begun.kind, begun.scale_output, begun.n_decoder_layers) == ("encoder", True, 2)


def theirs_alone(folder: Path) -> Any:
    config = json.loads((folder / "config.json").read_text())
    return getattr(transformers, config["architectures"][0]).from_pretrained(folder).eval()


@pytest.mark.parametrize(
    ("make", "head"),
    [(hf_folders.bert, "Model"), (hf_folders.gpt2, "Model"), (hf_folders.t5, "Model")],
    ids=["bert", "gpt2", "t5"],
)
def test_a_model_without_a_head_has_hidden_states(
    tmp_path: Path, make: Callable[..., Any], head: str
) -> None:
    model = make(tmp_path / "bare", head)
    loaded = jumok.load(tmp_path / "bare", device="cpu")
    ids = torch.tensor([[5, 9, 11, 30]])
    given = ids[:, :2] if model.config.is_encoder_decoder else None
    with raises(ValueError, "pipeline.no_head"):
        loaded.logits(ids, decoder_input_ids=given)
    with raises(ValueError, "pipeline.no_text_head"):
        loaded("재미있어요")
    model_inputs = {"input_ids": ids} | ({} if given is None else {"decoder_input_ids": given})
    with torch.no_grad():
        expected = model(**model_inputs).last_hidden_state
    found = loaded.hidden_states(ids, decoder_input_ids=given)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


# Imported


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(MODELS) - {"bare", "bare-gpt2"}))
def test_an_imported_run_predicts_the_same(made: Made, tmp_path: Path, name: str) -> None:
    out = tmp_path / "온 것 (1)"
    import_checkpoint(made(name), out)
    first, again = jumok.load(made(name), device="cpu"), jumok.load(out, device="cpu")
    texts = SPOKEN if again.recipe.task == "sequence_to_sequence" else [*TEXTS, "이 [MASK] 영화"]
    for one, other in zip(first.predict(texts), again.predict(texts), strict=True):
        assert one.display == other.display
        scores = (getattr(each, "score", 0.0) for each in (one, other))
        assert next(scores) == pytest.approx(next(scores), abs=1e-4)  # roundings in other memory
    assert again.recipe.name == "온-것-1"
    assert again.recipe.model == first.recipe.model
    assert again.recipe.decoding == first.recipe.decoding
    assert again.vocabulary.fingerprint == first.vocabulary.fingerprint
    origin = json.loads((out / "origin" / "origin.json").read_text())
    assert origin["from"] == name
    assert origin["sha256"].keys() >= {"config.json", "model.safetensors"}
    assert {path.name for path in out.iterdir()} == {
        *("recipe.toml", "config.json", "model.safetensors", "vocabulary", "origin")
    }
    assert [path.name for path in tmp_path.iterdir()] == [out.name]


def test_a_hub_folder_keeps_its_name_and_commit(made: Made, tmp_path: Path) -> None:
    commit = "0a" * 20
    cached = tmp_path / "models--klue--bert-base" / "snapshots" / commit
    shutil.copytree(made("masked"), cached)
    import_checkpoint(cached, tmp_path / "out")
    origin = json.loads((tmp_path / "out" / "origin" / "origin.json").read_text())
    assert (origin["from"], origin["commit"]) == ("klue/bert-base", commit)


def test_weights_keep_their_dtype(made: Made, tmp_path: Path) -> None:
    import_checkpoint(made("bfloat16"), tmp_path / "out")
    stored = tensorfile.read_tensors(tmp_path / "out" / "model.safetensors")
    assert {tensor.dtype for tensor in stored.values()} == {torch.bfloat16}
    loaded = jumok.load(tmp_path / "out")
    assert {p.dtype for p in loaded.model.parameters()} == {torch.float32}


def test_import_needs_an_empty_folder(made: Made, copied: Made, tmp_path: Path) -> None:
    folder, out = copied("texts"), tmp_path / "out"
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with raises(InputError, "storage.not_empty"):
        import_checkpoint(folder, folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    import_checkpoint(folder, out)
    with raises(InputError, "storage.not_empty"):
        import_checkpoint(made("masked"), out)
    assert jumok.load(out).labels == LABELS


def test_a_failed_import_leaves_no_files(
    copied: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, home = copied("texts"), tmp_path / "home"
    home.mkdir()

    def stop(*parts: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(
            "jumok.tasks.runs.import_checkpoint.commit_of", stop
        )  # some files are written by then
        with pytest.raises(KeyboardInterrupt):
            import_checkpoint(folder, home / "out")
    assert list(home.iterdir()) == []
    (folder / "tokenizer_config.json").write_text("{")
    with pytest.raises(InputError, match=r"tokenizer_config\.json"):
        import_checkpoint(folder, home / "out")
    assert list(home.iterdir()) == []
    (folder / "tokenizer_config.json").unlink()
    with pytest.raises(StorageError, match="cannot be written"):
        import_checkpoint(folder, folder / "vocab.txt" / "out")


def test_mixed_files_of_an_import_are_an_error(made: Made, tmp_path: Path) -> None:
    out = tmp_path / "out"
    import_checkpoint(made("texts"), out)

    def refused(file: str, old: str, new: str, sentence: str) -> None:
        path = out / file
        before = path.read_text()
        assert old in before
        path.write_text(before.replace(old, new))
        with pytest.raises(InputError, match=sentence):
            jumok.load(out)
        path.write_text(before)

    other = "must be the vocabulary that model.safetensors was trained with"
    refused("vocabulary/vocab.txt", "[MASK]", "[MESK]", other)
    refused("vocabulary/model_config.json", '"bert"', '"electra"', other)
    refused("recipe.toml", "n_layers = 2", "n_layers = 1", "describe different models; restore")
    refused(
        "origin/origin.json", '"tying"', '"tieing"', "as jumok import writes them; restore the file"
    )
    refused(
        "origin/config.json",
        '"hidden_size": 24',
        '"hidden_size": 48',
        "damaged or of another checkpoint",
    )
    assert jumok.load(out).labels == LABELS


def test_the_recipe_of_an_import_may_be_edited(made: Made, tmp_path: Path) -> None:
    """Its decoding settings, and text pairs."""
    import_checkpoint(made("marian"), tmp_path / "writer")
    path = tmp_path / "writer" / "recipe.toml"
    text = path.read_text().replace("\nbeam = 1\n", "\nbeam = 2\n")
    assert "min_length = 0\nmax_length = 40\n" in text
    path.write_text(text.replace("min_length = 0\nmax_length = 40\n", "max_length = 5\n"))
    found = jumok.load(tmp_path / "writer").recipe.decoding
    assert (found.beam, found.max_length) == (2, 5)
    import_checkpoint(made("texts"), tmp_path / "pairs")
    path = tmp_path / "pairs" / "recipe.toml"
    path.write_text(path.read_text().replace('\npair = ""', '\npair = "second"'))
    answer = jumok.load(tmp_path / "pairs", device="cpu")("이 영화\t별로예요")
    model, tokenizer = theirs(made("texts"))
    with torch.no_grad():
        expected = model(**tokenizer("이 영화", "별로예요", return_tensors="pt")).logits[0]
    found = torch.tensor([answer.probabilities[label] for label in LABELS])
    torch.testing.assert_close(found, expected.softmax(-1), atol=1e-5, rtol=0)


# Begun from

TRAINING = """
[training]
steps = 2
batch_tokens = 256
learning_rate = 1e-9
evaluate_every = 2
precision = "float32"
"""


@pytest.fixture(scope="module")
def recipes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Small recipes, one file per task."""
    root = tmp_path_factory.mktemp("recipes")
    write_reviews(root / "texts")
    write_readings(root / "pairs")
    (root / "tags").mkdir()
    (root / "lines").mkdir()
    for seed, (split, n) in enumerate([("train", 24), ("dev", 6), ("test", 6)]):
        write_tsv(root / "tags" / f"{split}.tsv", ("text", "tags"), tag_rows(n, seed))
        lines = "".join(f"{text}\n" for text, _ in reviews(n, seed))
        (root / "lines" / f"{split}.txt").write_text(lines, encoding="utf-8")
    found = {}
    for task, folder, suffix, kind in (
        ("classification", "texts", "tsv", "encoder"),
        ("tagging", "tags", "tsv", "encoder"),
        ("sequence_to_sequence", "pairs", "tsv", "encoder_decoder"),
        ("language_modeling", "lines", "txt", "decoder"),
        ("masked_language_modeling", "lines", "txt", "encoder"),
    ):
        files = "".join(
            f'{split} = "{root / folder / split}.{suffix}"\n' for split in ("train", "dev", "test")
        )
        text = f'task = "{task}"\n[data]\n{files}\n[model]\nkind = "{kind}"\n{TRAINING}'
        if get_task(task).generates:
            text += "[decoding]\nmax_length = 6\n"
        found[task] = root / f"{task}.toml"
        found[task].write_text(text, encoding="utf-8")
    return found


BEGINNINGS = [
    ("masked", "classification", []),
    ("bytes", "classification", []),
    ("tokens", "tagging", []),
    ("masked", "masked_language_modeling", []),
    ("gpt2", "language_modeling", ["model.max_length=40"]),
    ("t5", "sequence_to_sequence", []),
    ("t5-own-head", "sequence_to_sequence", []),
    ("bart", "sequence_to_sequence", []),
    ("marian", "sequence_to_sequence", ["vocabulary.joint=false"]),
    ("marian-separate", "sequence_to_sequence", ["vocabulary.joint=false"]),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "task", "overrides"), BEGINNINGS)
def test_a_training_is_initialized_from_a_checkpoint(
    made: Made,
    recipes: dict[str, Path],
    tmp_path: Path,
    name: str,
    task: str,
    overrides: list[str],
) -> None:
    """The step changes no weight, so the run equals the checkpoint except for its head."""
    init = [f'model.init="{made(name)}"', *overrides]
    finished = train(load_recipe(str(recipes[task]), init), tmp_path / "run")
    start, run = jumok.load(made(name), device="cpu"), jumok.load(tmp_path / "run", device="cpu")
    before, after = named_weights(start.model), named_weights(run.model)
    anew = {key for key in after if key not in before or after[key].shape != before[key].shape}
    same_task = start.recipe.task == task and start.labels == run.labels
    assert anew <= (set() if same_task else {"output.weight", "output.bias"})
    for key in after.keys() - anew:
        if same_task or key.startswith(("encoder.", "decoder.")):
            torch.testing.assert_close(after[key], before[key], atol=1e-6, rtol=0)
    loaded = f"{len(after) - len(anew)} of {len(after)}"
    assert finished.results["initialized_from"].startswith(loaded)
    assert run.vocabulary.fingerprint == start.vocabulary.fingerprint
    assert (tmp_path / "run" / "vocabulary" / "model_config.json").is_file()
    texts = SPOKEN if task == "sequence_to_sequence" else TEXTS[:3]
    if same_task:
        if get_task(task).generates:
            start = as_generation(start.with_decoding(["max_length=6"]))
            start.processors.clear()  # which its own folder asks for
        if name != "gpt2":
            assert [a.display for a in run(texts)] == [a.display for a in start(texts)]
    else:
        assert len(run(texts)) == len(texts)
    assert resume(tmp_path / "run").results == finished.results


@pytest.mark.parametrize(("name", "task", "overrides"), BEGINNINGS)
def test_initialization_from_an_import_equals_that_from_its_source(
    made: Made, recipes: dict[str, Path], tmp_path: Path, name: str, task: str, overrides: list[str]
) -> None:
    out = tmp_path / "out"
    import_checkpoint(made(name), out)
    found = []
    for folder in (made(name), out):
        recipe = load_recipe(str(recipes[task]), [f'model.init="{folder}"', *overrides])
        vocabularies = load_tokenizers(folder)
        assert vocabularies.joint == recipe.vocabulary.joint
        recipe = recipe.with_vocabulary(*vocabularies.sizes)
        torch.manual_seed(0)
        model = get_task(recipe.task).build_model(recipe.model, TAGS)
        taken = initialize_from(folder, recipe, model, TAGS)
        found.append((taken.loaded, taken.new, taken.skipped, named_weights(model)))
    (*first, own), (*second, others) = found
    assert first == second
    assert all(torch.equal(own[key], others[key]) for key in own)


@pytest.mark.parametrize("imported", [False, True])
@pytest.mark.parametrize(
    ("name", "task", "overrides", "backbone"),
    [
        ("bare", "classification", [], "encoder"),
        ("bare-gpt2", "language_modeling", ["model.max_length=40"], "decoder"),
    ],
)
def test_a_model_is_initialized_from_a_backbone(
    made: Made,
    recipes: dict[str, Path],
    tmp_path: Path,
    name: str,
    task: str,
    overrides: list[str],
    backbone: str,
    imported: bool,
) -> None:
    folder = made(name)
    if imported:
        folder = tmp_path / "out"
        import_checkpoint(made(name), folder)
    recipe = load_recipe(str(recipes[task]), [f'model.init="{folder}"', *overrides])
    recipe = recipe.with_vocabulary(*load_tokenizers(folder).sizes)
    model = get_task(recipe.task).build_model(recipe.model, LABELS)
    taken = initialize_from(folder, recipe, model, LABELS)
    before, after = named_weights(jumok.load(made(name)).model), named_weights(model)
    assert set(taken.loaded) == {f"{backbone}.{key}" for key in before}
    assert all(torch.equal(after[f"{backbone}.{key}"], before[key]) for key in before)
    assert set(taken.new) <= {"output.weight", "output.bias"}
    assert taken.skipped == ()


def test_resuming_does_not_need_the_initial_run(
    made: Made, recipes: dict[str, Path], copied: Made, tmp_path: Path
) -> None:
    """The folder of model.init may be deleted."""
    gone = copied("masked")
    overrides = [f'model.init="{gone}"', "training.steps=4", "training.learning_rate=0.001"]
    whole = train(load_recipe(str(recipes["classification"]), overrides), tmp_path / "whole")
    shutil.rmtree(gone)
    half = Path(shutil.copytree(tmp_path / "whole", tmp_path / "half"))
    for name in ("results.json", "model.safetensors", "config.json"):
        (half / name).unlink()
    shutil.rmtree(half / "checkpoints" / "step-4")
    left = sorted(path.name for path in (half / "checkpoints").iterdir())
    assert left == ["step-0", "step-2"]
    again = resume(half)
    first, second = (folder / "model.safetensors" for folder in (tmp_path / "whole", half))
    assert first.read_bytes() == second.read_bytes()
    assert again.results["initialized_from"] == whole.results["initialized_from"]
    model_config = half / "vocabulary" / "model_config.json"
    model_config.write_text(model_config.read_text().replace('"bert"', '"electra"'))
    with raises(InputError, "run.other_vocabulary"):
        jumok.load(half)


def test_a_tokenizer_of_another_model_is_an_error(
    copied: Made, recipes: dict[str, Path], tmp_path: Path
) -> None:
    folder = copied("masked")
    with (folder / "vocab.txt").open("a", encoding="utf-8") as file:
        file.write("낯섦\n")
    loaded = jumok.load(folder, device="cpu")
    assert loaded.logits(torch.tensor([[207]])).shape == (1, 1, 208)
    with raises(InputError, "pipeline.too_many_pieces"):
        loaded("이 [MASK] 영화")
    recipe = load_recipe(str(recipes["classification"]), [f'model.init="{folder}"'])
    with raises(InputError, "run.tokenizer_size"):
        train(recipe, tmp_path / "run")


@pytest.mark.parametrize(
    ("name", "task", "overrides", "sentence"),
    [
        (
            "masked",
            "classification",
            ["model.d_ff=48"],
            "model.d_ff must be 40 as in {}, got 48; leave it",
        ),
        (
            "masked",
            "classification",
            ["augmentation.subword_sampling=0.1"],
            "tokenizer.one_segmentation",
        ),
        (
            "gpt2",
            "masked_language_modeling",
            ["model.kind=encoder"],
            "tokenizer.no_special_piece",
        ),
        ("marian", "sequence_to_sequence", [], "run.joint_differs_from_init"),
        (
            "bart",
            "sequence_to_sequence",
            ["vocabulary.joint=false"],
            "run.joint_differs_from_init",
        ),
        (
            "masked",
            "classification",
            ["vocabulary.file=a.model"],
            "recipe.fixed_value",
        ),
    ],
)
def test_invalid_settings_with_init(
    made: Made,
    recipes: dict[str, Path],
    tmp_path: Path,
    name: str,
    task: str,
    overrides: list[str],
    sentence: str,
) -> None:
    expected = sentence.format(re.escape(str(made(name))))
    with raises(InputError, expected):
        train(
            load_recipe(str(recipes[task]), [f'model.init="{made(name)}"', *overrides]),
            tmp_path / "run",
        )
    assert list(tmp_path.iterdir()) == []


def test_training_does_not_overwrite_a_checkpoint(copied: Made, recipes: dict[str, Path]) -> None:
    folder = copied("masked")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    recipe = load_recipe(str(recipes["classification"]), [f'model.init="{folder}"'])
    with raises(InputError, "run.folder_has_a_model"):
        train(recipe, folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


# What lies between and upon pieces


def test_tags_that_are_not_bio_are_an_error(copied: Made) -> None:
    folder = copied("tokens")
    path = folder / "config.json"
    changed_config = json.loads(path.read_text())
    names = {str(i): f"LABEL_{i}" for i in range(len(TAGS))}
    path.write_text(json.dumps(changed_config | {"id2label": names, "label2id": {}}))
    loaded = jumok.load(folder, device="cpu")
    with raises(InputError, "input.unknown_tag_form"):
        loaded("철수가 서울에 가요")
    assert loaded.logits(torch.tensor([[2, 9, 3]])).shape == (1, 3, len(TAGS))


def test_tags_of_naver_ner(made: Made, copied: Made) -> None:
    """TYPE-B and TYPE-I, as KoBERT-NER and KoELECTRA have them."""
    folder = copied("tokens")
    path = folder / "config.json"
    config = json.loads(path.read_text())
    names = {i: "-".join(reversed(tag.split("-"))) for i, tag in config["id2label"].items()}
    assert names != config["id2label"]
    path.write_text(json.dumps(config | {"id2label": names}))
    texts = ["철수가 서울에 가요", "영희는 제주 공항에 있다"]
    expected = jumok.load(made("tokens"), device="cpu").predict(texts)
    assert jumok.load(folder, device="cpu").predict(texts) == expected
