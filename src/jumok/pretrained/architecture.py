"""The architecture that a Hugging Face config.json describes, as a jumok module and name map."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from jumok.errors import ModelFileError
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
from jumok.pretrained.config_reader import ConfigReader
from jumok.pretrained.family import Family, Head
from jumok.pretrained.meta_init import on_meta_device
from jumok.pretrained.name_map import NameRule, without_prefix
from jumok.registry import Registry

FAMILIES = Registry[Family](
    "jumok.families",
    "config.json: model_type",
    {
        "bert": "jumok.pretrained.bert:BERT",
        "megatron-bert": "jumok.pretrained.megatron:MEGATRON_BERT",
        "roberta": "jumok.pretrained.roberta:ROBERTA",
        "xlm-roberta": "jumok.pretrained.roberta:XLM_ROBERTA",
        "electra": "jumok.pretrained.electra:ELECTRA",
        "distilbert": "jumok.pretrained.distilbert:DISTILBERT",
        "modernbert": "jumok.pretrained.modernbert:MODERNBERT",
        "deberta-v2": "jumok.pretrained.deberta:DEBERTA_V2",
        "gpt2": "jumok.pretrained.gpt2:GPT2",
        "t5": "jumok.pretrained.t5:T5",
        "mt5": "jumok.pretrained.t5:MT5",
        "bart": "jumok.pretrained.bart:BART",
        "mbart": "jumok.pretrained.bart:MBART",
        "marian": "jumok.pretrained.marian:MARIAN",
        "pegasus": "jumok.pretrained.marian:PEGASUS",
        "llama": "jumok.pretrained.llama:LLAMA",
        "mistral": "jumok.pretrained.llama:MISTRAL",
        "qwen2": "jumok.pretrained.llama:QWEN2",
        "qwen3": "jumok.pretrained.llama:QWEN3",
        "gemma3_text": "jumok.pretrained.llama:GEMMA3",
        "exaone": "jumok.pretrained.llama:EXAONE",
        "exaone4": "jumok.pretrained.llama:EXAONE4",
    },
)


@dataclass(frozen=True)
class HFArchitecture:
    """The family, head, config and labels that a config.json describes."""

    family: Family
    class_name: str
    head: Head
    config: TransformerConfig
    labels: tuple[str, ...]
    unread: tuple[str, ...] = ()  # the keys of config.json that may have an effect elsewhere

    def build(self) -> nn.Module:
        """The jumok module, newly initialized."""
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
                    *(self.config, len(self.labels)), self.head.pooling, self.head.pooler
                )
            case "token_classifier":
                return TokenClassifier(self.config, len(self.labels))

    def build_on_meta(self) -> nn.Module:
        """The jumok module on the meta device: weights are assigned to it later."""
        return on_meta_device(self.build)

    def with_tying(self, tying: Tying) -> "HFArchitecture":
        """A copy in which the weights are tied as in the file."""
        return replace(self, config=replace(self.config, tie_embeddings=tying))

    def name_rules(self) -> tuple[NameRule, ...]:
        """The rules of the backbone, without prefix if there is no head, and of the head."""
        backbone = self.family.backbone(self.config)
        if self.head.kind in ("encoder", "decoder"):
            return without_prefix(self.head.kind, backbone)
        return (*backbone, *self.head.rules)


def parse_config(config: Mapping[str, Any], tensor_names: Sequence[str]) -> HFArchitecture:
    """The architecture of a config.json and of the tensors with these names.

    Without `architectures` in the config, the stored tensors determine the head. Raises InputError
    for an unsupported family or architecture, and for invalid values.
    """
    reader = ConfigReader(config)
    reader.check_supported("quantization_config", {})
    model_type = reader.string("model_type", "")
    family = FAMILIES.get(model_type)
    heads = family.heads(reader)
    class_name = _class_name(config, heads, tensor_names)
    head = heads[class_name]
    model_config = family.read_config(reader)
    if head.kind == "encoder" and model_config.n_decoder_layers is not None:
        model_config = replace(model_config, n_decoder_layers=None, scale_output=False)
    model_config = replace(
        model_config,
        head_activation=head.activation or model_config.head_activation,
        output_bias=head.output_bias,
    )
    if head.kind == "encoder_decoder" and not head.rules and model_config.tying == "none":
        model_config = replace(model_config, tie_embeddings="target")  # no output map is stored
    has_labels = head.kind in ("text_classifier", "token_classifier")
    labels = reader.labels() if has_labels else ()
    unread = tuple(reader.unread())
    return HFArchitecture(family, class_name, head, model_config, labels, unread)


def _class_name(
    config: Mapping[str, Any], heads: Mapping[str, Head], tensor_names: Sequence[str]
) -> str:
    """The stated class; if that is a backbone and a head is stored, the class of the head.

    If no class is stated, the first one whose head is stored or needs no tensors.
    """
    backbone = next(name for name, head in heads.items() if not head.rules)
    stated = config.get("architectures")
    if isinstance(stated, list) and stated:
        if not isinstance(stated[0], str) or stated[0] not in heads:
            raise ModelFileError(
                "pretrained.unknown_architecture",
                "config.json: architectures must be one of {heads}, got {ascii}",
                heads=", ".join(heads),
                ascii=ascii(stated[0])[:80],
            )
        if heads[stated[0]].rules:
            return str(stated[0])
        backbone = stated[0]
    for class_name, head in heads.items():
        if not head.rules or (head.kind == "encoder_decoder" and not _has_decoder(tensor_names)):
            continue
        stored = [
            rule for rule in head.rules if any(n.startswith(rule.hf_name) for n in tensor_names)
        ]
        optional = [rule for rule in head.rules if _is_optional(head, rule.hf_name)]
        complete = all(rule in stored or rule in optional for rule in head.rules)
        if complete and (stored or not stated):
            return class_name
    if not stated and heads[backbone].kind == "encoder_decoder" and not _has_decoder(tensor_names):
        return next(name for name, head in heads.items() if head.kind == "encoder")
    return backbone


def _has_decoder(tensor_names: Sequence[str]) -> bool:
    """Whether a decoder is among the names; True if there are none."""
    return not tensor_names or any("decoder." in name for name in tensor_names)


def _is_optional(head: Head, hf_name: str) -> bool:
    """Whether a file is complete without the tensor of this rule of the head."""
    return (
        hf_name in head.optional or hf_name in head.aliases or f"{hf_name}.weight" in head.aliases
    )
