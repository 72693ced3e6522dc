"""What a foreign config.json describes, in our words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

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
from jumok.pretrained.bart import BART, MBART
from jumok.pretrained.bert import BERT
from jumok.pretrained.config_reader import Settings
from jumok.pretrained.distilbert import DISTILBERT
from jumok.pretrained.electra import ELECTRA
from jumok.pretrained.family import Family, Head
from jumok.pretrained.gpt2 import GPT2
from jumok.pretrained.marian import MARIAN, PEGASUS
from jumok.pretrained.megatron import MEGATRON_BERT
from jumok.pretrained.meta_init import unfilled
from jumok.pretrained.name_map import Line, within
from jumok.pretrained.roberta import ROBERTA, XLM_ROBERTA
from jumok.pretrained.t5 import MT5, T5

FAMILIES: Mapping[str, Family] = {
    family.model_type: family
    for family in (
        *(BERT, MEGATRON_BERT, ROBERTA, XLM_ROBERTA, ELECTRA, DISTILBERT),
        *(GPT2, T5, MT5, BART, MBART, MARIAN, PEGASUS),
    )
}


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
        return unfilled(self.module)

    def with_tying(self, tying: Tying) -> "Described":
        """The same with other tables tied: what the file holds decides, not what is said of it."""
        return replace(self, config=replace(self.config, tie_embeddings=tying))

    def table(self) -> tuple[Line, ...]:
        """All lines: of the towers, which stand alone under shorter names, and of the head."""
        body = self.family.body(self.config)
        if self.head.kind in ("encoder", "decoder"):
            return within(self.head.kind, body)
        return (*body, *self.head.lines)


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
        head_activation=head.activation or measures.head_activation,
        output_bias=head.output_bias,
    )
    if head.kind == "encoder_decoder" and not head.lines and measures.tying == "none":
        measures = replace(measures, tie_embeddings="target")  # no output of its own is stored
    labelled = head.kind in ("text_classifier", "token_classifier")
    labels = settings.labels() if labelled else ()
    return Described(family, architecture, head, measures, labels)


def _architecture(
    config: Mapping[str, Any], heads: Mapping[str, Head], names: Sequence[str]
) -> str:
    """The one that config.json states; of towers stated alone, with a head beside them, the head's.

    Where nothing is stated it is the first whose head is there, or needs no tensors of its own.
    """
    bare = next(name for name, head in heads.items() if not head.lines)
    stated = config.get("architectures")
    if isinstance(stated, list) and stated:
        if not isinstance(stated[0], str) or stated[0] not in heads:
            raise InputError(
                f"config.json: architectures {ascii(stated[0])[:80]} came; {', '.join(heads)} can "
                "be read"
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
