"""A trained model as a function of text: what `jumok.load` gives."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

import torch
from torch import Tensor, nn

from jumok.errors import InputError
from jumok.models import EncoderDecoder, EncoderDecoderClassifier, TextClassifier
from jumok.nn.masks import AttentionMask, positions_of
from jumok.tasks.classification import TextEncoder, answer_all
from jumok.tasks.recipe import Recipe
from jumok.tasks.sequence_to_sequence import PairEncoder, write_all
from jumok.text.vocabulary import Vocabulary


@dataclass(frozen=True)
class Prediction:
    """The likeliest label of a text, its probability, and those of all labels."""

    text: str
    label: str
    probability: float
    probabilities: dict[str, float]

    @property
    def shown(self) -> str:
        """The answer on one line."""
        return f"{self.label}\t{self.probability:.4f}"


@dataclass(frozen=True)
class Rewriting:
    """What was written for a text, and its log-probability (natural, summed over the tokens)."""

    text: str
    output: str
    score: float

    @property
    def shown(self) -> str:
        """The answer on one line."""
        return self.output


Answer = Prediction | Rewriting


class Loaded:
    """A model in eval mode with its vocabulary and recipe; call it with a text, or several.

    `.model` is the plain module, `.vocabulary` the vocabulary, `.recipe` the resolved recipe.
    """

    def __init__(
        self,
        model: nn.Module,
        vocabulary: Vocabulary,
        recipe: Recipe,
        labels: tuple[str, ...],
        device: torch.device,
    ) -> None:
        self.model = model.to(device).eval().requires_grad_(False)
        self.vocabulary, self.recipe, self.labels, self.device = vocabulary, recipe, labels, device

    @overload
    def __call__(self, texts: str) -> Answer: ...
    @overload
    def __call__(self, texts: Sequence[str]) -> list[Answer]: ...
    def __call__(self, texts: str | Sequence[str]) -> Answer | list[Answer]:
        """A Prediction (labels) or a Rewriting (sequences) for each text, in order."""
        if isinstance(texts, str):
            return self.answer([texts])[0]
        return self.answer(list(texts))

    def answer(self, texts: Sequence[str]) -> list[Answer]:
        """One answer a text, in order; an empty text is answered too."""
        config = self.recipe.model
        if isinstance(self.model, EncoderDecoder):
            sources = PairEncoder(self.vocabulary, config.max_length).sources(texts)
            outputs = write_all(self.model, sources, self.vocabulary, self.device)
            return [
                Rewriting(text, output, written.score)
                for text, (output, written) in zip(texts, outputs, strict=True)
            ]
        rows = TextEncoder(self.vocabulary, config.max_length)(texts)
        logits = answer_all(self.model, rows, self.vocabulary, self.device)
        return [
            self._prediction(text, row)
            for text, row in zip(texts, logits.softmax(-1).tolist(), strict=True)
        ]

    def _prediction(self, text: str, probabilities: list[float]) -> Prediction:
        best = max(range(len(probabilities)), key=probabilities.__getitem__)
        by_label = dict(zip(self.labels, probabilities, strict=True))
        return Prediction(text, self.labels[best], probabilities[best], by_label)

    @torch.inference_mode()
    def logits(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
    ) -> Tensor:
        """float32 logits: (B, L) of a classifier, (B, T, V) of a sequence-to-sequence model.

        input_ids (B, S) int64; attention_mask (B, S), 1 = real token, padding left or right;
        decoder_input_ids (B, T) for sequence-to-sequence models, which demand it.
        """
        model = self.model
        real, positions = self._checked(input_ids, attention_mask)
        if isinstance(model, EncoderDecoder):
            hidden = self._decoded(model, input_ids, real, positions, decoder_input_ids)
            return model.output(hidden).float()  # type: ignore[no-any-return]
        if isinstance(model, EncoderDecoderClassifier):
            begin = torch.full_like(input_ids[:, :1], self.vocabulary.bos_id)
            given = begin if decoder_input_ids is None else decoder_input_ids
            return model(input_ids, given, real).float()  # type: ignore[no-any-return]
        if isinstance(model, TextClassifier):
            segments = token_type_ids
            return model(input_ids, real, positions=positions, segments=segments).float()  # type: ignore[no-any-return]
        raise ValueError(
            f"{type(model).__name__} has no head and so no logits; ask .hidden_states(...)"
        )

    @torch.inference_mode()
    def hidden_states(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
    ) -> Tensor:
        """float32 (B, T, D) of the last layer: the decoder's where there is one."""
        model = self.model
        real, positions = self._checked(input_ids, attention_mask)
        if isinstance(model, EncoderDecoder):
            return self._decoded(model, input_ids, real, positions, decoder_input_ids).float()
        mask = AttentionMask(None if real is None else real[:, None, None, :])
        encoder = model.encoder
        if isinstance(model, EncoderDecoderClassifier):
            begin = torch.full_like(input_ids[:, :1], self.vocabulary.bos_id)
            given = begin if decoder_input_ids is None else decoder_input_ids
            memory = encoder(input_ids, mask, positions=positions)
            return model.decoder(given, memory=memory, memory_mask=mask).float()  # type: ignore[no-any-return]
        hidden = encoder(input_ids, mask, positions=positions, segments=token_type_ids)  # type: ignore[operator]
        return hidden.float()  # type: ignore[no-any-return]

    def _decoded(
        self,
        model: EncoderDecoder,
        input_ids: Tensor,
        real: Tensor | None,
        positions: Tensor | None,
        decoder_input_ids: Tensor | None,
    ) -> Tensor:
        if decoder_input_ids is None:
            raise ValueError("a sequence-to-sequence model needs decoder_input_ids; give them")
        mask = AttentionMask(None if real is None else real[:, None, None, :])
        memory = model.encode(input_ids, mask, positions=positions)
        return model.decode(decoder_input_ids, memory, mask)

    def _checked(
        self, input_ids: Tensor, attention_mask: Tensor | None
    ) -> tuple[Tensor | None, Tensor | None]:
        """Which tokens are real and where they stand; None, None when nothing is padding."""
        size = self.recipe.model.vocabulary_size
        if input_ids.numel() and not 0 <= int(input_ids.min()) <= int(input_ids.max()) < size:
            raise InputError(
                f"ids from {int(input_ids.min())} to {int(input_ids.max())} came, the vocabulary "
                f"has 0 to {size - 1}; encode with the model's own vocabulary"
            )
        if attention_mask is None or bool(attention_mask.all()):
            return None, None
        real = attention_mask.bool()
        return real, positions_of(real)
