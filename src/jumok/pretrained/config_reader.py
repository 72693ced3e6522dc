"""Read a Hugging Face config.json key by key, with the type and range of each value checked."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jumok.errors import InputError, ModelFileError
from jumok.foreign_keys import KeyTable
from jumok.nn.config import Activation

MAX_SIZE = 2**31 - 1
MAX_LAYERS = 1_000

ACTIVATIONS: Mapping[str, Activation] = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "silu": "silu",
    "swish": "silu",
}

# Keys that no output of jumok depends on, or that its readers of other parts read.
WITHOUT_EFFECT = frozenset(
    """
    architectures auto_map model_type id2label label2id num_labels problem_type tokenizer_class
    _name_or_path transformers_version dtype torch_dtype _attn_implementation attn_implementation
    use_cache return_dict output_attentions output_hidden_states output_past torchscript
    use_bfloat16 tf_legacy_loss is_encoder_decoder chunk_size_feed_forward gradient_checkpointing
    finetuning_task use_return_dict pretraining_tp _num_labels model_max_length
    bos_token_id eos_token_id pad_token_id sep_token_id cls_token_id mask_token_id unk_token_id
    decoder_start_token_id forced_bos_token_id forced_eos_token_id decoder_vocab_size
    initializer_range initializer_factor initializer_cutoff_factor init_std
    classifier_dropout classif_dropout qa_dropout seq_classif_dropout decoder_layerdrop
    encoder_layerdrop attention_probs_dropout_prob hidden_dropout_prob embd_pdrop
    pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head pooler_type
    directionality summary_activation summary_first_dropout summary_last_dropout
    summary_proj_to_labels summary_type summary_use_proj sinusoidal_pos_embds
    reorder_and_upcast_attn n_ctx predict_special_tokens num_hidden_layers hidden_size
    rope_theta rope_scaling rope_local_base_freq dense_act_fn is_gated_act
    normalize_before normalize_embedding add_final_layer_norm
    add_bias_logits extra_pos_embeddings static_position_embeddings author
    max_window_layers sliding_window sliding_window_pattern _sliding_window_pattern
    num_beams length_penalty early_stopping max_length min_length repetition_penalty
    no_repeat_ngram_size bad_words_ids suppress_tokens do_sample temperature top_k top_p typical_p
    num_return_sequences num_beam_groups diversity_penalty encoder_no_repeat_ngram_size
    output_scores return_dict_in_generate remove_invalid_values
    """.split()  # noqa: SIM905
)


@dataclass(frozen=True)
class ConfigReader:
    """The keys of a config.json; a missing key has the default value of its family.

    `read` collects the keys that were asked for, and `nested` the readers of objects among the
    values, so that `unread` names the others.

    >>> reader = ConfigReader({"hidden_size": 64, "invented": 1, "absent": None})
    >>> reader.positive_int("hidden_size", 768), reader.unread()
    (64, ['invented'])
    """

    values: Mapping[str, Any]
    read: set[str] = field(default_factory=set, compare=False, repr=False)
    nested: dict[str, "ConfigReader"] = field(default_factory=dict, compare=False, repr=False)

    def get(self, key: str, default: object = None) -> Any:
        """The value of a key as it is in the file."""
        self.read.add(key)
        return self.values.get(key, default)

    def with_defaults(self, defaults: Mapping[str, object]) -> "ConfigReader":
        """The same file in a family with other default values."""
        return ConfigReader({**defaults, **self.values}, self.read, self.nested)

    def reader_of(self, name: str, values: Mapping[str, Any]) -> "ConfigReader":
        """The reader of an object among the values."""
        return self.nested.setdefault(name, ConfigReader(values))

    def unread(self) -> list[str]:
        """The keys with a value that may change an output and that nothing has asked for."""
        keys = KeyTable(self.read, WITHOUT_EFFECT, names_unknown=True).not_read(self.values)
        for name, reader in self.nested.items():
            keys += [f"{name}.{key}" for key in reader.unread()]
        return keys

    def positive_int(self, key: str, default: int, maximum: int = MAX_SIZE) -> int:
        """An integer of 1 or more."""
        return self._integer(key, default, 1, maximum)

    def layer_count(self, key: str, default: int) -> int:
        """A number of layers, 1 to 1,000."""
        return self._integer(key, default, 1, MAX_LAYERS)

    def non_negative_int(self, key: str, default: int) -> int:
        """An integer of 0 or more."""
        return self._integer(key, default, 0, MAX_SIZE)

    def probability(self, key: str, default: float) -> float:
        """A number from 0 to below 1, such as a dropout rate."""
        return self._float(key, default, 0.0, 0.999)

    def epsilon(self, key: str, default: float) -> float:
        """A number above 0 and at most 1, such as the epsilon of a norm."""
        return self._float(key, default, 1e-30, 1.0)

    def number(self, key: str, default: float) -> float:
        """A number from -1e6 to 1e6."""
        return self._float(key, default, -1e6, 1e6)

    def positive_number(self, key: str, default: float) -> float:
        """A number above 0, such as the base of rotary positions."""
        return self._float(key, default, 1e-9, 1e12)

    def table(self, key: str) -> Mapping[str, Any]:
        """An object; {} if it is missing or null."""
        value = self.get(key)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise _config_error(key, value, "an object")
        return value

    def boolean(self, key: str, default: bool) -> bool:
        """True or false; null is the default."""
        value = self.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise _config_error(key, value, "true or false")
        return value

    def string(self, key: str, default: str) -> str:
        """A string; null is the default."""
        value = self.get(key)
        if value is None:
            return default
        if not isinstance(value, str):
            raise _config_error(key, value, "a string")
        return value

    def activation(self, key: str, default: str) -> Activation:
        """The activation of the feed-forward, by its jumok name."""
        name = self.string(key, default)
        if name not in ACTIVATIONS:
            raise _config_error(key, name, f"one of {', '.join(ACTIVATIONS)}")
        return ACTIVATIONS[name]

    def token_id(self, key: str) -> int | None:
        """A token id, or the first of a list; None if the key is missing."""
        value = self.get(key)
        if isinstance(value, list) and value:
            value = value[0]
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_SIZE:
            raise _config_error(key, value, "a token id")
        return value

    def check_supported(self, key: str, *supported: object) -> None:
        """Raise InputError unless `key` is missing, null or one of the `supported` values."""
        value = self.get(key)
        if value is not None and value not in supported:
            raise ModelFileError(
                "pretrained.config_value_unsupported",
                "config.json: {key} must be {supported!r}, got {value!r}, which jumok does not "
                "support; use another checkpoint",
                key=key,
                supported=supported[0],
                value=value,
            )

    def without_effect(self, *keys: str) -> None:
        """Mark keys of the family on which none of its outputs depends."""
        self.read.update(keys)

    def labels(self) -> tuple[str, ...]:
        """The label names in order: `id2label`, or LABEL_0, LABEL_1."""
        names = self.get("id2label")
        if names is None:
            n = self.positive_int("num_labels", 2, maximum=100_000)
            return tuple(f"LABEL_{i}" for i in range(n))
        if not isinstance(names, dict) or not all(type(name) is str for name in names.values()):
            raise _config_error("id2label", names, "an object from ids to names")
        if not names or set(names) != {str(i) for i in range(len(names))}:
            raise _config_error("id2label", names, "one name for every id from 0")
        if len(set(names.values())) < len(names):  # answers are probabilities by label
            raise _config_error("id2label", names, "a different name for each id")
        if self.positive_int("num_labels", len(names), maximum=100_000) != len(names):
            raise _config_error(
                "num_labels", self.get("num_labels"), f"{len(names)}, as in id2label"
            )
        return tuple(names[str(i)] for i in range(len(names)))

    def _integer(self, key: str, default: int, minimum: int, maximum: int) -> int:
        value = self.get(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= maximum:
            raise _config_error(key, value, f"an integer from {minimum} to {maximum:,}")
        return value

    def _float(self, key: str, default: float, minimum: float, maximum: float) -> float:
        value = self.get(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise _config_error(key, value, "a number")
        if not minimum <= value <= maximum:
            raise _config_error(key, value, f"a number from {minimum:g} to {maximum:g}")
        return float(value)


def _config_error(key: str, value: object, expected: str) -> InputError:
    return ModelFileError(
        "pretrained.config_value",
        "config.json: {key} must be {expected}, got {value}",
        key=key,
        expected=expected,
        value=repr(value)[:60],
    )
