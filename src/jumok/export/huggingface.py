"""`--to hf`: a folder for AutoModel and AutoTokenizer of transformers.

A trained model is converted to an equivalent model family (`pretrained.to_hf`); an imported one
is written back byte for byte.
"""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from jumok import safetensors_io as tensorfile
from jumok.atomic_io import write_atomically
from jumok.data.packing import pad
from jumok.errors import ExportError, InputError, Message
from jumok.export.generation_config import generation_config
from jumok.export.report import OutputComparison, relative_difference
from jumok.export.samples import Samples
from jumok.export.target import Target
from jumok.models import (
    EncoderDecoder,
    LanguageModel,
    MaskedLanguageModel,
    PairClassifier,
    TextClassifier,
    TokenClassifier,
)
from jumok.models.weights import named_weights
from jumok.pretrained.adapt import SourceModel
from jumok.pretrained.config_reader import ConfigReader
from jumok.pretrained.family import HeadKind
from jumok.pretrained.state_dict import hf_state_dict
from jumok.pretrained.to_hf import HFModel, convert_to_hf
from jumok.safe_json import read_json
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

BATCH_SIZE = 8  # rows compared together
TARGET_TOKENIZER = "target_tokenizer"  # a folder, where what is written has another vocabulary
_KINDS: dict[type, HeadKind] = {
    TextClassifier: "text_classifier",
    PairClassifier: "text_classifier",
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
_OPENED_BY_CONFIG = {"ExaoneForCausalLM": "AutoModelForCausalLM", "ExaoneModel": "AutoModel"}


class HuggingFace(Target):
    """config.json, model.safetensors and the tokenizer files."""

    libraries: ClassVar[tuple[str, ...]] = ("transformers",)

    def unsupported_reason(self, pipeline: Pipeline) -> Message | None:
        """Why transformers does not support this model; None if it does."""
        if pipeline.origin is not None:
            return None
        if type(pipeline.model) not in _KINDS:
            return Message(
                "export.transformers_has_no_class",
                "transformers has no equivalent of the class {kind}",
                kind=type(pipeline.model).__name__,
            )
        try:
            convert_pipeline(pipeline)
        except InputError as error:
            return error.message
        return None

    def convert(self, pipeline: Pipeline, folder: Path) -> None:
        """Write the folder."""
        if pipeline.origin is not None:
            _write_imported(pipeline, folder)
            return
        hf_model = convert_pipeline(pipeline)
        write_hf_model(pipeline, hf_model, folder)
        write_json(folder / "generation_config.json", generation_config(pipeline, hf_model.config))

    def difference(self, pipeline: Pipeline, folder: Path, samples: Samples) -> float:
        """The difference of the logits of padded batches, over real tokens."""
        model = _load(folder, None if pipeline.origin is None else pipeline.origin.architecture)
        padded = batches(pipeline, samples.rows)
        return relative_difference(paired_outputs(pipeline, model, *batch) for batch in padded)

    def compare_outputs(
        self, pipeline: Pipeline, folder: Path, samples: Samples
    ) -> Iterator[OutputComparison]:
        """Compare the ids of the dev texts from AutoTokenizer with those of the tokenizer.

        If two segmentations are equally likely, SentencePiece and the tokenizers library may choose
        different ones.
        """
        table = samples.dev_table
        if table is None:
            return
        from transformers import AutoTokenizer

        columns = [name for name in ("text", "source") if name in table.column_names]
        if not columns or pipeline.recipe.data.pieces:
            return
        texts = list(table.column(columns[0]))
        tokenizer = AutoTokenizer.from_pretrained(folder)
        hf_ids: Sequence[Sequence[int]] = tokenizer(texts, add_special_tokens=False)["input_ids"]
        ids = pipeline.vocabulary.encode_batch(texts)
        different = [i for i in range(len(texts)) if list(ids[i]) != list(hf_ids[i])]
        ties = [i for i in different if sorted(ids[i]) == sorted(hf_ids[i])]
        yield OutputComparison(
            "ids",
            len(texts),
            len(texts) - len(different),
            tuple(f"text {i}: segmented differently" for i in ties),
            tuple(f"text {i}" for i in different if i not in ties),
        )

    def usage_example(self, pipeline: Pipeline) -> str:
        """Python code with transformers."""
        kind = _KINDS.get(type(pipeline.model))
        name = "AutoModel" if kind is None or not pipeline.has_logits else _CLASSES[kind]
        lines = [
            f"from transformers import {name}, AutoTokenizer",
            "",
            f'model, tokenizer = {name}.from_pretrained("."), AutoTokenizer.from_pretrained(".")',
        ]
        if not pipeline.recipe.vocabulary.joint and pipeline.origin is None:
            lines.append(
                f'target_tokenizer = AutoTokenizer.from_pretrained("./{TARGET_TOKENIZER}")'
            )
        return "\n".join(lines)


def convert_encoder(pipeline: Pipeline) -> HFModel:
    """The encoder of a model without its head, in a family of transformers.

    Raises InputError if no family can represent it.
    """
    config = pipeline.recipe.model
    weights = {
        name: p.detach().float().cpu()
        for name, p in named_weights(pipeline.model).items()
        if name.startswith("encoder.")
    }
    ids = {"pad": pipeline.vocabulary.padding_id}
    return convert_to_hf(SourceModel("encoder", config, weights, (), "mean", "none", ids))


def convert_pipeline(pipeline: Pipeline) -> HFModel:
    """A trained model in a family of transformers. Raises InputError if none can represent it."""
    config = pipeline.recipe.model
    vocabulary = pipeline.target_vocabulary
    ids = {"pad": vocabulary.padding_id}
    for name, key in (("bos", "decoder_start_id"), ("eos", "eos_id")):
        with suppress(InputError):  # a BERT vocabulary has neither
            ids[name] = getattr(vocabulary, key)
    weights = {name: p.detach().float().cpu() for name, p in named_weights(pipeline.model).items()}
    kind = _KINDS[type(pipeline.model)]
    labels = pipeline.labels or (("score",) if kind == "text_classifier" else ())
    return convert_to_hf(
        SourceModel(kind, config, weights, labels, config.pooling, config.pooler, ids)
    )


def write_hf_model(pipeline: Pipeline, hf_model: HFModel, folder: Path) -> None:
    """Write config.json, model.safetensors and the tokenizer files."""
    config = hf_model.config | _tokenizer_class(pipeline.vocabulary)
    if pipeline.task.problem_type:
        config["problem_type"] = pipeline.task.problem_type
    write_json(folder / "config.json", config)
    weights = tensorfile.serialize(hf_model.tensors, {"format": "pt"})
    write_atomically(folder / "model.safetensors", weights)
    write_tokenizer(pipeline, folder)


def _write_imported(pipeline: Pipeline, folder: Path) -> None:
    """Write an imported checkpoint with its original tensors and files."""
    assert pipeline.origin is not None
    original, original_folder = open_original(pipeline.origin.folder)
    tensors = hf_state_dict(original.model, original.architecture, original.names, original.unused)
    weights = tensorfile.serialize(tensors, {"format": "pt"})
    write_atomically(folder / "model.safetensors", weights)
    for name in ("config.json", "generation_config.json"):
        if (original_folder / name).is_file():
            shutil.copyfile(original_folder / name, folder / name)
    vocabulary = pipeline.vocabulary_or_none
    if isinstance(vocabulary, PretrainedTokenizer):
        vocabulary.save(folder)


def _tokenizer_class(vocabulary: Tokenizer) -> dict[str, str]:
    """The tokenizer class of an imported tokenizer, which may differ from the model family's."""
    if not isinstance(vocabulary, PretrainedTokenizer):
        return {}
    return {
        "tokenizer_class": tokenizer_class_name(
            vocabulary.model_config, vocabulary.files.table(CONFIG)
        )
    }


def write_tokenizer(pipeline: Pipeline, folder: Path) -> None:
    """Write the tokenizer as AutoTokenizer reads it.

    Raises TokenizerError for vocabularies that tokenizer.json cannot represent.
    """
    vocabulary = pipeline.vocabulary
    if isinstance(vocabulary, PretrainedTokenizer):
        vocabulary.save(folder)
        return
    template = CLASSIFICATION_TEMPLATE
    if isinstance(pipeline.model, EncoderDecoder):
        template = SEQUENCE_TEMPLATE
    elif isinstance(pipeline.model, LanguageModel):
        template = CAUSAL_LM_TEMPLATE
    config = pipeline.recipe.model
    for tokenizer, target_folder in (
        (vocabulary, folder),
        (pipeline.target_vocabulary, folder / TARGET_TOKENIZER),
    ):
        if tokenizer is vocabulary and target_folder != folder:
            continue
        assert isinstance(tokenizer, SentencePieceTokenizer)
        target_folder.mkdir(exist_ok=True)
        segments = config.n_segments > 1
        for name, data in tokenizer_files(
            tokenizer, template, config.max_length, token_types=segments
        ).items():
            write_atomically(target_folder / name, data)


def write_json(path: Path, tree: Mapping[str, Any]) -> None:
    """Write a JSON file with an indent of two spaces."""
    write_atomically(path, (json.dumps(tree, ensure_ascii=False, indent=2) + "\n").encode())


def _load(folder: Path, architecture: str | None) -> Any:
    """Load a folder with transformers; architecture None: the class named in config.json."""
    name = architecture or read_json(folder / "config.json")["architectures"][0]
    return transformers_class(name).from_pretrained(folder, dtype=torch.float32).eval()


def transformers_class(name: str) -> Any:
    """The class of this name; for EXAONE 3.5, which has none, the one that opens its config.

    Raises InputError if transformers has neither: the class is code of the checkpoint then.
    """
    import transformers

    if name in _OPENED_BY_CONFIG and hasattr(transformers, "ExaoneConfig"):
        name = _OPENED_BY_CONFIG[name]
    found = getattr(transformers, name, None)
    if found is None:
        raise ExportError(
            "export.unknown_transformers_class",
            "transformers has no class {name}, and no code is run",
            name=name,
        )
    return found


def batches(pipeline: Pipeline, rows: Ragged) -> Iterator[tuple[Tensor, Tensor, Tensor | None]]:
    """Batches of ids and mask (B, S) int64, and decoder ids (B, 5) for an encoder-decoder."""
    generator = torch.Generator().manual_seed(0)
    size = pipeline.recipe.model.output_size
    pad_id = _pad_id(pipeline)
    replacement = 0 if pad_id else 1
    for start in range(0, len(rows), BATCH_SIZE):
        batch = [rows[i].tolist() for i in range(start, min(start + BATCH_SIZE, len(rows)))]
        batch = [
            [replacement if i == pad_id else i for i in row] for row in batch
        ]  # RoBERTa gives it no position
        box = pad(batch, pad_id)
        ids, mask = torch.from_numpy(box.ids), torch.from_numpy(box.mask).long()
        decoder_ids = torch.randint(0, size, (len(batch), 5), generator=generator)
        yield ids, mask, decoder_ids if isinstance(pipeline.model, EncoderDecoder) else None


def _pad_id(pipeline: Pipeline) -> int:
    """The padding id in transformers."""
    if pipeline.origin is not None:
        return ConfigReader(pipeline.origin.config).token_id("pad_token_id") or 0
    return pipeline.vocabulary.padding_id


@torch.inference_mode()
def paired_outputs(
    pipeline: Pipeline, model: Any, ids: Tensor, mask: Tensor, decoder_ids: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Outputs of both models for real tokens: logits, or hidden states without a head."""
    inputs = {"input_ids": ids, "attention_mask": mask}
    if decoder_ids is not None:
        inputs["decoder_input_ids"] = decoder_ids
    found = model(**inputs)
    if hasattr(found, "logits"):
        outputs = pipeline.logits(ids, mask, decoder_input_ids=decoder_ids)
        hf_outputs = found.logits
    else:
        outputs = pipeline.hidden_states(ids, mask, decoder_input_ids=decoder_ids)
        hf_outputs = found.last_hidden_state
    if decoder_ids is None and not isinstance(pipeline.model, TextClassifier | PairClassifier):
        return outputs[mask.bool()], hf_outputs[mask.bool()]
    return outputs, hf_outputs
