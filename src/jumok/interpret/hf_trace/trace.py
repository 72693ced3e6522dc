"""A trace of any model of transformers: BERT's kin, GPT-2's, Llama's, BART's and T5's.

Shapes: B sequences, S source tokens, T target tokens, N labels, V vocabulary.
"""

import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import metadata
from typing import Any

import torch
from torch import Tensor, nn

from jumok.errors import InputError
from jumok.interpret.hf_trace.attention import is_transformers_model, record_attention
from jumok.interpret.hf_trace.blocks import Stack, collect_stacks, stack_tensors
from jumok.interpret.hf_trace.model import Kind, model_info, model_title
from jumok.interpret.hf_trace.tokens import HFTokenizer, hf_tokens
from jumok.interpret.recorder import to_arrays
from jumok.interpret.schema import Candidate, Classification, Explained, Side, Tokens, TraceInfo
from jumok.interpret.trace import Trace
from jumok.nn.hooks import shared_copy

TOP_K = 10  # tokens told after each token of a decoder
ROTATED_NOTE = "Positions are rotary: q and k are shown as they meet, turned already."

Ids = tuple[Tensor, Tensor]
"""Ids (B, T) and which of them are real tokens (B, T)."""


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
    """What passes through every head of a model of transformers while it reads ids.

    input_ids (B, S) int64; attention_mask (B, S), 1 = real token, padding on the right;
    decoder_input_ids (B, T), with a mask of their own, for encoder-decoders, which demand them;
    token_type_ids (B, S) where the model has segments. The tokeniser names the pieces, and
    `text`, one a sequence, is what they stand for; without it their own spelling is taken. The
    model is not touched, and is watched in eval mode: others may use it meanwhile.

        model = AutoModelForCausalLM.from_pretrained("skt/kogpt2-base-v2")
        asked = tokenizer("겨울은", return_tensors="pt")
        trace_transformers(model, asked["input_ids"], tokenizer=tokenizer, text="겨울은")

    Raises InputError for a model that is not of transformers or does not let its attention be
    chosen, for padding on the left, and where transformers is too old.
    """
    _refuse(model, decoder_input_ids)
    source, target = (input_ids, _real(input_ids, attention_mask)), None
    if decoder_input_ids is not None:
        target = (decoder_input_ids, _real(decoder_input_ids, decoder_attention_mask))
    given = {
        "input_ids": input_ids,
        "attention_mask": attention_mask,
        "decoder_input_ids": decoder_input_ids,
        "decoder_attention_mask": decoder_attention_mask,
        "token_type_ids": token_type_ids,
    }
    device = next(model.parameters()).device
    asked = {name: ids.to(device) for name, ids in given.items() if ids is not None}
    view = shared_copy(model).eval()
    with torch.inference_mode(), record_attention(view) as seen:
        answer = view(**asked, output_hidden_states=True, return_dict=True)
    stacks = collect_stacks(view, seen, encoder_decoder=decoder_input_ids is not None)
    kind, rows = _read(stacks, source, target)
    sides = {
        side: _tokens(model, ids, tokenizer, None if ids is target else text)
        for side, ids in rows.items()
    }
    if token_type_ids is not None and "source" in sides:
        sides["source"] = tuple(
            replace(tokens, segments=tuple(row))
            for tokens, row in zip(sides["source"], token_type_ids.tolist(), strict=True)
        )
    tensors = dict(_hidden(answer, kind))
    d_model = tensors["target.hidden.0" if kind == "decoder" else "source.hidden.0"].shape[-1]
    described = model_info(view, kind, d_model)
    notes = [ROTATED_NOTE] if described.positions == "rotary" else []
    for stack in stacks:
        more, told = stack_tensors(view, stack)
        tensors |= more
        notes += told
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
        classification=_classification(model, answer),
        next=_next(model, answer, sides, tokenizer),
        notes=tuple(dict.fromkeys(notes)),
    )
    return Trace.from_tensors(to_arrays(tensors), info)


def _refuse(model: nn.Module, decoder_input_ids: Tensor | None) -> None:
    """Raises InputError for what cannot be traced, or not so."""
    name = type(model).__name__
    if not is_transformers_model(model):
        raise InputError(f"a {name} is no model of transformers; give one that is")
    rewrites = bool(getattr(model.config, "is_encoder_decoder", False))
    if rewrites and decoder_input_ids is None:
        raise InputError(f"a {name} needs decoder_input_ids; give them")
    if not rewrites and decoder_input_ids is not None:
        raise InputError(f"a {name} takes no decoder_input_ids; leave them out")


def _real(ids: Tensor, mask: Tensor | None) -> Tensor:
    """Which ids are real tokens, (B, S) int64. Raises InputError unless padding is on the right."""
    if mask is None:
        return torch.ones_like(ids)
    if mask.shape != ids.shape:
        raise InputError(
            f"attention_mask {tuple(mask.shape)} is not of the shape of input_ids "
            f"{tuple(ids.shape)}; give a 1 or 0 for each id"
        )
    if bool((mask.diff(dim=-1) > 0).any()) or not bool(mask[:, :1].all()):
        raise InputError(
            "padding stands on the left or in between; give it on the right "
            '(tokenizer.padding_side = "right")'
        )
    return mask.long()


def _read(stacks: Sequence[Stack], source: Ids, target: Ids | None) -> tuple[Kind, dict[Side, Ids]]:
    """What kind of model it is, and the ids of each side."""
    if target is not None:
        return "encoder_decoder", {"source": source, "target": target}
    if stacks[0].block.name == "decoder":
        return "decoder", {"target": source}
    return "encoder", {"source": source}


def _tokens(
    model: nn.Module, ids: Ids, tokenizer: HFTokenizer | None, text: str | Sequence[str] | None
) -> tuple[Tokens, ...]:
    """The rows of a side as the header has them."""
    B = len(ids[0])
    texts = [text] if isinstance(text, str) else [None] * B if text is None else list(text)
    if len(texts) != B:
        raise InputError(f"{len(texts)} texts came for {B} sequences; give one for each")
    names = ("bos_token_id", "eos_token_id", "pad_token_id", "cls_token_id", "sep_token_id",
             "decoder_start_token_id")  # fmt: skip
    special = [getattr(model.config, name, None) for name in names]
    marked = [id_ for id_ in special if isinstance(id_, int)]
    return tuple(
        hf_tokens(row, real, tokenizer, own, marked)
        for row, real, own in zip(ids[0].tolist(), ids[1].tolist(), texts, strict=True)
    )


def _hidden(answer: Mapping[str, Any], kind: Kind) -> Iterator[tuple[str, Tensor]]:
    """What enters each layer and what leaves the last, of each side: (B, T, D)."""
    found: dict[Side, str] = {"source": "hidden_states"}
    if kind == "decoder":
        found = {"target": "hidden_states"}
    elif kind == "encoder_decoder":
        found = {"source": "encoder_hidden_states", "target": "decoder_hidden_states"}
    for side, name in found.items():
        for layer, hidden in enumerate(answer[name]):
            yield f"{side}.hidden.{layer}", hidden


def _classification(model: nn.Module, answer: Mapping[str, Any]) -> Classification | None:
    """The probabilities of a text classifier that chooses one of several labels."""
    config: Any = model.config
    chooses = type(model).__name__.endswith("ForSequenceClassification") and (
        config.problem_type in (None, "single_label_classification") and config.num_labels > 1
    )
    if not chooses:
        return None
    logits: Tensor = answer["logits"]  # (B, N)
    return Classification(
        labels=tuple(str(config.id2label[number]) for number in range(logits.shape[1])),
        sequences=tuple(
            Explained(probabilities=tuple(row), words=(), agreement=None)
            for row in logits.float().softmax(-1).tolist()
        ),
    )


def _next(
    model: nn.Module,
    answer: Mapping[str, Any],
    sides: Mapping[Side, tuple[Tokens, ...]],
    tokenizer: HFTokenizer | None,
) -> tuple[tuple[Candidate, ...], ...] | None:
    """The likeliest tokens after each real one of the first target; None without a head."""
    logits = answer.get("logits")  # (B, T, V)
    if "target" not in sides or logits is None or logits.ndim != 3:
        return None
    if logits.shape[-1] != getattr(model.config, "vocab_size", None):
        return None  # labels of tokens
    row = logits[0, : sum(sides["target"][0].real)].float().softmax(-1)  # (T, V)
    best = row.topk(min(TOP_K, row.shape[-1]))

    def named(id_: int) -> str:
        return str(id_) if tokenizer is None else str(tokenizer.convert_ids_to_tokens([id_])[0])

    return tuple(
        tuple(
            Candidate(id=id_, piece=named(id_), probability=p)
            for id_, p in zip(ids, values, strict=True)
        )
        for ids, values in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    )
