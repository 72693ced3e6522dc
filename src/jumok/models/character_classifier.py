"""A classifier of characters above an encoder of pieces, for names that begin inside a piece.

Shapes: B batch, T tokens, C characters, D model width, W width of the convolutions, G n-grams of a
character, L labels.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from jumok.errors import InputError
from jumok.models.config import TransformerConfig
from jumok.models.encoder import Encoder
from jumok.models.heads import EncoderModel
from jumok.models.weights import initialize
from jumok.nn.dropout import Dropout
from jumok.nn.masks import Mask
from jumok.text.character_ngrams import WINDOWS

NGRAM_ROWS = 65_536  # of the table that all n-grams share
NGRAM_WIDTH = 48
NGRAM_DROPOUT = 0.5  # of whole vectors; a text of the training split is known by its n-grams
WIDTH = 192
KERNEL = 5  # characters that a convolution reads
NO_TOKEN, FIRST, LATER = range(3)  # the place of a character in its token


@dataclass(frozen=True)
class Characters:
    """The characters of a batch of texts, padded on the right.

    >>> tokens, ngrams = torch.tensor([[1, 1], [1, 0]]), torch.zeros(2, 2, 5, dtype=torch.long)
    >>> places = torch.tensor([[FIRST, LATER], [FIRST, NO_TOKEN]])
    >>> mask = torch.tensor([[True, True], [True, False]])
    >>> Characters(tokens, places, ngrams, mask).row(1).tokens
    tensor([[1]])
    """

    tokens: Tensor  # (B, C) int64: the index in a row of ids of the token with the character
    places: Tensor  # (B, C) int64: NO_TOKEN, FIRST of its token or LATER
    ngrams: Tensor  # (B, C, G) int64: `jumok.text.character_ngrams`
    mask: Tensor | None = None  # (B, C) bool, True = real character; None without padding

    @classmethod
    def concat(cls, parts: "Sequence[Characters | None]") -> "Characters | None":
        """The rows of parts with the same texts; None where there are none."""
        found = [part for part in parts if part is not None]
        if not found:
            return None
        masks = [part.mask for part in found if part.mask is not None]
        return cls(
            torch.cat([part.tokens for part in found]),
            torch.cat([part.places for part in found]),
            torch.cat([part.ngrams for part in found]),
            torch.cat(masks) if masks else None,
        )

    def row(self, number: int) -> "Characters":
        """The characters of one text, without padding; of an empty text one of padding."""
        n = self.tokens.shape[1] if self.mask is None else max(int(self.mask[number].sum()), 1)
        rows = (each[number : number + 1, :n] for each in (self.tokens, self.places, self.ngrams))
        return Characters(*rows)


class CharacterClassifier(EncoderModel):
    """An encoder of pieces, character n-grams, two convolutions and a linear map of characters.

    Each character has the hidden state of the piece that contains it, a learned vector for its
    place in that piece, and the vectors of the hashed n-grams around it (Bojanowski et al. 2017).
    Two convolutions over the characters (Collobert et al. 2011, section 3.3) read them, the second
    one with a residual connection. In training, whole vectors of n-grams are dropped, unless the
    model has no dropout. So a name may begin or end inside a piece, as a Korean noun does
    whose particle is in the same piece. Padding is 0 before each convolution: the logits of a text
    do not depend on its batch.

    >>> config = TransformerConfig(vocabulary_size=10, d_model=8, n_heads=2, d_ff=16, n_layers=1)
    >>> ids = torch.tensor([[1, 2, 3]])  # [CLS], a piece of two characters, a piece of one
    >>> ngrams = torch.zeros(1, 3, len(WINDOWS), dtype=torch.long)
    >>> characters = Characters(torch.tensor([[1, 1, 2]]), torch.tensor([[1, 2, 1]]), ngrams)
    >>> tuple(CharacterClassifier(config, n_labels=5)(ids, characters=characters).shape)
    (1, 3, 5)
    """

    def __init__(self, config: TransformerConfig, n_labels: int) -> None:
        super().__init__()
        self.encoder = Encoder(config)
        self.states = nn.Linear(config.d_model, WIDTH)
        self.places = nn.Embedding(LATER + 1, WIDTH)
        self.ngrams = nn.Embedding(NGRAM_ROWS, NGRAM_WIDTH)
        self.first = nn.Conv1d(WIDTH + len(WINDOWS) * NGRAM_WIDTH, WIDTH, KERNEL, padding="same")
        self.second = nn.Conv1d(WIDTH, WIDTH, KERNEL, padding="same")
        self.dropout = Dropout(config.dropout)
        self.ngram_dropout = Dropout(NGRAM_DROPOUT if config.dropout else 0.0)
        self.output = nn.Linear(WIDTH, n_labels)
        initialize(self)
        for table in (self.places, self.ngrams):
            nn.init.normal_(table.weight, std=0.05)

    def forward(
        self,
        ids: Tensor,
        mask: Mask = None,
        *,
        positions: Tensor | None = None,
        segments: Tensor | None = None,
        characters: Characters | None = None,
    ) -> Tensor:
        """ids (B, T) int64, mask (B, T) bool, characters (B, C) -> logits (B, C, L).

        Raises InputError without characters.
        """
        if characters is None:
            raise InputError("model.needs_characters", NEEDS_CHARACTERS)
        hidden = self.hidden_states(ids, mask, positions=positions, segments=segments)  # (B, T, D)
        return self.head(hidden, mask, characters)

    def head(self, hidden: Tensor, mask: Mask, characters: Characters) -> Tensor:
        """Hidden states (B, T, D), characters (B, C) -> logits (B, C, L)."""
        states = self.states(hidden)  # (B, T, W)
        texts = torch.arange(len(states), device=states.device)[:, None]
        has_token = (characters.places != NO_TOKEN)[..., None]
        x = states[texts, characters.tokens] * has_token  # (B, C, W)
        x = x + self.places(characters.places)
        ngrams = self.ngrams(characters.ngrams)  # (B, C, G, 48)
        ngrams = ngrams * self.ngram_dropout(torch.ones_like(ngrams[..., :1]))  # whole vectors
        x = torch.cat([self.dropout(x), ngrams.flatten(2)], -1)  # (B, C, W + 48 G)
        real = None if characters.mask is None else characters.mask[..., None]
        x = F.gelu(_convolve(self.first, x, real))  # (B, C, W)
        x = x + F.gelu(_convolve(self.second, self.dropout(x), real))
        return self.output(self.dropout(x))  # type: ignore[no-any-return]


NEEDS_CHARACTERS = (
    "a CharacterClassifier has logits of characters, which token ids alone do not determine; call "
    "the loaded model with texts, or use .hidden_states(...)"
)


def _convolve(convolution: nn.Conv1d, x: Tensor, real: Tensor | None) -> Tensor:
    """The convolution of (B, C, n) over the characters, padding as 0."""
    x = x if real is None else x * real
    return convolution(x.mT).mT  # type: ignore[no-any-return]
