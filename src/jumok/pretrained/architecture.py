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
from jumok.pretrained.config_reader import ConfigReader
from jumok.pretrained.distilbert import DISTILBERT
from jumok.pretrained.electra import ELECTRA
from jumok.pretrained.family import Family, Head
from jumok.pretrained.gpt2 import GPT2
from jumok.pretrained.marian import MARIAN, PEGASUS
from jumok.pretrained.megatron import MEGATRON_BERT
from jumok.pretrained.meta_init import on_meta_device
from jumok.pretrained.name_map import NameRule, without_prefix
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
class HFArchitecture:
    """What a config.json describes, in our words."""

    family: Family
    class_name: str
    head: Head
    config: TransformerConfig
    labels: tuple[str, ...]

    def build(self) -> nn.Module:
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

    def build_on_meta(self) -> nn.Module:
        """The module it describes without numbers, to hold others: it takes no memory or time."""
        return on_meta_device(self.build)

    def with_tying(self, tying: Tying) -> "HFArchitecture":
        """The same with other tables tied: what the file holds decides, not what is said of it."""
        return replace(self, config=replace(self.config, tie_embeddings=tying))

    def name_rules(self) -> tuple[NameRule, ...]:
        """All lines: of the towers, which stand alone under shorter names, and of the head."""
        body = self.family.backbone(self.config)
        if self.head.kind in ("encoder", "decoder"):
            return without_prefix(self.head.kind, body)
        return (*body, *self.head.rules)


def parse_config(config: Mapping[str, Any], tensor_names: Sequence[str]) -> HFArchitecture:
    """What a config.json describes; `names` are those of the tensors beside it.

    Raises InputError for a family or an architecture we do not read, and for measures that are
    none. Without `architectures` the head is the one whose tensors are there.
    """
    reader = ConfigReader(config)
    model_type = reader.string("model_type", "")
    if model_type not in FAMILIES:
        raise InputError(
            f"config.json: model_type {model_type!r} came; {', '.join(FAMILIES)} can be read"
        )
    family = FAMILIES[model_type]
    heads = family.heads(reader)
    architecture = _class_name(config, heads, tensor_names)
    head = heads[architecture]
    measures = family.read_config(reader)
    if head.kind == "encoder" and measures.n_decoder_layers is not None:
        measures = replace(measures, n_decoder_layers=None, scale_output=False)
    measures = replace(
        measures,
        head_activation=head.activation or measures.head_activation,
        output_bias=head.output_bias,
    )
    if head.kind == "encoder_decoder" and not head.rules and measures.tying == "none":
        measures = replace(measures, tie_embeddings="target")  # no output of its own is stored
    labelled = head.kind in ("text_classifier", "token_classifier")
    labels = reader.labels() if labelled else ()
    return HFArchitecture(family, architecture, head, measures, labels)


def _class_name(
    config: Mapping[str, Any], heads: Mapping[str, Head], tensor_names: Sequence[str]
) -> str:
    """The one that config.json states; of towers stated alone, with a head beside them, the head's.

    Where nothing is stated it is the first whose head is there, or needs no tensors of its own.
    """
    bare = next(name for name, head in heads.items() if not head.rules)
    stated = config.get("architectures")
    if isinstance(stated, list) and stated:
        if not isinstance(stated[0], str) or stated[0] not in heads:
            raise InputError(
                f"config.json: architectures {ascii(stated[0])[:80]} came; {', '.join(heads)} can "
                "be read"
            )
        if heads[stated[0]].rules:
            return str(stated[0])
        bare = stated[0]
    for architecture, head in heads.items():
        if not head.rules or (head.kind == "encoder_decoder" and not _has_decoder(tensor_names)):
            continue
        stored = [
            each for each in head.rules if any(n.startswith(each.hf_name) for n in tensor_names)
        ]
        spared = [each for each in head.rules if _is_optional(head, each.hf_name)]
        if all(each in stored or each in spared for each in head.rules) and (stored or not stated):
            return architecture
    if not stated and heads[bare].kind == "encoder_decoder" and not _has_decoder(tensor_names):
        return next(name for name, head in heads.items() if head.kind == "encoder")
    return bare


def _has_decoder(tensor_names: Sequence[str]) -> bool:
    """Whether a decoder is among the names, or nobody has told them."""
    return not tensor_names or any("decoder." in name for name in tensor_names)


def _is_optional(head: Head, theirs: str) -> bool:
    """Whether a file says all without this line of the head."""
    return theirs in head.optional or theirs in head.aliases or f"{theirs}.weight" in head.aliases
