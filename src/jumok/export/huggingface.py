"""`--to hf`: a folder that AutoModel and AutoTokenizer of transformers open.

A model of ours goes out as the family that can say what it is (`pretrained.express`); what was
imported goes out as it came, byte for byte.
"""

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from jumok import safetensors_io as tensorfile
from jumok.atomic_io import write_atomically
from jumok.data.packing import pad
from jumok.errors import InputError
from jumok.export.difference import difference
from jumok.export.generation_config import generation
from jumok.export.report import Compared, Outcome, Searched
from jumok.export.samples import Samples
from jumok.export.target import Quantization, Tell
from jumok.models import (
    EncoderDecoder,
    LanguageModel,
    MaskedLanguageModel,
    TextClassifier,
    TokenClassifier,
)
from jumok.models.weights import named_weights
from jumok.pretrained.adapt import SourceModel
from jumok.pretrained.config_reader import ConfigReader
from jumok.pretrained.family import HeadKind
from jumok.pretrained.save import hf_state_dict
from jumok.pretrained.to_hf import HFModel, convert_to_hf
from jumok.safe_json import read_json
from jumok.tasks.inputs.special_tokens import decoder_start_id, pad_id_or_zero
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.runs.import_checkpoint import open_original
from jumok.text.pretrained import PretrainedTokenizer
from jumok.text.pretrained.export import (
    CAUSAL_LM_TEMPLATE,
    CLASSIFICATION_TEMPLATE,
    SEQUENCE_TEMPLATE,
    tokenizer_files,
)
from jumok.text.pretrained.files import CONFIG
from jumok.text.pretrained.registry import tokenizer_class_name
from jumok.text.ragged import Ragged
from jumok.text.sentencepiece import SentencePieceTokenizer
from jumok.text.tokenizer import Tokenizer

TOLERANCE = 1e-5
AT_ONCE = 8  # rows compared together
TARGET_TOKENIZER = "target_tokenizer"  # a folder, where what is written has another vocabulary
_KINDS: dict[type, HeadKind] = {
    TextClassifier: "text_classifier",
    TokenClassifier: "token_classifier",
    MaskedLanguageModel: "masked_language_model",
    LanguageModel: "language_model",
    EncoderDecoder: "encoder_decoder",
}
_CLASSES = {
    "text_classifier": "AutoModelForSequenceClassification",
    "token_classifier": "AutoModelForTokenClassification",
    "masked_language_model": "AutoModelForMaskedLM",
    "language_model": "AutoModelForCausalLM",
    "encoder_decoder": "AutoModelForSeq2SeqLM",
}


@dataclass(frozen=True)
class HuggingFace:
    """config.json, model.safetensors and the files of a tokeniser."""

    libraries: tuple[str, ...] = ("transformers",)

    def obstacle(self, loaded: Pipeline) -> str | None:
        """What no family of transformers can say."""
        if loaded.origin is not None:
            return None
        if type(loaded.model) not in _KINDS:
            return f"transformers has no model like a {type(loaded.model).__name__}; use --to onnx"
        try:
            _expressed(loaded)
        except InputError as error:
            return str(error)
        return None

    def write(
        self,
        loaded: Pipeline,
        folder: Path,
        samples: Samples,
        quantize: Quantization | None,
        tell: Tell,
    ) -> Outcome:
        """The folder, opened by transformers and compared: logits, and the ids of texts."""
        if quantize is not None:
            raise InputError(
                "a folder of transformers holds float32; leave --quantize out, or export to onnx "
                "or ctranslate2"
            )
        tell("writing the folder")
        self.convert(loaded, folder)
        tell(f"comparing {samples.shown}")
        found = self.difference(loaded, folder, samples)
        searches = tuple(_same_ids(loaded, folder, samples))
        compared = Compared("logits", samples.shown, found, TOLERANCE, searches)
        compared.refuse_other_numbers()
        return Outcome(compared)

    def convert(self, loaded: Pipeline, folder: Path) -> None:
        """The files alone."""
        if loaded.origin is not None:
            _write_back(loaded, folder)
            return
        found = _expressed(loaded)
        config = found.config | _tokenizer_class(loaded.vocabulary)
        if loaded.recipe.task == "regression":
            config["problem_type"] = "regression"
        _write_json(folder / "config.json", config)
        _write_json(folder / "generation_config.json", generation(loaded, found.config))
        weights = tensorfile.serialize(found.tensors, {"format": "pt"})
        write_atomically(folder / "model.safetensors", weights)
        _write_tokenizer(loaded, folder)

    def difference(self, loaded: Pipeline, folder: Path, samples: Samples) -> float:
        """Of the logits of padded batches, over real tokens."""
        model = _opened(folder, None if loaded.origin is None else loaded.origin.architecture)
        batches = _batches(loaded, samples.rows)
        return difference(_both(loaded, model, *batch) for batch in batches)

    def opening(self, loaded: Pipeline) -> str:
        """transformers."""
        kind = _KINDS.get(type(loaded.model))
        name = "AutoModel" if kind is None or not loaded.has_logits else _CLASSES[kind]
        lines = [
            f"from transformers import {name}, AutoTokenizer",
            "",
            f'model, tokenizer = {name}.from_pretrained("."), AutoTokenizer.from_pretrained(".")',
        ]
        if not loaded.recipe.vocabulary.joint and loaded.origin is None:
            lines.append(f'written = AutoTokenizer.from_pretrained("./{TARGET_TOKENIZER}")')
        return "\n".join(lines)


def _expressed(loaded: Pipeline) -> HFModel:
    config = loaded.recipe.model
    vocabulary = loaded.target_vocabulary
    ids = {"pad": pad_id_or_zero(vocabulary)}
    for name, ask in (("bos", decoder_start_id), ("eos", lambda known: known.eos_id)):
        with suppress(InputError):  # a vocabulary of BERT begins and ends no texts
            ids[name] = ask(vocabulary)
    weights = {name: p.detach().float().cpu() for name, p in named_weights(loaded.model).items()}
    kind = _KINDS[type(loaded.model)]
    labels = loaded.labels or (("score",) if kind == "text_classifier" else ())
    return convert_to_hf(
        SourceModel(kind, config, weights, labels, config.pooling, config.pooler, ids)
    )


def _write_back(loaded: Pipeline, folder: Path) -> None:
    """An imported checkpoint as it came."""
    assert loaded.origin is not None
    found, kept = open_original(loaded.origin.folder)
    tensors = hf_state_dict(found.model, found.architecture, found.names, found.unused)
    weights = tensorfile.serialize(tensors, {"format": "pt"})
    write_atomically(folder / "model.safetensors", weights)
    for name in ("config.json", "generation_config.json"):
        if (kept / name).is_file():
            shutil.copyfile(kept / name, folder / name)
    vocabulary = loaded.vocabulary_or_none
    if isinstance(vocabulary, PretrainedTokenizer):
        vocabulary.save(folder)


def _tokenizer_class(vocabulary: Tokenizer) -> dict[str, str]:
    """Of what kind the files of an imported tokeniser are, where the family would not tell."""
    if not isinstance(vocabulary, PretrainedTokenizer):
        return {}
    return {
        "tokenizer_class": tokenizer_class_name(
            vocabulary.model_config, vocabulary.files.table(CONFIG)
        )
    }


def _write_tokenizer(loaded: Pipeline, folder: Path) -> None:
    vocabulary = loaded.vocabulary
    if isinstance(vocabulary, PretrainedTokenizer):
        vocabulary.save(folder)
        return
    frames = CLASSIFICATION_TEMPLATE
    if isinstance(loaded.model, EncoderDecoder):
        frames = SEQUENCE_TEMPLATE
    elif isinstance(loaded.model, LanguageModel):
        frames = CAUSAL_LM_TEMPLATE
    config = loaded.recipe.model
    for side, here in ((vocabulary, folder), (loaded.target_vocabulary, folder / TARGET_TOKENIZER)):
        if side is vocabulary and here != folder:
            continue
        assert isinstance(side, SentencePieceTokenizer)
        here.mkdir(exist_ok=True)
        segments = config.n_segments > 1
        for name, data in tokenizer_files(
            side, frames, config.max_length, segments=segments
        ).items():
            write_atomically(here / name, data)


def _write_json(path: Path, tree: dict[str, Any]) -> None:
    write_atomically(path, (json.dumps(tree, ensure_ascii=False, indent=2) + "\n").encode())


def _opened(folder: Path, architecture: str | None) -> Any:
    """The model in a folder as transformers opens it; None: as config.json says."""
    import transformers

    name = architecture or read_json(folder / "config.json")["architectures"][0]
    model = getattr(transformers, name).from_pretrained(folder, dtype=torch.float32)
    return model.eval()


def _batches(loaded: Pipeline, rows: Ragged) -> Iterator[tuple[Tensor, Tensor, Tensor | None]]:
    """ids and mask (B, S) int64, and for an encoder-decoder what its decoder is given (B, 5)."""
    generator = torch.Generator().manual_seed(0)
    size = loaded.recipe.model.output_size
    pad_id = _pad_id(loaded)
    other = 0 if pad_id else 1
    for start in range(0, len(rows), AT_ONCE):
        batch = [rows[i].tolist() for i in range(start, min(start + AT_ONCE, len(rows)))]
        batch = [[other if i == pad_id else i for i in row] for row in batch]  # RoBERTa skips it
        box = pad(batch, pad_id)
        ids, real = torch.from_numpy(box.ids), torch.from_numpy(box.mask).long()
        given = torch.randint(0, size, (len(batch), 5), generator=generator)
        yield ids, real, given if isinstance(loaded.model, EncoderDecoder) else None


def _pad_id(loaded: Pipeline) -> int:
    """What transformers takes for padding."""
    if loaded.origin is not None:
        return ConfigReader(loaded.origin.config).token_id("pad_token_id") or 0
    return pad_id_or_zero(loaded.vocabulary)


@torch.inference_mode()
def _both(
    loaded: Pipeline, model: Any, ids: Tensor, real: Tensor, given: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The real numbers of ours and of theirs: logits, or hidden states without a head."""
    asked = {"input_ids": ids, "attention_mask": real}
    if given is not None:
        asked["decoder_input_ids"] = given
    found = model(**asked)
    if hasattr(found, "logits"):
        ours, theirs = loaded.logits(ids, real, decoder_input_ids=given), found.logits
    else:
        ours = loaded.hidden_states(ids, real, decoder_input_ids=given)
        theirs = found.last_hidden_state
    if given is None and not isinstance(loaded.model, TextClassifier):
        return ours[real.bool()], theirs[real.bool()]
    return ours, theirs


def _same_ids(loaded: Pipeline, folder: Path, samples: Samples) -> Iterator[Searched]:
    """Whether AutoTokenizer cuts the development texts as our vocabulary does.

    Where two cuts are exactly equally likely, SentencePiece and the tokenizers library may each
    take another one.
    """
    table = samples.development
    if table is None:
        return
    from transformers import AutoTokenizer

    columns = [name for name in ("text", "source") if name in table.column_names]
    if not columns or loaded.recipe.data.pieces:
        return
    texts = list(table.column(columns[0]))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    theirs: Sequence[Sequence[int]] = tokenizer(texts, add_special_tokens=False)["input_ids"]
    ours = loaded.vocabulary.encode_batch(texts)
    pairs = zip(ours, theirs, strict=True)
    other = [i for i, (a, b) in enumerate(pairs) if list(a) != list(b)]
    alike = tuple(f"text {i}: cut otherwise" for i in other if sorted(ours[i]) == sorted(theirs[i]))
    rest = tuple(f"text {i}" for i in other if sorted(ours[i]) != sorted(theirs[i]))
    yield Searched("ids", len(texts), len(texts) - len(other), alike, rest)
