"""Traces of transformers models: the families of BERT, GPT-2, Llama, BART and T5.

Shapes: B sequences, S source tokens, T target tokens, N labels, V vocabulary.
"""

import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import PurePath
from typing import Any

import torch
from torch import Tensor, nn

from jumok.errors import TraceError
from jumok.interpret.hf_trace.attention import (
    Stack,
    collect_stacks,
    has_windows,
    is_transformers_model,
    record_attention,
    stack_tensors,
)
from jumok.interpret.hf_trace.model_info import model_info
from jumok.interpret.hf_trace.tokens import HFEncoding, HFTokenizer, hf_tokens
from jumok.interpret.recorder import TOP_K, to_arrays
from jumok.interpret.schema import (
    Candidate,
    Classification,
    Explained,
    ModelKind,
    Side,
    Tokens,
    TraceInfo,
)
from jumok.interpret.trace import Trace
from jumok.nn.hooks import shared_copy

ROTATED_NOTE = "Positions are rotary: q and k are shown after the rotation."


Ids = tuple[Tensor, Tensor]
"""Ids (B, T), and 1 at real tokens (B, T)."""


def trace_transformers(
    model: nn.Module,
    input_ids: Tensor,
    attention_mask: Tensor | None = None,
    decoder_input_ids: Tensor | None = None,
    token_type_ids: Tensor | None = None,
    decoder_attention_mask: Tensor | None = None,
    tokenizer: HFTokenizer | None = None,
    text: str | Sequence[str] | None = None,
) -> Trace:
    """The trace of one forward pass of a transformers model.

    input_ids (B, S) int64; attention_mask (B, S), 1 = real token, padding on the right;
    decoder_input_ids (B, T), with a mask of their own, required by encoder-decoders;
    token_type_ids (B, S) if the model has segments. The tokenizer provides the pieces, and `text`,
    one a sequence, is what they were encoded from; without it the ids are decoded. The model is
    not modified: a shared copy in eval mode is recorded.

        model = AutoModelForCausalLM.from_pretrained("skt/kogpt2-base-v2")
        inputs = tokenizer("겨울은", return_tensors="pt")
        trace_transformers(model, inputs["input_ids"], tokenizer=tokenizer, text="겨울은")

    >>> from transformers import BertConfig, BertModel
    >>> small = {"hidden_size": 8, "intermediate_size": 16, "vocab_size": 10}
    >>> heads = {"num_hidden_layers": 1, "num_attention_heads": 2}
    >>> model = BertModel(BertConfig(**small, **heads))
    >>> trace = trace_transformers(model, torch.tensor([[4, 5, 6]]))
    >>> trace.weights("encoder", layer=0).shape  # (H, T, S)
    (2, 3, 3)

    Raises InputError for a model that is not of transformers or does not use its
    AttentionInterface, for padding on the left, and if transformers is too old.
    """
    _check_inputs(model, decoder_input_ids)
    source, target = (input_ids, _mask(input_ids, attention_mask)), None
    if decoder_input_ids is not None:
        target = (decoder_input_ids, _mask(decoder_input_ids, decoder_attention_mask))
    inputs = {
        "input_ids": input_ids,
        "attention_mask": attention_mask,
        "decoder_input_ids": decoder_input_ids,
        "decoder_attention_mask": decoder_attention_mask,
        "token_type_ids": token_type_ids,
    }
    device = next(model.parameters()).device
    given = {name: ids.to(device) for name, ids in inputs.items() if ids is not None}
    view = shared_copy(model).eval()
    with torch.inference_mode(), record_attention(view) as calls:
        outputs = view(**given, output_hidden_states=True, return_dict=True)
    stacks = collect_stacks(view, calls, encoder_decoder=decoder_input_ids is not None)
    kind, ids_of_side = _sides(stacks, source, target)
    sides = {
        side: _tokens(model, ids, tokenizer, None if ids is target else text)
        for side, ids in ids_of_side.items()
    }
    if token_type_ids is not None and "source" in sides:
        sides["source"] = tuple(
            replace(tokens, segments=tuple(row))
            for tokens, row in zip(sides["source"], token_type_ids.tolist(), strict=True)
        )
    tensors = dict(_hidden_states(outputs, kind))
    d_model = tensors["target.hidden.0" if kind == "decoder" else "source.hidden.0"].shape[-1]
    described = model_info(view, kind, d_model)
    if not has_windows(stacks, described.layer_kinds, described.sliding_window):
        described = replace(described, layer_kinds=None, sliding_window=None)
    notes = [ROTATED_NOTE] if described.positions == "rotary" else []
    for stack in stacks:
        more, more_notes = stack_tensors(view, stack)
        tensors |= more
        notes += more_notes
    info = TraceInfo(
        title=model_title(model),
        task=None,
        model=described,
        made={
            "jumok": metadata.version("jumok"),
            "torch": torch.__version__,
            "transformers": metadata.version("transformers"),
            "date": datetime.date.today().isoformat(),
        },
        blocks=tuple(stack.block for stack in stacks),
        sides=sides,
        classification=_classification(model, outputs),
        next=_next_tokens(model, outputs, sides, tokenizer),
        notes=tuple(dict.fromkeys(notes)),
    )
    return Trace.from_tensors(to_arrays(tensors), info)


def trace_texts(
    model: nn.Module,
    tokenizer: HFTokenizer,
    texts: Sequence[str],
    targets: Sequence[str] | None = None,
) -> Trace:
    """The trace of a transformers model for texts; a TAB separates the two texts of a pair.

    An encoder-decoder needs one target a text; the trace has its decoder inputs: the start token
    and the target without its end. Raises InputError where targets are missing, and for several
    texts if the tokenizer has no padding token.
    """
    config: Any = model.config
    is_encoder_decoder = bool(getattr(config, "is_encoder_decoder", False))
    if is_encoder_decoder != (targets is not None):
        raise TraceError(
            "trace.target_of_model",
            "a {model} {needs}",
            model=type(model).__name__,
            needs="needs one target for each text" if is_encoder_decoder else "takes no target",
        )
    if len(texts) > 1 and tokenizer.pad_token_id is None:
        raise TraceError(
            "trace.no_padding_token",
            "the tokenizer must have a padding token for {n_texts} texts, got none; try one "
            "text, or set tokenizer.pad_token",
            n_texts=len(texts),
        )
    pairs = [text.partition("\t") for text in texts]
    encoded = [_lists(tokenizer(first, second if tab else None)) for first, tab, second in pairs]
    inputs = _pad(encoded, tokenizer)
    decoder_inputs: dict[str, Tensor] = {}
    if targets is not None:
        start = config.decoder_start_token_id
        rows = [tokenizer(text_target=target)["input_ids"] for target in targets]
        shifted = _pad([{"input_ids": [start, *row[:-1]]} for row in rows], tokenizer)
        decoder_inputs = {f"decoder_{name}": ids for name, ids in shifted.items()}
    if getattr(config, "type_vocab_size", 1) < 2 or is_encoder_decoder:
        inputs.pop("token_type_ids", None)
    return trace_transformers(model, **inputs, **decoder_inputs, tokenizer=tokenizer, text=texts)


def model_title(model: nn.Module) -> str:
    """The name the model was loaded by, or its class name."""
    name = PurePath(str(getattr(model.config, "name_or_path", ""))).name
    return name or type(model).__name__


def _check_inputs(model: nn.Module, decoder_input_ids: Tensor | None) -> None:
    """Raises InputError for another library's model, and for missing or surplus decoder inputs."""
    name = type(model).__name__
    if not is_transformers_model(model):
        raise TraceError(
            "trace.not_a_pretrained_model",
            "the model must be a PreTrainedModel of transformers, got {name}",
            name=name,
        )
    is_encoder_decoder = bool(getattr(model.config, "is_encoder_decoder", False))
    if is_encoder_decoder and decoder_input_ids is None:
        raise TraceError(
            "trace.needs_decoder_input_ids", "{name} needs decoder_input_ids, got none", name=name
        )
    if not is_encoder_decoder and decoder_input_ids is not None:
        raise TraceError(
            "trace.takes_no_decoder_input_ids",
            "{name} takes no decoder_input_ids; leave them out",
            name=name,
        )


def _mask(ids: Tensor, mask: Tensor | None) -> Tensor:
    """1 at real tokens, (B, S) int64. Raises InputError unless padding is on the right."""
    if mask is None:
        return torch.ones_like(ids)
    if mask.shape != ids.shape:
        raise TraceError(
            "trace.attention_mask_shape",
            "attention_mask must have the shape of input_ids {shape}, got {shape_2}",
            shape=tuple(ids.shape),
            shape_2=tuple(mask.shape),
        )
    if bool((mask.diff(dim=-1) > 0).any()) or not bool(mask[:, :1].all()):
        raise TraceError(
            "trace.padding_not_on_the_right",
            "padding must be on the right, got some on the left or between tokens; try "
            'tokenizer.padding_side = "right"',
        )
    return mask.long()


def _sides(
    stacks: Sequence[Stack], source: Ids, target: Ids | None
) -> tuple[ModelKind, dict[Side, Ids]]:
    """The kind of the model, and the ids of each side."""
    if target is not None:
        return "encoder_decoder", {"source": source, "target": target}
    if stacks[0].block.name == "decoder":
        return "decoder", {"target": source}
    return "encoder", {"source": source}


def _tokens(
    model: nn.Module, ids: Ids, tokenizer: HFTokenizer | None, text: str | Sequence[str] | None
) -> tuple[Tokens, ...]:
    """The sequences of a side as the header has them."""
    B = len(ids[0])
    texts = [text] if isinstance(text, str) else [None] * B if text is None else list(text)
    if len(texts) != B:
        raise TraceError(
            "trace.number_of_texts",
            "text must have one text for each of {b} sequences, got {n_texts}",
            b=B,
            n_texts=len(texts),
        )
    names = ("bos_token_id", "eos_token_id", "pad_token_id", "cls_token_id", "sep_token_id",
             "decoder_start_token_id")  # fmt: skip
    values = [getattr(model.config, name, None) for name in names]
    special = [value for value in values if isinstance(value, int)]
    return tuple(
        hf_tokens(row, mask, tokenizer, own, special)
        for row, mask, own in zip(ids[0].tolist(), ids[1].tolist(), texts, strict=True)
    )


def _hidden_states(outputs: Mapping[str, Any], kind: ModelKind) -> Iterator[tuple[str, Tensor]]:
    """The input of each layer and the output of the last, of each side: (B, T, D)."""
    found: dict[Side, str] = {"source": "hidden_states"}
    if kind == "decoder":
        found = {"target": "hidden_states"}
    elif kind == "encoder_decoder":
        found = {"source": "encoder_hidden_states", "target": "decoder_hidden_states"}
    for side, name in found.items():
        for layer, hidden in enumerate(outputs[name]):
            yield f"{side}.hidden.{layer}", hidden


def _classification(model: nn.Module, outputs: Mapping[str, Any]) -> Classification | None:
    """The probabilities of a text classifier with a single label."""
    config: Any = model.config
    single_label = type(model).__name__.endswith("ForSequenceClassification") and (
        config.problem_type in (None, "single_label_classification") and config.num_labels > 1
    )
    if not single_label:
        return None
    logits: Tensor = outputs["logits"]  # (B, N)
    return Classification(
        labels=tuple(str(config.id2label[number]) for number in range(logits.shape[1])),
        sequences=tuple(
            Explained(probabilities=tuple(row), words=(), agreement=None)
            for row in logits.float().softmax(-1).tolist()
        ),
    )


def _next_tokens(
    model: nn.Module,
    outputs: Mapping[str, Any],
    sides: Mapping[Side, tuple[Tokens, ...]],
    tokenizer: HFTokenizer | None,
) -> tuple[tuple[Candidate, ...], ...] | None:
    """The most probable tokens after each real one of the first target; None without a head."""
    logits = outputs.get("logits")  # (B, T, V)
    if "target" not in sides or logits is None or logits.ndim != 3:
        return None
    if logits.shape[-1] != getattr(model.config, "vocab_size", None):
        return None  # token classification
    row = logits[0, : sum(sides["target"][0].real)].float().softmax(-1)  # (T, V)
    best = row.topk(min(TOP_K, row.shape[-1]))

    def piece(id_: int) -> str:
        return str(id_) if tokenizer is None else str(tokenizer.convert_ids_to_tokens([id_])[0])

    return tuple(
        tuple(
            Candidate(id=id_, piece=piece(id_), probability=p)
            for id_, p in zip(ids, values, strict=True)
        )
        for ids, values in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    )


def _lists(encoding: HFEncoding) -> dict[str, list[int]]:
    names = ("input_ids", "token_type_ids")
    return {name: list(encoding[name]) for name in names if name in encoding}


def _pad(rows: Sequence[Mapping[str, list[int]]], tokenizer: HFTokenizer) -> dict[str, Tensor]:
    """Rows of ids padded on the right, and their attention_mask."""
    width = max(len(row["input_ids"]) for row in rows)
    fill = {"input_ids": tokenizer.pad_token_id or 0, "token_type_ids": 0}
    found = {
        name: torch.tensor([[*row[name], *[pad] * (width - len(row[name]))] for row in rows])
        for name, pad in fill.items()
        if name in rows[0]
    }
    lengths = torch.tensor([[len(row["input_ids"])] for row in rows])
    return found | {"attention_mask": (torch.arange(width) < lengths).long()}
