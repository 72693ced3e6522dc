"""A small model that guesses ahead of a large one, over many texts, and how well it has guessed."""

from collections.abc import Sequence
from dataclasses import dataclass

from jumok.decoding.config import DecodingConfig
from jumok.decoding.generate import OnToken
from jumok.decoding.hypothesis import Hypothesis
from jumok.decoding.incremental.decoder import IncrementalDecoder
from jumok.decoding.inputs import GenerationInputs
from jumok.decoding.processors import Processor
from jumok.decoding.speculative import speculative
from jumok.models.encoder_decoder import EncoderDecoder
from jumok.models.heads import LanguageModel


@dataclass(eq=False)
class DraftModel:
    """The model that guesses, and counts over all that was written with its help.

    >>> from jumok.models import TransformerConfig
    >>> small = TransformerConfig(vocabulary_size=10, d_model=8, n_heads=2, d_ff=16, n_layers=1)
    >>> print(DraftModel(LanguageModel(small), passes=5, guessed=20, kept=13))
    13 of 20 guesses kept, 5 passes of the model
    """

    model: EncoderDecoder | LanguageModel
    passes: int = 0  # of the large model
    guessed: int = 0  # tokens that were offered to it
    kept: int = 0  # of them

    def write(
        self,
        target: IncrementalDecoder,
        guesser: IncrementalDecoder,
        opening: GenerationInputs,
        config: DecodingConfig,
        processors: Sequence[Processor],
        on_token: OnToken | None = None,
    ) -> list[list[Hypothesis]]:
        """What `generate` would write with the target alone, for one text."""
        found = speculative(target, guesser, opening, config, processors, on_token)
        self.passes += found.passes
        self.guessed += found.guessed
        self.kept += found.kept
        return [[found.answer]]

    def __str__(self) -> str:
        """How well it guessed."""
        return f"{self.kept} of {self.guessed} guesses kept, {self.passes} passes of the model"
