"""From a foreign checkpoint to a module of our own: every tensor accounted for, none copied."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from jumok.errors import InputError
from jumok.models import (
    Decoder,
    Encoder,
    EncoderDecoder,
    LanguageModel,
    MaskedLanguageModel,
    ReplacedTokenDetector,
    TextClassifier,
    TokenClassifier,
    TransformerConfig,
)
from jumok.models.config import Tying
from jumok.models.weights import weights_of
from jumok.pretrained.bart import BART, MBART
from jumok.pretrained.bert import BERT
from jumok.pretrained.distilbert import DISTILBERT
from jumok.pretrained.electra import ELECTRA
from jumok.pretrained.family import Family, Head
from jumok.pretrained.gpt2 import GPT2
from jumok.pretrained.marian import MARIAN, PEGASUS
from jumok.pretrained.megatron import MEGATRON_BERT
from jumok.pretrained.names import Entry, Line, entries, within
from jumok.pretrained.reason import refuse_giants
from jumok.pretrained.roberta import ROBERTA, XLM_ROBERTA
from jumok.pretrained.settings import Settings
from jumok.pretrained.t5 import MT5, T5

FAMILIES: Mapping[str, Family] = {
    family.model_type: family
    for family in (
        *(BERT, MEGATRON_BERT, ROBERTA, XLM_ROBERTA, ELECTRA, DISTILBERT),
        *(GPT2, T5, MT5, BART, MBART, MARIAN, PEGASUS),
    )
}
SHOWN = 12  # names in an error
NUMBERS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)  # that weights may be


class _NoFilling(TorchFunctionMode):
    """Weights that will be replaced are not drawn first."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__module__", None) == "torch.nn.init":
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)


@dataclass(frozen=True)
class Described:
    """What a config.json describes, in our words."""

    family: Family
    architecture: str
    head: Head
    config: TransformerConfig
    labels: tuple[str, ...]

    def module(self) -> nn.Module:
        """The module it describes, freshly made."""
        match self.head.kind:
            case "encoder":
                return Encoder(self.config)
            case "decoder":
                return Decoder(self.config)
            case "encoder_decoder":
                return EncoderDecoder(self.config)
            case "masked_language_model":
                return MaskedLanguageModel(self.config)
            case "replaced_token_detector":
                return ReplacedTokenDetector(self.config)
            case "language_model":
                return LanguageModel(self.config)
            case "text_classifier":
                return TextClassifier(
                    self.config, len(self.labels), pooling="first", pooler=self.head.pooler
                )
            case "token_classifier":
                return TokenClassifier(self.config, len(self.labels))

    def unfilled(self) -> nn.Module:
        """The module it describes without numbers, to hold others: it takes no memory or time."""
        with torch.device("meta"), _NoFilling():
            return self.module()

    def with_tying(self, tying: Tying) -> "Described":
        """The same with other tables tied: what the file holds decides, not what is said of it."""
        return replace(self, config=replace(self.config, tie_embeddings=tying))

    def table(self) -> tuple[Line, ...]:
        """All lines: of the towers, which stand alone under shorter names, and of the head."""
        body = self.family.body(self.config)
        if self.head.kind in ("encoder", "decoder"):
            return within(self.head.kind, body)
        return (*body, *self.head.lines)


@dataclass(frozen=True)
class Pretrained:
    """A foreign checkpoint as a module of ours, and what the way back needs.

    `names` says for every tensor that came which name the table gives it: most often the same one.
    `carried` are tensors the module does not need.
    """

    described: Described
    model: nn.Module
    names: Mapping[str, str]
    carried: Mapping[str, Tensor]


def describe(config: Mapping[str, Any], names: Sequence[str]) -> Described:
    """What a config.json describes; `names` are those of the tensors beside it.

    Raises InputError for a family or an architecture we do not read, and for measures that are
    none. Without `architectures` the head is the one whose tensors are there.
    """
    settings = Settings(config)
    kind = settings.word("model_type", "")
    if kind not in FAMILIES:
        raise InputError(
            f"config.json: model_type {kind!r} came; {', '.join(FAMILIES)} can be read"
        )
    family = FAMILIES[kind]
    heads = family.heads(settings)
    architecture = _architecture(config, heads, names)
    head = heads[architecture]
    measures = family.config(settings)
    if head.kind == "encoder" and measures.n_decoder_layers is not None:
        measures = replace(measures, n_decoder_layers=None, scale_output=False)
    measures = replace(
        measures,
        head_activation=head.bend or measures.head_activation,
        output_bias=head.output_bias,
    )
    labelled = head.kind in ("text_classifier", "token_classifier")
    labels = settings.labels() if labelled else ()
    return Described(family, architecture, head, measures, labels)


@torch.no_grad()
def open_model(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Pretrained:
    """The module of a config.json whose weights are the tensors beside it, not copies of them.

    The weights keep the dtype they are stored in. Raises InputError that lists every tensor that
    is missing, unexpected, of another shape, or stored twice and different.
    """
    described = describe(config, list(tensors))
    named = _canonical(list(tensors), described)
    given = {canonical: tensors[name] for canonical, name in named.items()}
    described = _untied(described, given)
    refuse_giants(described.config, sum(tensor.numel() for tensor in given.values()))
    model = described.unfilled()
    wanted = weights_of(model)
    lines = entries(described.table(), wanted)
    sorted_out = _sort_out(described, lines, model, given)
    hold(model, sorted_out.weights)
    return Pretrained(
        described,
        model,
        names={named[canonical]: canonical for canonical in given},
        carried=sorted_out.carried,
    )


@dataclass(frozen=True)
class _Sorted:
    """The tensors that came: parameters of ours by our names, and what else is known."""

    weights: Mapping[str, Tensor]
    carried: Mapping[str, Tensor]


def _sort_out(
    described: Described, lines: Sequence[Entry], model: nn.Module, given: Mapping[str, Tensor]
) -> _Sorted:
    head, computed = described.head, described.family.computed
    wanted = weights_of(model)
    weights: dict[str, Tensor] = {}
    carried: dict[str, Tensor] = {}
    wrong: list[str] = []
    known = {entry.theirs for entry in lines}
    seconds = {second: first for second, first in head.same.items() if second not in known}
    for entry in lines:
        here = entry.theirs if entry.theirs in given else _second(entry.theirs, seconds, given)
        if here is None:
            if entry.theirs not in head.absent:
                wrong.append(f"{entry.theirs} is missing")
                continue
            kind = next(iter(weights.values())).dtype if weights else None
            parts = {name: torch.zeros(wanted[name].shape, dtype=kind) for name in entry.ours}
        elif given[here].dtype not in NUMBERS:
            held = str(given[here].dtype).removeprefix("torch.")
            wrong.append(f"{here} holds {held}, which weights are not")
            continue
        else:
            parts = dict(_split(entry, given[here]))
        for name in entry.ours:
            if name not in parts or parts[name].shape != wanted[name].shape:
                shape = tuple(given[here].shape) if here else ()
                meant = tuple(wanted[name].shape)
                wrong.append(f"{here} is {shape}, its {name} would be {meant}")
                break
        weights.update(parts)
    for name, tensor in given.items():
        if name in known:
            continue
        first = seconds.get(name)
        if first is not None and first not in given:
            continue  # it stood in for the first: all is well
        if first is not None and _alike(tensor, given[first]):
            continue
        check = next(
            (made for pattern, made in computed.items() if re.fullmatch(pattern, name)), None
        )
        if check is not None and check(model, tensor):
            carried[name] = tensor
        elif check is not None:
            wrong.append(f"{name} is not what the config says it is")
        elif any(re.fullmatch(pattern, name) for pattern in head.carried):
            carried[name] = tensor
        elif first is not None:
            wrong.append(f"{name} is not {first}, with which it is tied")
        else:
            wrong.append(f"{name} is unexpected")
    if wrong:
        shown = "; ".join(wrong[:SHOWN]) + (
            f"; and {len(wrong) - SHOWN} more" * (len(wrong) > SHOWN)
        )
        raise InputError(
            f"the tensors are not those of a {described.architecture}: {shown}; give the "
            "checkpoint's own config.json and weights"
        )
    return _Sorted(weights, carried)


def _split(entry: Entry, tensor: Tensor) -> Mapping[str, Tensor]:
    """The parameters of ours in one tensor of theirs; empty when its shape has no such parts."""
    try:
        return entry.split(tensor)
    except (IndexError, RuntimeError, ValueError):  # each way of cutting has its own
        return {}


def _second(first: str, seconds: Mapping[str, str], given: Mapping[str, Tensor]) -> str | None:
    """Another name of a tensor under which it is stored."""
    return next((name for name, known in seconds.items() if known == first and name in given), None)


def _untied(described: Described, given: Mapping[str, Tensor]) -> Described:
    """Where the output is said to be tied and a table of its own is stored, it is not tied."""
    same = described.head.same
    output = next(
        (each.theirs for each in described.head.lines if each.ours[0].startswith("output")), ""
    )
    output = output if output.endswith(".weight") else f"{output}.weight"
    if output not in same or output not in given or same[output] not in given:
        return described
    if _alike(given[output], given[same[output]]):
        return described
    alone: Mapping[Tying, Tying] = {"all": "inputs", "target": "none"}
    inputs = described.head.kind == "encoder_decoder"
    tying = alone.get(described.config.tying, "none") if inputs else "none"
    return described.with_tying(tying)


def _alike(one: Tensor, other: Tensor) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return one.data_ptr() == other.data_ptr() or torch.equal(one, other)


def _canonical(names: Sequence[str], described: Described) -> dict[str, str]:
    """The names that came by those of the table.

    Towers saved alone have no prefix, and old files call the numbers of a norm gamma and beta.
    """
    prefix = described.family.prefix
    bare = not any(name.startswith(prefix) for name in names)
    of_head = {each.theirs.partition(".")[0] for each in described.head.lines}
    of_head |= {
        name.partition(".")[0] for name in described.head.same if not name.startswith(prefix)
    }
    found: dict[str, str] = {}
    for name in names:
        plain = re.sub(r"\bLayerNorm\.gamma$", "LayerNorm.weight", name)
        plain = re.sub(r"\bLayerNorm\.beta$", "LayerNorm.bias", plain)
        if bare and plain.partition(".")[0] not in of_head:
            plain = prefix + plain
        if plain in found:
            raise InputError(
                f"{found[plain]} and {name} came, the old and the new name of one tensor; "
                "leave one of them out"
            )
        found[plain] = name
    return found


def _architecture(
    config: Mapping[str, Any], heads: Mapping[str, Head], names: Sequence[str]
) -> str:
    """The one that config.json states; of towers stated alone, with a head beside them, the head's.

    Where nothing is stated it is the first whose head is there, or needs no tensors of its own.
    """
    bare = next(name for name, head in heads.items() if not head.lines)
    stated = config.get("architectures")
    if isinstance(stated, list) and stated:
        if stated[0] not in heads:
            raise InputError(
                f"config.json: architectures {stated[0]!r} came; {', '.join(heads)} can be read"
            )
        if heads[stated[0]].lines:
            return str(stated[0])
        bare = stated[0]
    for architecture, head in heads.items():
        if not head.lines or (head.kind == "encoder_decoder" and not _decoder_among(names)):
            continue
        stored = [each for each in head.lines if any(n.startswith(each.theirs) for n in names)]
        spared = [each for each in head.lines if _may_lack(head, each.theirs)]
        if all(each in stored or each in spared for each in head.lines) and (stored or not stated):
            return architecture
    if not stated and heads[bare].kind == "encoder_decoder" and not _decoder_among(names):
        return next(name for name, head in heads.items() if head.kind == "encoder")
    return bare


def _decoder_among(names: Sequence[str]) -> bool:
    """Whether a decoder is among the names, or nobody has told them."""
    return not names or any("decoder." in name for name in names)


def _may_lack(head: Head, theirs: str) -> bool:
    """Whether a file says all without this line of the head."""
    return theirs in head.absent or theirs in head.same or f"{theirs}.weight" in head.same


def hold(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Let the model hold these tensors themselves, of whatever dtype, by the names of its weights.

    Raises InputError when one is missing or of another shape; then nothing was changed.
    """
    wanted = weights_of(model)
    unfit = sorted(
        name
        for name, parameter in wanted.items()
        if name not in tensors or tensors[name].shape != parameter.shape
    )
    if unfit:
        raise InputError(f"the weights do not fit the model: {_listed(unfit)}; give its own")
    new = {
        id(parameter): nn.Parameter(tensors[name], requires_grad=tensors[name].is_floating_point())
        for name, parameter in wanted.items()
    }
    for module in model.modules():
        for name, held in list(module._parameters.items()):
            if held is not None and id(held) in new:
                module._parameters[name] = new[id(held)]


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
