"""Heads: what is asked of a tower. A label for the text, the next token, or the missing one.

Shapes: B batch, T positions, D model width, L labels, V vocabulary, N texts packed in rows.
"""

from torch import Tensor, nn

from jumok.errors import InputError
from jumok.models.config import TransformerConfig
from jumok.models.decoder import CAUSAL, Decoder
from jumok.models.encoder import Encoder
from jumok.models.encoder_decoder import EncoderDecoder
from jumok.models.initialization import initialize
from jumok.models.pooling import (
    POOLERS,
    Pooler,
    Pooling,
    pair_features,
    pool,
    pool_packed,
    similarity_features,
)
from jumok.nn.cache import NO_DECODER_CACHE, DecoderCache
from jumok.nn.dropout import Dropout
from jumok.nn.embedding import TokenEmbedding
from jumok.nn.feedforward import get_activation
from jumok.nn.layer import NORMS
from jumok.nn.masks import NO_MASK, AttentionMask


class TextClassifier(nn.Module):
    """An encoder, one vector for the text, a linear map to the labels.

    A `pooler`, where there is one, is a layer of its own before that map. With the pooling
    "compare" the vector tells of two texts beside each other (`compare`), and a map of its own is
    added of how alike they are (`likeness`): times the width, or the few numbers would be learnt
    long after the many. Both maps begin at 0, and so with what all vectors say of a pair, not with
    the noise in those of tokens that are seldom seen.

    >>> import torch
    >>> config = TransformerConfig(vocabulary_size=10, d_model=8, n_heads=2, d_ff=16, n_layers=1)
    >>> tuple(TextClassifier(config, n_labels=2)(torch.tensor([[1, 2, 3]])).shape)
    (1, 2)
    """

    def __init__(
        self,
        config: TransformerConfig,
        n_labels: int,
        pooling: Pooling = "first",
        pooler: Pooler = "none",
    ) -> None:
        super().__init__()
        self.pooling = pooling
        self.encoder = Encoder(config)
        width = 4 * config.d_model if pooling == "compare" else config.d_model
        self.pooler = (
            nn.Identity()
            if pooler == "none"
            else nn.Sequential(nn.Linear(width, width), POOLERS[pooler]())
        )
        self.dropout = Dropout(config.dropout)
        self.output = nn.Linear(width, n_labels)
        self.similarity = nn.Linear(3, n_labels, bias=False) if pooling == "compare" else None
        initialize(self)
        if self.similarity is not None:
            nn.init.zeros_(self.output.weight)
            nn.init.zeros_(self.similarity.weight)

    def forward(
        self,
        ids: Tensor,
        real: Tensor | None = None,
        *,
        positions: Tensor | None = None,
        segments: Tensor | None = None,
    ) -> Tensor:
        """ids (B, T) int64, real (B, T) bool (None: no padding) -> logits (B, L)."""
        mask = AttentionMask.from_padding(real)
        hidden = self.encoder(ids, mask, positions=positions, segments=segments)  # (B, T, D)
        if self.pooling == "compare":
            pooled = pair_features(hidden, real, segments)  # (B, 4D)
        else:
            pooled = pool(hidden, real, self.pooling)  # (B, D)
        logits = self.output(self.dropout(self.pooler(pooled)))
        if self.similarity is not None:
            logits = logits + self.similarity(
                hidden.shape[-1] * similarity_features(hidden, real, segments)
            )
        return logits  # type: ignore[no-any-return]

    def forward_packed(self, ids: Tensor, texts: Tensor, positions: Tensor, n_texts: int) -> Tensor:
        """Logits (N, L) of `n_texts` texts packed end to end in rows ids (B, T).

        texts (B, T) int64: the number of the text each token belongs to, -1 on padding;
        positions (B, T) int64 begin at 0 with every text. A text without tokens gives what 0
        gives. Training does not come this way, it pads: one static shape pays where a model is
        compiled for a GPU (docs/LOG.md), and `jumok check` asks both ways.
        """
        if self.pooling == "compare":
            raise InputError('pairs are not packed; choose another pooling than "compare"')
        mask = AttentionMask.from_segments(texts)
        hidden = self.encoder(ids, mask, positions=positions)  # (B, T, D)
        pooled = pool_packed(hidden, texts, positions, n_texts, self.pooling)  # (N, D)
        return self.output(self.dropout(self.pooler(pooled)))  # type: ignore[no-any-return]


class TokenClassifier(nn.Module):
    """An encoder and a linear map to the labels of every token: names, parts of speech.

    >>> import torch
    >>> config = TransformerConfig(vocabulary_size=10, d_model=8, n_heads=2, d_ff=16, n_layers=1)
    >>> tuple(TokenClassifier(config, n_labels=5)(torch.tensor([[1, 2, 3]])).shape)
    (1, 3, 5)
    """

    def __init__(self, config: TransformerConfig, n_labels: int) -> None:
        super().__init__()
        self.encoder = Encoder(config)
        self.dropout = Dropout(config.dropout)
        self.output = nn.Linear(config.d_model, n_labels)
        initialize(self)

    def forward(
        self,
        ids: Tensor,
        mask: AttentionMask = NO_MASK,
        *,
        positions: Tensor | None = None,
        segments: Tensor | None = None,
    ) -> Tensor:
        """ids (B, T) int64 -> logits (B, T, L)."""
        hidden = self.encoder(ids, mask, positions=positions, segments=segments)
        return self.output(self.dropout(hidden))  # type: ignore[no-any-return]


class ReplacedTokenDetector(nn.Module):
    """An encoder that tells of every token whether another was put in its place (ELECTRA).

    Clark et al. 2020, section 2: the discriminator. Logits above 0 mean "replaced".

    >>> import torch
    >>> config = TransformerConfig(vocabulary_size=10, d_model=8, n_heads=2, d_ff=16, n_layers=1)
    >>> tuple(ReplacedTokenDetector(config)(torch.tensor([[1, 2, 3]])).shape)
    (1, 3)
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.encoder = Encoder(config)
        self.transform = nn.Sequential(
            nn.Linear(config.d_model, config.d_model), get_activation(config.head_activation)
        )
        self.output = nn.Linear(config.d_model, 1)
        initialize(self)

    def forward(
        self,
        ids: Tensor,
        mask: AttentionMask = NO_MASK,
        *,
        positions: Tensor | None = None,
        segments: Tensor | None = None,
    ) -> Tensor:
        """ids (B, T) int64 -> logits (B, T)."""
        hidden = self.encoder(ids, mask, positions=positions, segments=segments)
        return self.output(self.transform(hidden)).squeeze(-1)  # type: ignore[no-any-return]


class EncoderDecoderClassifier(nn.Module):
    """The classifier of study note 002: the decoder is given [BOS], its outputs' maximum decides.

    The decoder's inputs may be longer; the maximum is taken over all of them.

    >>> import torch
    >>> config = TransformerConfig(vocabulary_size=10, d_model=8, n_heads=2, d_ff=16, n_layers=1)
    >>> model = EncoderDecoderClassifier(config, n_labels=2)
    >>> tuple(model(torch.tensor([[1, 2, 3]]), torch.tensor([[5]])).shape)
    (1, 2)
    """

    def __init__(self, config: TransformerConfig, n_labels: int) -> None:
        super().__init__()
        transformer = EncoderDecoder(config)
        self.encoder, self.decoder = transformer.encoder, transformer.decoder
        self.output = nn.Linear(config.d_model, n_labels, bias=False)
        initialize(self.output)

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        real: Tensor | None = None,
        *,
        positions: Tensor | None = None,
        segments: Tensor | None = None,
    ) -> Tensor:
        """source (B, S), target (B, T) int64 -> logits (B, L).

        real, positions and segments (B, S) are the source's.
        """
        mask = AttentionMask.from_padding(real)
        memory = self.encoder(source, mask, positions=positions, segments=segments)
        hidden = self.decoder(target, CAUSAL, memory, mask)  # (B, T, D)
        return self.output(hidden.amax(1))  # type: ignore[no-any-return]


class LanguageModel(nn.Module):
    """A decoder alone and the next token's logits: GPT's kind.

    >>> import torch
    >>> config = TransformerConfig(vocabulary_size=10, d_model=8, n_heads=2, d_ff=16, n_layers=1)
    >>> tuple(LanguageModel(config)(torch.tensor([[1, 2, 3]])).shape)
    (1, 3, 10)
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.decoder = Decoder(config)
        self.output = _output(config, self.decoder.embedding.tokens, bias=config.output_bias)
        initialize(self)

    def forward(
        self,
        ids: Tensor,
        mask: AttentionMask = CAUSAL,
        *,
        positions: Tensor | None = None,
        cache: DecoderCache = NO_DECODER_CACHE,
    ) -> Tensor:
        """ids (B, T) int64 -> logits (B, T, V)."""
        return self.output(self.decoder(ids, mask, positions=positions, cache=cache))  # type: ignore[no-any-return]


class MaskedLanguageModel(nn.Module):
    """An encoder and the logits of what stands behind each [MASK]: BERT's kind (Devlin 2019).

    >>> import torch
    >>> config = TransformerConfig(vocabulary_size=10, d_model=8, n_heads=2, d_ff=16, n_layers=1)
    >>> tuple(MaskedLanguageModel(config)(torch.tensor([[1, 2, 3]])).shape)
    (1, 3, 10)
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.encoder = Encoder(config)
        self.transform = nn.Sequential(
            nn.Linear(config.d_model, config.embedding_dim),
            get_activation(config.head_activation),
            NORMS[config.norm](config.embedding_dim, eps=config.norm_eps),
        )
        self.output = _output(config, self.encoder.embedding.tokens, bias=True)
        initialize(self)

    def forward(
        self,
        ids: Tensor,
        mask: AttentionMask = NO_MASK,
        *,
        positions: Tensor | None = None,
        segments: Tensor | None = None,
    ) -> Tensor:
        """ids (B, T) int64 -> logits (B, T, V)."""
        hidden = self.encoder(ids, mask, positions=positions, segments=segments)
        return self.output(self.transform(hidden))  # type: ignore[no-any-return]


def _output(config: TransformerConfig, tokens: TokenEmbedding, *, bias: bool) -> nn.Linear:
    """The map to the vocabulary, sharing the embedding's table where the config ties them."""
    output = nn.Linear(tokens.embedding_dim, tokens.num_embeddings, bias=bias)
    if config.tying in ("all", "target"):
        output.weight = tokens.weight
    return output
