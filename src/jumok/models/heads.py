"""Heads: what is asked of a tower. A label for the text, the next token, or the missing one.

Shapes: B batch, T positions, D model width, L labels, V vocabulary, N texts packed in rows.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from jumok.errors import InputError
from jumok.models.config import TransformerConfig
from jumok.models.decoder import CAUSAL, Decoder
from jumok.models.encoder import Encoder
from jumok.models.encoder_decoder import EncoderDecoder
from jumok.models.initialization import initialize
from jumok.nn.cache import NO_STACK_CACHE, StackCache
from jumok.nn.dropout import Dropout
from jumok.nn.embedding import TokenEmbedding
from jumok.nn.feedforward import activation_of
from jumok.nn.layer import NORMS
from jumok.nn.masks import EVERYTHING, AttentionMask

Pooling = Literal["first", "mean", "max", "compare"]
Pooler = Literal[
    "none", "tanh", "gelu", "relu"
]  # tanh in BERT, gelu in ELECTRA, relu in DistilBERT
POOLERS = {"tanh": nn.Tanh, "gelu": nn.GELU, "relu": nn.ReLU}


def pool(hidden: Tensor, real: Tensor | None, kind: Literal["first", "mean", "max"]) -> Tensor:
    """One vector a text: (B, T, D) -> (B, D); a text without tokens gives 0.

    real (B, T) bool is None without padding.

    >>> hidden = torch.tensor([[[1.0], [3.0], [9.0]]])
    >>> real = torch.tensor([[True, True, False]])
    >>> [pool(hidden, real, kind).item() for kind in ("first", "mean", "max")]
    [1.0, 2.0, 3.0]
    """
    if real is None:
        real = torch.ones(hidden.shape[:2], dtype=torch.bool, device=hidden.device)
    if kind == "first":
        pooled = hidden[torch.arange(hidden.shape[0], device=hidden.device), real.int().argmax(-1)]
    elif kind == "mean":
        pooled = (hidden * real[..., None]).sum(1) / real.sum(-1, keepdim=True).clamp(min=1)
    else:
        pooled = hidden.masked_fill(~real[..., None], torch.finfo(hidden.dtype).min).amax(1)
    return pooled.masked_fill(~real.any(-1, keepdim=True), 0)  # (B, D)


def compare(hidden: Tensor, real: Tensor | None, segments: Tensor | None) -> Tensor:
    """The means u and v of the two texts of a pair, [CLS] a [SEP] b [SEP], and what parts them.

    (B, T, D) -> (B, 4D): u, v, |u - v| and u * v (Conneau et al. 2017, section 3.1), of the texts'
    own tokens: those that frame them would make all pairs alike. segments (B, T) are 0 for tokens
    of the first text and 1 for those of the second; None: all are 0.

    >>> hidden = torch.tensor([[[7.0], [1.0], [3.0], [7.0], [5.0], [7.0]]])
    >>> compare(hidden, None, torch.tensor([[0, 0, 0, 0, 1, 1]])).tolist()
    [[2.0, 5.0, 3.0, 10.0]]
    """
    if real is None:
        real = torch.ones(hidden.shape[:2], dtype=torch.bool, device=hidden.device)
    if segments is None:
        segments = torch.zeros(hidden.shape[:2], dtype=torch.long, device=hidden.device)
    marked = segments.masked_fill(~real, -1)  # (B, T)
    begins = real & (real.cumsum(-1) == 1)
    ends = marked != F.pad(marked[:, 1:], (0, 1), value=-1)
    inside = real & ~begins & ~ends
    u, v = (pool(hidden, inside & (segments == text), "mean") for text in (0, 1))  # (B, D)
    return torch.cat([u, v, (u - v).abs(), u * v], -1)


class TextClassifier(nn.Module):
    """An encoder, one vector for the text, a linear map to the labels.

    A `pooler`, where there is one, is a layer of its own before that map. With the pooling
    "compare" the vector tells of two texts beside each other (`compare`).

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
        initialize(self)

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
            pooled = compare(hidden, real, segments)  # (B, 4D)
        else:
            pooled = pool(hidden, real, self.pooling)  # (B, D)
        return self.output(self.dropout(self.pooler(pooled)))  # type: ignore[no-any-return]

    def packed(self, ids: Tensor, texts: Tensor, positions: Tensor, n_texts: int) -> Tensor:
        """Logits (N, L) of `n_texts` texts packed end to end in rows ids (B, T).

        texts (B, T) int64: the number of the text each token belongs to, -1 on padding;
        positions (B, T) begin at 0 with every text. A text without tokens gives what 0 gives.
        """
        if self.pooling == "compare":
            raise InputError('pairs are not packed; choose another pooling than "compare"')
        hidden = self.encoder(ids, AttentionMask.from_segments(texts), positions=positions)
        inside = texts >= 0
        rows, owner = hidden[inside], texts[inside]  # (tokens, D), (tokens,)
        pooled = rows.new_zeros(n_texts, rows.shape[-1])  # (N, D)
        if self.pooling == "first":
            first = positions[inside] == 0
            pooled = pooled.index_copy(0, owner[first], rows[first])
        else:
            reduce = {"mean": "mean", "max": "amax"}[self.pooling]
            pooled = pooled.scatter_reduce(
                0, owner[:, None].expand_as(rows), rows, reduce, include_self=False
            )
        return self.output(self.dropout(self.pooler(pooled)))  # type: ignore[no-any-return]


class TokenClassifier(nn.Module):
    """An encoder and a linear map to the labels of every token: names, parts of speech.

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
        mask: AttentionMask = EVERYTHING,
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

    >>> config = TransformerConfig(vocabulary_size=10, d_model=8, n_heads=2, d_ff=16, n_layers=1)
    >>> tuple(ReplacedTokenDetector(config)(torch.tensor([[1, 2, 3]])).shape)
    (1, 3)
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.encoder = Encoder(config)
        self.transform = nn.Sequential(
            nn.Linear(config.d_model, config.d_model), activation_of(config.head_activation)
        )
        self.output = nn.Linear(config.d_model, 1)
        initialize(self)

    def forward(
        self,
        ids: Tensor,
        mask: AttentionMask = EVERYTHING,
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
        cache: StackCache = NO_STACK_CACHE,
    ) -> Tensor:
        """ids (B, T) int64 -> logits (B, T, V)."""
        return self.output(self.decoder(ids, mask, positions=positions, cache=cache))  # type: ignore[no-any-return]


class MaskedLanguageModel(nn.Module):
    """An encoder and the logits of what stands behind each [MASK]: BERT's kind (Devlin 2019).

    >>> config = TransformerConfig(vocabulary_size=10, d_model=8, n_heads=2, d_ff=16, n_layers=1)
    >>> tuple(MaskedLanguageModel(config)(torch.tensor([[1, 2, 3]])).shape)
    (1, 3, 10)
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.encoder = Encoder(config)
        self.transform = nn.Sequential(
            nn.Linear(config.d_model, config.width),
            activation_of(config.head_activation),
            NORMS[config.norm](config.width, eps=config.norm_eps),
        )
        self.output = _output(config, self.encoder.embedding.tokens, bias=True)
        initialize(self)

    def forward(
        self,
        ids: Tensor,
        mask: AttentionMask = EVERYTHING,
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
