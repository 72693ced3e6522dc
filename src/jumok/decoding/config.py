"""The [decoding] table of a recipe: search, logits processors, stopping and backend."""

import dataclasses
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from jumok.config_io import apply_overrides, check_choices, check_range, from_dict, to_dict
from jumok.errors import DecodingError, and_list
from jumok.unicode_forms import normalize

LengthNorm = Literal["power", "gnmt"]
EarlyStopping = bool | Literal["never"]
Kernel = Literal["auto", "torch", "native"]
Precision = Literal["float32", "bfloat16", "int8", "q8_0", "q4_0"]

MAX_DRAWN_SEED = 2**31

RANGES = {  # of the numbers
    "beam": "[1, 1000]",
    "n_best": "[1, 10000]",
    "length_penalty": "[-10, 10]",  # 1,000 tokens to this power are still finite in float32
    "coverage": "[0, inf)",
    "temperature": "[1e-6, inf)",  # logits of thousands divided by it are finite in float32
    "top_k": "[0, inf)",
    "top_p": "(0, 1]",
    "min_p": "[0, 1)",
    "typical_p": "(0, 1]",
    "repetition_penalty": "(0, inf)",
    "no_repeat_ngram": "[0, inf)",
    "min_length": "[0, inf)",
    "max_length": "[1, 1048576]",
    "max_ratio": "[0, 1e6]",
    "max_extra": "[0, inf)",
    "alignment": "[0, 1)",
}


@dataclass(frozen=True, kw_only=True)
class DecodingConfig:
    """The defaults are greedy search: the token of highest probability at each step.

    Text settings are normalised to NFC, as tokenizers encode it.

    >>> print(DecodingConfig(beam=5, length_penalty=0.6))
    beam=5 length_penalty=0.6 length_norm='power' early_stopping=False max_length=256
    """

    # search
    beam: int = 1  # hypotheses kept for each text; 1: greedy
    n_best: int = 1  # hypotheses returned for each text
    sample: bool = False  # sample each token instead of taking the argmax
    # of sampling; the same seed and the same text give the same sample. None: drawn by each call
    seed: int | None = None

    # ranking of finished beam hypotheses (beam.py has the equations)
    length_penalty: float = 1.0  # alpha; 0: rank by the sum of log-probabilities
    length_norm: LengthNorm = "power"  # |Y|^alpha as transformers, or Wu et al. 2016
    coverage: float = 0.0  # beta of Wu et al. 2016, for encoder-decoders
    early_stopping: EarlyStopping = False  # when a beam search ends; as transformers

    # logits processors
    temperature: float = 1.0
    top_k: int = 0  # 0: all tokens
    top_p: float = 1.0  # nucleus (Holtzman et al. 2020)
    min_p: float = 0.0  # relative to the highest probability (Nguyen et al. 2024)
    typical_p: float = 1.0  # Meister et al. 2023
    repetition_penalty: float = 1.0  # Keskar et al. 2019
    no_repeat_ngram: int = 0  # no n-gram of this size twice
    prefix: str = ""  # text that every output starts with
    allowed: tuple[str, ...] = ()  # the only words in an output; empty: all
    forbidden: tuple[str, ...] = ()  # words that are never generated
    pattern: str = ""  # a regular expression that every output matches completely
    choices: tuple[str, ...] = ()  # every output is one of these texts

    # stopping
    min_length: int = 0  # tokens before the end token is allowed
    max_length: int = 256  # generated tokens, the end token included
    max_ratio: float = 0.0  # > 0: limit of max_ratio * source tokens + max_extra
    max_extra: int = 10
    stop: tuple[str, ...] = ()  # texts that stop generation

    # output
    # > 0: link each token to the characters of the source that it attends to with this weight
    alignment: float = 0.0

    # backend
    kernel: Kernel = "auto"  # the C++ kernel where it is faster than PyTorch; or "native", "torch"
    precision: Precision = "float32"  # of the weights during generation

    def __post_init__(self) -> None:
        check_choices(self, "decoding")
        for name in ("prefix", "allowed", "forbidden", "pattern", "choices", "stop"):
            value = getattr(self, name)
            composed = _nfc(value) if isinstance(value, str) else tuple(map(_nfc, value))
            object.__setattr__(self, name, composed)
        for name, interval in RANGES.items():
            argmax = "; for the argmax at each step leave out decoding.sample"
            advice = argmax if name == "temperature" else ""
            check_range(f"decoding.{name}", getattr(self, name), interval, advice)
        self._check_conflicts()

    def _check_conflicts(self) -> None:
        """Raises InputError for settings that contradict each other."""
        if self.sample and self.beam > 1:
            raise DecodingError(
                "decoding.sample_with_beam",
                "decoding.sample must be false with decoding.beam {beam}, got true; to sample "
                "set decoding.beam = 1",
                beam=self.beam,
            )
        if not self.sample and self.n_best > self.beam:
            raise DecodingError(
                "decoding.n_best_above_beam",
                "decoding.n_best must be at most decoding.beam {beam}, got {n_best}; try a "
                "larger decoding.beam, or decoding.sample = true",
                beam=self.beam,
                n_best=self.n_best,
            )
        if self.coverage and self.beam == 1:
            raise DecodingError(
                "decoding.coverage_without_beam",
                "decoding.coverage must be 0 with decoding.beam 1, got {coverage}; try a larger "
                "decoding.beam",
                coverage=self.coverage,
            )
        exclusive = [name for name in ("pattern", "choices", "allowed") if getattr(self, name)]
        if len(exclusive) > 1:
            raise DecodingError(
                "decoding.several_constraints",
                "{exclusive} all constrain the whole output; use only one of them",
                exclusive=and_list(f"decoding.{name}" for name in exclusive),
            )
        if self.stop and (self.pattern or self.choices):
            name = "pattern" if self.pattern else "choices"
            raise DecodingError(
                "decoding.stop_with_constraint",
                "decoding.stop would truncate an output that must match decoding.{name}; use "
                "only one of them",
                name=name,
            )
        if self.typical_p < 1.0 and not self.sample:
            raise DecodingError(
                "decoding.typical_p_without_sample",
                "decoding.typical_p must be 1 without sampling, got {typical_p}: it may remove "
                "the argmax; set decoding.sample = true",
                typical_p=self.typical_p,
            )
        if self.kernel == "native" and self.coverage:
            raise DecodingError(
                "decoding.coverage_with_native_kernel",
                "decoding.coverage must be 0 with the native kernel, got {coverage}: the kernel "
                'does not return attention weights; set decoding.kernel = "torch"',
                coverage=self.coverage,
            )
        if self.min_length > self.max_length:
            raise DecodingError(
                "decoding.min_length_above_max_length",
                "decoding.min_length must be at most max_length {max_length}, got {min_length}; "
                "try a smaller one",
                max_length=self.max_length,
                min_length=self.min_length,
            )

    @property
    def fixed_seed(self) -> int:
        """The seed, 0 where none is given: evaluations and traces do not differ from run to run."""
        return 0 if self.seed is None else self.seed

    def seeded(self) -> "DecodingConfig":
        """These settings, with a random seed where they sample without one."""
        if not self.sample or self.seed is not None:
            return self
        return dataclasses.replace(self, seed=secrets.randbelow(MAX_DRAWN_SEED))

    @property
    def constrains_start(self) -> bool:
        """Whether a text setting constrains how an output starts."""
        return bool(self.prefix or self.pattern or self.choices or self.allowed)

    def limit(self, source_tokens: int | None = None) -> int:
        """The maximum of generated tokens, the end token included, for a source of that length.

        At least 1, the end token, however short the source.

        >>> DecodingConfig(max_ratio=1.5).limit(source_tokens=8)
        22
        """
        if source_tokens is None or not self.max_ratio:
            return self.max_length
        limit = int(source_tokens * self.max_ratio) + self.max_extra
        return max(1, min(self.max_length, limit))

    def overridden(self, overrides: Sequence[str]) -> "DecodingConfig":
        """These settings with `key=value` overrides; InputError for an unknown key or value.

        >>> print(DecodingConfig().overridden(["beam=5", "length_penalty=0.6"]))
        beam=5 length_penalty=0.6 length_norm='power' early_stopping=False max_length=256
        """
        tree = apply_overrides(to_dict(self), overrides)
        return from_dict(DecodingConfig, tree, "decoding")

    def capped_at(self, maximum: int) -> "DecodingConfig":
        """These settings with max_length and min_length of at most `maximum` tokens."""
        return _capped(self, maximum)

    def __str__(self) -> str:
        """The effective settings on one line: those that differ from greedy search, and the limit.

        Settings that another one activates are included even if they have their default, and those
        that only sampling uses are named as such where there is none.
        """
        always = ["max_length"]
        always += ["seed"] if self.sample else []
        always += ["length_penalty", "length_norm", "early_stopping"] if self.beam > 1 else []
        always += ["max_extra"] if self.max_ratio > 0 else []
        shown, plain = dataclasses.replace(self, seed=self.fixed_seed), DecodingConfig(seed=0)
        fields = {
            field.name: f"{field.name}={getattr(shown, field.name)!r}"
            for field in dataclasses.fields(self)
            if field.name in always or getattr(shown, field.name) != getattr(plain, field.name)
        }
        sampling = [] if self.sample else ["seed"]
        sampling += (
            [] if self.sample or self.beam > 1 else ["temperature", "top_k", "top_p", "min_p"]
        )
        unused = [fields.pop(name) for name in sampling if name in fields]
        note = f" (not used without sample=true: {', '.join(unused)})" if unused else ""
        return " ".join(fields.values()) + note


@lru_cache(maxsize=256)  # for each text of a server; checking 30 fields takes 60 us
def _capped(config: DecodingConfig, maximum: int) -> DecodingConfig:
    return dataclasses.replace(
        config,
        max_length=min(config.max_length, maximum),
        min_length=min(config.min_length, maximum),
    )


def _nfc(text: str) -> str:
    return normalize("NFC", text)
