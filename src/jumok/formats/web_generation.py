"""`--to web` of models that generate text: encoder-decoders and language models.

The page runs the search of the kernel (kernel/search.h) from the packed file, and
`GenerationModel` runs the same file natively: its texts are the examples in the file.

Shapes: T tokens, V vocabulary.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jumok.data.table import Table
from jumok.decoding.config import DecodingConfig
from jumok.engine.generation import GenerationModel
from jumok.engine.run import GeneratorRun
from jumok.errors import Message
from jumok.evaluation import bleu_tokenizations, sequence_metrics
from jumok.export.report import relative_difference
from jumok.export.samples import Scores, encode_rows, numeric_scores, to_lists
from jumok.formats.web_model import (
    TOKENIZER,
    WebPrecision,
    packed_dims,
    packed_generator_arrays,
    read_dims,
    upload,
)
from jumok.formats.web_tokenizer import (
    tokenizer_arrays,
    tokenizer_config,
    unsupported_tokenizer,
)
from jumok.models import EncoderDecoder, LanguageModel
from jumok.native.decoder_session import DecoderSession, DecoderWeights, unsupported_search
from jumok.native.layout import (
    Array,
    Arrays,
    GeneratorKind,
    decoder_layer_rotations,
    generator_dims,
    unsupported_generator,
)
from jumok.native.packed_weights import PRECISIONS
from jumok.tasks.inputs.special_tokens import build_source
from jumok.tasks.pipeline.generation_pipeline import as_generation, translates
from jumok.tasks.pipeline.outputs import GeneratedText
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.text.ragged import Ragged
from jumok.text.sentencepiece import SentencePieceTokenizer
from jumok.viewer.example_texts import example_texts

COMPARED_TOKENS = 32  # of an output, at most
_SETTINGS = (  # of DecodingConfig, that the page reads
    *("beam", "n_best", "length_penalty", "length_norm", "early_stopping", "min_length"),
    *("max_length", "max_ratio", "max_extra", "sample", "seed", "temperature", "top_k", "top_p"),
    *("min_p", "typical_p", "repetition_penalty", "no_repeat_ngram", "stop"),
)


def generates(pipeline: Pipeline) -> bool:
    """Whether this module exports the model."""
    return type(pipeline.model) in (EncoderDecoder, LanguageModel) and pipeline.task.generates


def unsupported_generation(pipeline: Pipeline) -> Message | None:
    """Why the page cannot generate the texts of this model; None if it can."""
    model = as_generation(pipeline)
    reason = unsupported_generator(pipeline.recipe.model, _kind(pipeline))
    reason = reason or unsupported_search(pipeline.recipe.decoding)
    if reason is not None:
        return reason
    decoding = pipeline.recipe.decoding
    if decoding.stop and max(decoding.beam, decoding.n_best) > 1:
        return Message(
            "web.stop_of_several",
            "the page ends a single text at decoding.stop, not each of several hypotheses",
        )
    if model.processors or model.more_end_ids or model.ensemble_models:
        return Message(
            "web.generation_rules",
            "the page has no logits processors, several end tokens or ensembles",
        )
    for tokenizer in (pipeline.vocabulary, pipeline.target_vocabulary):
        if not isinstance(tokenizer, SentencePieceTokenizer):
            return Message(
                "web.imported_generator",
                "the page generates text with SentencePiece vocabularies only, got an imported "
                "tokenizer",
            )
        if (reason := unsupported_tokenizer(tokenizer)) is not None:
            return reason
    return None


def packed_generator(
    pipeline: Pipeline, arrays: Arrays, precision: WebPrecision
) -> tuple[dict[str, Array], dict[str, Any]]:
    """The tensors and the settings of the packed file of a model with these weights."""
    config, kind = pipeline.recipe.model, _kind(pipeline)
    source, target = pipeline.vocabulary, pipeline.target_vocabulary
    assert isinstance(source, SentencePieceTokenizer)
    assert isinstance(target, SentencePieceTokenizer)
    packed = packed_generator_arrays(config, kind, arrays, precision)
    template = source.sequence_template if kind == "encoder_decoder" else None
    settings = packed_dims(generator_dims(config, kind), precision)
    settings |= {
        "layers": decoder_layer_rotations(config),
        "generation": {
            "kind": kind,
            "decoding": {name: getattr(_decoding(pipeline), name) for name in _SETTINGS}
            | {"seed": pipeline.recipe.decoding.seed},
            "start": target.decoder_start_id,
            "end": target.eos_id,
            "window": config.max_length,
            "splits_lines": translates(pipeline),
            "continues_documents": pipeline.recipe.windows.across_documents,
        },
        "tokenizer": tokenizer_config(source, config.max_length, template),
    }
    packed |= tokenizer_arrays(source)
    if target is not source:
        settings["target_tokenizer"] = tokenizer_config(target, config.max_length)
        packed |= tokenizer_arrays(target, f"{TOKENIZER}target.")
    settings["examples"] = _examples(pipeline, packed_model(pipeline, packed, settings))
    if precision == "int8":  # a text that int8 changes may be another one on another processor
        _, plain = packed_generator(pipeline, arrays, "float32")
        texts = {each["text"]: each["generated"] for each in plain["examples"]}
        settings["examples"] = [
            each for each in settings["examples"] if texts[each["text"]] == each["generated"]
        ]
    return packed, settings


def packed_model(
    pipeline: Pipeline, packed: Arrays, settings: Mapping[str, Any]
) -> GenerationModel:
    """The packed file in the C++ kernel of this processor: what the page computes, natively.

    Raises KernelError if the kernel is not available.
    """
    weights = DecoderWeights(read_dims(settings), PRECISIONS[settings["precision"]])
    upload(weights.packed, packed)
    for layer, (window, rotary) in enumerate(settings["layers"]):
        weights.set_layer(layer, window, rotary)
    if "source" in packed:
        weights.source_vocabulary_size = len(packed["source"])
    recipe = pipeline.recipe
    run = GeneratorRun(
        task=recipe.task,
        config=recipe.model,
        tokenizer=pipeline.vocabulary,
        arrays={},
        weights_sha256="",
        corpus=recipe.data.corpus,
        labels=(),
        paired=False,
        mapping=None,
        kind=_kind(pipeline),
        target_tokenizer=pipeline.target_vocabulary,
        decoding=_decoding(pipeline),
        translates=translates(pipeline),
        across_documents=recipe.windows.across_documents,
    )
    return GenerationModel(run, _decoding(pipeline), weights)


def generation_difference(pipeline: Pipeline, model: GenerationModel, rows: Ragged) -> float:
    """The difference of the logits of every token of generated texts, or of the texts."""
    with torch.inference_mode():
        return relative_difference(_logits(pipeline, model, rows))


def generation_scores(pipeline: Pipeline, model: GenerationModel, table: Table) -> Scores:
    """The scores of the packed file on the rows of a table: of its texts, or the loss per token."""
    if isinstance(pipeline.model, LanguageModel):
        return _loss(model, encode_rows(pipeline, table))
    outputs = model.with_decoding(["beam=1", "n_best=1"]).predict(list(table.column("source")))
    texts = [each.output for each in outputs if isinstance(each, GeneratedText)]
    language = pipeline.recipe.data.language
    found = sequence_metrics(texts, table.column("target"), bleu_tokenizations(language), language)
    return numeric_scores(found.to_dict())


def _kind(pipeline: Pipeline) -> GeneratorKind:
    return "encoder_decoder" if isinstance(pipeline.model, EncoderDecoder) else "decoder"


def _decoding(pipeline: Pipeline) -> DecodingConfig:
    config = replace(pipeline.recipe.decoding, seed=pipeline.recipe.decoding.fixed_seed)
    if _kind(pipeline) == "decoder":
        return config
    return config.capped_at(pipeline.recipe.model.max_length)


def _examples(pipeline: Pipeline, model: GenerationModel) -> list[dict[str, Any]]:
    """Texts, their input ids, the texts that are generated and their log-probabilities."""
    found = []
    for text in example_texts(pipeline):
        (output,) = model.predict([text])
        assert isinstance(output, GeneratedText)
        log_p = [float(str(np.float32(each.log_probability))) for each in output.tokens]
        ids = _ids(pipeline, model, text)
        found.append({"text": text, "ids": ids, "generated": output.output, "outputs": log_p})
    return found


def _ids(pipeline: Pipeline, model: GenerationModel, text: str) -> list[int]:
    """The ids that the model reads."""
    if isinstance(pipeline.model, LanguageModel):
        return model.prompt(text)
    ids = Ragged.from_lists([pipeline.vocabulary.encode(text)])
    max_length = pipeline.recipe.model.max_length
    row: list[int] = build_source(pipeline.vocabulary, ids, max_length)[0].tolist()
    return row


def _logits(
    pipeline: Pipeline, model: GenerationModel, rows: Ragged
) -> Iterator[tuple[Tensor, Tensor]]:
    """The logits (T, V) of the packed file and of the model, for each row."""
    start = pipeline.target_vocabulary.decoder_start_id
    for row in to_lists(rows):
        if isinstance(pipeline.model, LanguageModel):
            yield _all_logits(model, None, row), pipeline.model(torch.tensor([row]))[0]
            continue
        limit = min(COMPARED_TOKENS, pipeline.recipe.model.max_length)
        session = model.session(Ragged.from_lists([row]), limit)
        ((best,),) = session.search(
            np.array([[start]], np.int64), DecodingConfig(max_length=limit), model.stopping([limit])
        )
        target = [start, *best.ids][:limit]
        found = _all_logits(model, row, target)
        yield found, pipeline.model(torch.tensor([row]), torch.tensor([target]))[0]


def _all_logits(model: GenerationModel, source: list[int] | None, target: list[int]) -> Tensor:
    sources = None if source is None else Ragged.from_lists([source])
    session: DecoderSession = model.session(sources, len(target))
    return torch.from_numpy(session.step_all(np.array([target], np.int64))[0])


def _loss(model: GenerationModel, rows: Ragged) -> Scores:
    """Loss and perplexity of texts truncated to max_length; each token is predicted once."""
    total, n = 0.0, 0
    for row in to_lists(rows):
        if len(row) < 2:
            continue
        log_p = _all_logits(model, None, row[:-1]).log_softmax(-1)
        total -= float(log_p.gather(-1, torch.tensor([row[1:]]).T).sum())
        n += len(row) - 1
    loss = total / max(n, 1)
    return {"loss": loss, "perplexity": math.exp(min(loss, 700.0))}
