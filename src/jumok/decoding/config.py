"""How to write: the [decoding] table of a recipe. What it says is in force, and nothing else."""

import dataclasses
import math
import unicodedata
from dataclasses import dataclass
from typing import Literal

from jumok.errors import InputError

LengthNorm = Literal["power", "gnmt"]
EarlyStop = Literal["full", "likely", "exact"]
Kernel = Literal["plain", "native"]
Precision = Literal["float32", "bfloat16", "int8"]

MAX_VALUES = {"beam": 1_000, "n_best": 10_000, "max_length": 2**20, "max_ratio": 1e6}
MIN_TEMPERATURE = 1e-6  # logits of thousands over it are still a float32
MAX_LENGTH_PENALTY = 10  # 1,000 tokens to this power are still a float32


@dataclass(frozen=True, kw_only=True)
class DecodingConfig:
    """Greedy as it stands: the likeliest token each time.

    Texts among the settings have their letters composed (NFC), as vocabularies write.

    >>> print(DecodingConfig(beam=5, length_penalty=0.6))
    beam=5 length_penalty=0.6 length_norm='power' early_stopping='likely' max_length=256
    """

    # which search
    beam: int = 1  # hypotheses kept alive for each text; 1: greedy
    n_best: int = 1  # how many of them are answered
    sample: bool = False  # draw each token instead of taking the likeliest
    seed: int = 0  # of the draws; the same seed and the same text give the same draw

    # how finished hypotheses of a beam are ranked (beam.py has the equations)
    length_penalty: float = 1.0  # alpha; 0: by the sum of log-probabilities
    length_norm: LengthNorm = "power"  # |Y|^alpha as transformers, or Wu et al. 2016
    coverage: float = 0.0  # beta of Wu et al. 2016, for encoder-decoders
    early_stopping: EarlyStop = "likely"  # when a beam search is over

    # how logits are changed before a token is chosen
    temperature: float = 1.0
    top_k: int = 0  # 0: all
    top_p: float = 1.0  # nucleus (Holtzman et al. 2020)
    min_p: float = 0.0  # relative to the likeliest (Nguyen et al. 2024)
    typical_p: float = 1.0  # Meister et al. 2023
    repetition_penalty: float = 1.0  # Keskar et al. 2019
    no_repeat_ngram: int = 0  # no n tokens in the same order twice
    prefix: str = ""  # what every answer begins with
    allowed: tuple[str, ...] = ()  # words of which alone an answer is made; empty: all
    forbidden: tuple[str, ...] = ()  # words that are never written
    pattern: str = ""  # a regular expression that every answer matches from end to end
    choices: tuple[str, ...] = ()  # texts of which every answer is one

    # when a text ends
    min_length: int = 0  # tokens before the end may be written
    max_length: int = 256  # tokens written, the end among them
    max_ratio: float = 0.0  # > 0: at most so many tokens for each of the source,
    max_extra: int = 10  # and so many more
    stop: tuple[str, ...] = ()  # texts that end the writing

    # with what
    kernel: Kernel = "plain"  # "native": the C++ kernel, compiled at first use
    precision: Precision = "float32"  # of the weights it writes with

    def __post_init__(self) -> None:
        for name in ("prefix", "allowed", "forbidden", "pattern", "choices", "stop"):
            said = getattr(self, name)
            composed = _composed(said) if isinstance(said, str) else tuple(map(_composed, said))
            object.__setattr__(self, name, composed)
        self._refuse_numbers()
        self._refuse_together()

    def _refuse_numbers(self) -> None:
        """Raises InputError for a number that means nothing."""
        for name in ("beam", "n_best", "max_length"):
            if getattr(self, name) < 1:
                raise InputError(f"decoding.{name} {getattr(self, name)}: give 1 or more")
        for name, most in MAX_VALUES.items():
            if getattr(self, name) > most:
                raise InputError(
                    f"decoding.{name} {getattr(self, name)} is beyond every machine; give "
                    f"{most:,.0f} or less"
                )
        for name in ("top_k", "no_repeat_ngram", "min_length", "max_extra", "max_ratio",
                     "coverage"):  # fmt: skip
            if not 0 <= getattr(self, name) < math.inf:
                raise InputError(f"decoding.{name} {getattr(self, name)}: give 0 or more")
        if not MIN_TEMPERATURE <= self.temperature < math.inf:
            raise InputError(
                f"decoding.temperature {self.temperature}: give {MIN_TEMPERATURE} or more; for "
                "the likeliest token alone leave out decoding.sample"
            )
        if not 0.0 < self.repetition_penalty < math.inf:
            raise InputError(
                f"decoding.repetition_penalty {self.repetition_penalty}: give more than 0"
            )
        for name in ("top_p", "typical_p"):
            if not 0.0 < getattr(self, name) <= 1.0:
                raise InputError(f"decoding.{name} {getattr(self, name)}: give more than 0, to 1")
        if not abs(self.length_penalty) <= MAX_LENGTH_PENALTY:
            raise InputError(
                f"decoding.length_penalty {self.length_penalty}: give -{MAX_LENGTH_PENALTY} to "
                f"{MAX_LENGTH_PENALTY}"
            )
        if not 0.0 <= self.min_p < 1.0:
            raise InputError(f"decoding.min_p {self.min_p}: give 0 or more, below 1")

    def _refuse_together(self) -> None:
        """Raises InputError for settings that say two things at once."""
        if self.sample and self.beam > 1:
            raise InputError(
                f"decoding.beam {self.beam} searches and decoding.sample draws; choose one of them"
            )
        if not self.sample and self.n_best > self.beam:
            raise InputError(
                f"decoding.n_best {self.n_best} is more than the beam of {self.beam} holds; "
                "give a wider decoding.beam, or decoding.sample = true"
            )
        if self.coverage and self.beam == 1:
            raise InputError(
                f"decoding.coverage {self.coverage} ranks several hypotheses and a beam of 1 has "
                "one; give a wider decoding.beam, or coverage 0"
            )
        holding = [name for name in ("pattern", "choices", "allowed") if getattr(self, name)]
        if len(holding) > 1:
            raise InputError(
                f"decoding.{' and decoding.'.join(holding)} all say what an answer may be; "
                "keep one of them"
            )
        if self.stop and (self.pattern or self.choices):
            name = "pattern" if self.pattern else "choices"
            raise InputError(
                f"decoding.stop would cut an answer that decoding.{name} wants whole; keep one of "
                "them"
            )
        if self.typical_p < 1.0 and not self.sample:
            raise InputError(
                f"decoding.typical_p {self.typical_p} may leave out the likeliest token, and none "
                "is drawn; set decoding.sample = true, or typical_p 1"
            )
        if self.kernel == "native" and self.coverage:
            raise InputError(
                f"decoding.coverage {self.coverage} came, and the native kernel does not tell what "
                'it attends to; set decoding.kernel = "plain", or coverage 0'
            )
        if self.min_length > self.max_length:
            raise InputError(
                f"decoding.min_length {self.min_length} is more than max_length "
                f"{self.max_length}; give less"
            )

    @property
    def constrains_start(self) -> bool:
        """Whether texts among the settings say how an answer begins."""
        return bool(self.prefix or self.pattern or self.choices or self.allowed)

    def limit(self, source_tokens: int | None = None) -> int:
        """At most so many tokens are written, the end among them, for a source of that length.

        One at least, the end: whatever `max_ratio` leaves of a source of few tokens.

        >>> DecodingConfig(max_ratio=1.5).limit(source_tokens=8)
        22
        """
        if source_tokens is None or not self.max_ratio:
            return self.max_length
        most = int(source_tokens * self.max_ratio) + self.max_extra
        return max(1, min(self.max_length, most))

    def capped_at(self, most: int) -> "DecodingConfig":
        """The same settings with a max_length of `most` at most: what a model can hold."""
        return dataclasses.replace(
            self,
            max_length=min(self.max_length, most),
            min_length=min(self.min_length, most),
        )

    def __str__(self) -> str:
        """The settings in force on one line: those that differ from greedy, and the limit.

        What acts beside another setting is told with it, also where nobody changed it.
        """
        always = ["max_length"]
        always += ["seed"] if self.sample else []
        always += ["length_penalty", "length_norm", "early_stopping"] if self.beam > 1 else []
        always += ["max_extra"] if self.max_ratio > 0 else []
        shown = [
            f"{field.name}={getattr(self, field.name)!r}"
            for field in dataclasses.fields(self)
            if field.name in always or getattr(self, field.name) != field.default
        ]
        return " ".join(shown)


def _composed(text: str) -> str:
    return unicodedata.normalize("NFC", text)
