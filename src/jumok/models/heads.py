"""Task heads on an encoder or a decoder: labels of texts or tokens, next or masked tokens.

Every model is called as `model(ids, mask, positions=..., segments=...)` (an encoder-decoder as
`model(source, target, mask, ...)`), and so is its `hidden_states`, which returns the last layer.
Shapes: B batch, T positions, D model width, L labels, V vocabulary.
"""

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

from jumok.config_io import check_choice
from jumok.models.config import Pooler, Pooling, TokenPooling, TransformerConfig
from jumok.models.decoder import Decoder
from jumok.models.encoder import Encoder
from jumok.models.encoder_decoder import EncoderDecoder
from jumok.models.pooling import (
    POOLERS,
    pair_features,
    pool,
    similarity_features,
)
from jumok.models.weights import initialize
from jumok.nn.cache import NO_DECODER_CACHE, StackCache
from jumok.nn.dropout import Dropout
from jumok.nn.embedding import TokenEmbedding
from jumok.nn.feedforward import get_activation
from jumok.nn.masks import Mask
from jumok.nn.norms import make_norm


class EncoderModel(nn.Module):
    """Abstract: an encoder, and a head that computes the outputs from its last layer.

    mask (B, T) bool, True = real token; None: no padding. segments (B, T) number the parts of a
    text; None: all 0.
    """

    encoder: Encoder
    head: Callable[..., Tensor]  # of (hidden states (B, T, D), mask, segments)

    def forward(
        self,
        ids: Tensor,
        mask: Mask = None,
        *,
        positions: Tensor | None = None,
        segments: Tensor | None = None,
    ) -> Tensor:
        """ids (B, T) int64 -> the outputs of the head."""
        hidden = self.hidden_states(ids, mask, positions=positions, segments=segments)  # (B, T, D)
        return self.head(hidden, mask, segments)

    def hidden_states(
        self,
        ids: Tensor,
        mask: Mask = None,
        *,
        positions: Tensor | None = None,
        segments: Tensor | None = None,
    ) -> Tensor:
        """ids (B, T) int64 -> the encoder's last layer (B, T, D)."""
        return self.encoder(ids, mask, positions=positions, segments=segments)  # type: ignore[no-any-return]


class TextClassifier(EncoderModel):
    """An encoder, pooling to one vector per text, an optional `pooler` layer, a linear classifier.

    With `head_transform` the pooler is the dense layer, activation and norm of a masked-token head.

    >>> import torch
    >>> config = TransformerConfig(vocabulary_size=10, d_model=8, n_heads=2, d_ff=16, n_layers=1)
    >>> tuple(TextClassifier(config, n_labels=2)(torch.tensor([[1, 2, 3]])).shape)
    (1, 2)
    """

    def __init__(
        self,
        config: TransformerConfig,
        n_labels: int,
        pooling: TokenPooling = "first",
        pooler: Pooler = "none",
    ) -> None:
        super().__init__()
        check_choice("pooling", pooling, TokenPooling)
        self.pooling = pooling
        self.encoder = Encoder(config)
        self.pooler = (
            transform(config, config.d_model)
            if config.head_transform
            else _pooler(pooler, config.d_model)
        )
        self.dropout = Dropout(config.dropout)
        self.output = nn.Linear(config.d_model, n_labels)
        initialize(self)

    def head(self, hidden: Tensor, mask: Tensor | None, segments: Tensor | None) -> Tensor:
        """Hidden states (B, T, D) -> logits (B, L)."""
        pooled = pool(hidden, mask, self.pooling)  # (B, D)
        return self.output(self.dropout(self.pooler(pooled)))  # type: ignore[no-any-return]


class SentenceEncoder(EncoderModel):
    """An encoder and pooling: one vector of length 1 per text (Reimers and Gurevych 2019).

    The dot product of two vectors is their cosine similarity.

    >>> import torch
    >>> config = TransformerConfig(vocabulary_size=10, d_model=8, n_heads=2, d_ff=16, n_layers=1)
    >>> vectors = SentenceEncoder(config)(torch.tensor([[1, 2, 3], [4, 5, 6]]))
    >>> tuple(vectors.shape), bool(torch.allclose(vectors.norm(dim=-1), torch.ones(2)))
    ((2, 8), True)
    """

    def __init__(self, config: TransformerConfig, pooling: TokenPooling = "mean") -> None:
        super().__init__()
        check_choice("pooling", pooling, TokenPooling)
        self.pooling = pooling
        self.encoder = Encoder(config)
        initialize(self)

    def head(self, hidden: Tensor, mask: Tensor | None, segments: Tensor | None) -> Tensor:
        """Hidden states (B, T, D) -> unit vectors (B, D) float32."""
        return F.normalize(pool(hidden.float(), mask, self.pooling), dim=-1)  # (B, D)


class PairClassifier(EncoderModel):
    """An encoder of two texts in one row and a classifier of their differences and similarities.

    `output` classifies the `pair_features`, `similarity` the `similarity_features`, multiplied by
    the model width so that these three numbers are learned as fast as the many. Both linear layers
    start at 0, so that learning starts from the features themselves and not from random weights
    on rarely seen tokens.

    >>> import torch
    >>> config = TransformerConfig(vocabulary_size=10, d_model=8, n_heads=2, d_ff=16, n_layers=1)
    >>> ids, segments = torch.tensor([[1, 2, 3, 4, 3]]), torch.tensor([[0, 0, 0, 1, 1]])
    >>> PairClassifier(config, n_labels=2)(ids, segments=segments).tolist()
    [[0.0, 0.0]]
    """

    def __init__(self, config: TransformerConfig, n_labels: int, pooler: Pooler = "none") -> None:
        super().__init__()
        self.encoder = Encoder(config)
        self.pooler = _pooler(pooler, 4 * config.d_model)
        self.dropout = Dropout(config.dropout)
        self.output = nn.Linear(4 * config.d_model, n_labels)
        self.similarity = nn.Linear(3, n_labels, bias=False)
        initialize(self)
        nn.init.zeros_(self.output.weight)
        nn.init.zeros_(self.similarity.weight)

    def head(self, hidden: Tensor, mask: Tensor | None, segments: Tensor | None) -> Tensor:
        """Hidden states (B, T, D), segments 0 or 1 -> logits (B, L)."""
        features = self.pooler(pair_features(hidden, mask, segments))  # (B, 4D)
        similarities = hidden.shape[-1] * similarity_features(hidden, mask, segments)  # (B, 3)
        return self.output(self.dropout(features)) + self.similarity(similarities)  # type: ignore[no-any-return]


def text_classifier(
    config: TransformerConfig, n_labels: int, pooling: Pooling, pooler: Pooler
) -> TextClassifier | PairClassifier:
    """A `PairClassifier` for the pooling "compare", a `TextClassifier` for the others.

    >>> config = TransformerConfig(vocabulary_size=10, d_model=8, n_heads=2, d_ff=16, n_layers=1)
    >>> type(text_classifier(config, 2, "mean", "none")).__name__
    'TextClassifier'

    Raises InputError for a pooling or pooler that does not exist.
    """
    if pooling == "compare":
        return PairClassifier(config, n_labels, pooler)
    return TextClassifier(config, n_labels, pooling, pooler)


def _pooler(kind: Pooler, width: int) -> nn.Module:
    """A dense layer with an activation after the pooling, or the identity."""
    check_choice("pooler", kind, Pooler)
    if kind == "none":
        return nn.Identity()
    return nn.Sequential(nn.Linear(width, width), POOLERS[kind]())


def transform(config: TransformerConfig, width: int) -> nn.Sequential:
    """The dense layer, the activation and the norm of the masked-token head: (D) -> (width)."""
    return nn.Sequential(
        nn.Linear(config.d_model, width, bias=config.head_bias),
        get_activation(config.head_activation),
        make_norm(config.norm, width, config.norm_eps),
    )


class TokenClassifier(EncoderModel):
    """An encoder and a linear classifier of every token: named entities, parts of speech.

    >>> import torch
    >>> config = TransformerConfig(vocabulary_size=10, d_model=8, n_heads=2, d_ff=16, n_layers=1)
    >>> tuple(TokenClassifier(config, n_labels=5)(torch.tensor([[1, 2, 3]])).shape)
    (1, 3, 5)
    """

    def __init__(self, config: TransformerConfig, n_labels: int) -> None:
        super().__init__()
        self.encoder = Encoder(config)
        self.transform = (
            transform(config, config.d_model) if config.head_transform else nn.Identity()
        )
        self.dropout = Dropout(config.dropout)
        self.output = nn.Linear(config.d_model, n_labels)
        initialize(self)

    def head(self, hidden: Tensor, mask: Mask, segments: Tensor | None) -> Tensor:
        """Hidden states (B, T, D) -> logits (B, T, L)."""
        return self.output(self.dropout(self.transform(hidden)))  # type: ignore[no-any-return]


class ReplacedTokenDetector(EncoderModel):
    """An encoder that detects, for every token, whether it was replaced (ELECTRA's discriminator).

    Clark et al. 2020, section 2. Logits above 0 mean "replaced".

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

    def head(self, hidden: Tensor, mask: Mask, segments: Tensor | None) -> Tensor:
        """Hidden states (B, T, D) -> logits (B, T)."""
        return self.output(self.transform(hidden)).squeeze(-1)  # type: ignore[no-any-return]


class MaskedLanguageModel(EncoderModel):
    """An encoder that predicts the token behind each [MASK], as BERT (Devlin et al. 2019).

    >>> import torch
    >>> config = TransformerConfig(vocabulary_size=10, d_model=8, n_heads=2, d_ff=16, n_layers=1)
    >>> tuple(MaskedLanguageModel(config)(torch.tensor([[1, 2, 3]])).shape)
    (1, 3, 10)
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.encoder = Encoder(config)
        self.transform = transform(config, config.embedding_dim)
        self.output = _output(config, self.encoder.embedding.tokens, bias=True)
        initialize(self)

    def head(self, hidden: Tensor, mask: Mask, segments: Tensor | None) -> Tensor:
        """Hidden states (B, T, D) -> logits (B, T, V)."""
        return self.output(self.transform(hidden))  # type: ignore[no-any-return]


class EncoderDecoderClassifier(nn.Module):
    """An encoder-decoder that classifies: the decoder's outputs are max-pooled.

    The decoder's input is [BOS]; if it is longer, the maximum is taken over all of its positions.

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
        mask: Mask = None,
        *,
        positions: Tensor | None = None,
        segments: Tensor | None = None,
    ) -> Tensor:
        """source (B, S), target (B, T) int64 -> logits (B, L).

        mask, positions and segments (B, S) belong to the source.
        """
        hidden = self.hidden_states(source, target, mask, positions=positions, segments=segments)
        return self.output(hidden.amax(1))  # type: ignore[no-any-return]

    def hidden_states(
        self,
        source: Tensor,
        target: Tensor,
        mask: Mask = None,
        *,
        positions: Tensor | None = None,
        segments: Tensor | None = None,
    ) -> Tensor:
        """source (B, S), target (B, T) int64 -> the decoder's last layer (B, T, D)."""
        memory = self.encoder(source, mask, positions=positions, segments=segments)  # (B, S, D)
        return self.decoder(target, memory=memory, memory_mask=mask)  # type: ignore[no-any-return]


class LanguageModel(nn.Module):
    """A decoder that predicts the next token, as GPT.

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
        mask: Mask = None,
        *,
        positions: Tensor | None = None,
        segments: Tensor | None = None,
        cache: StackCache = NO_DECODER_CACHE,
    ) -> Tensor:
        """ids (B, T) int64 -> logits (B, T, V); causal unless mask is an `AttentionMask`."""
        return self.output(  # type: ignore[no-any-return]
            self.hidden_states(ids, mask, positions=positions, segments=segments, cache=cache)
        )

    def hidden_states(
        self,
        ids: Tensor,
        mask: Mask = None,
        *,
        positions: Tensor | None = None,
        segments: Tensor | None = None,
        cache: StackCache = NO_DECODER_CACHE,
    ) -> Tensor:
        """ids (B, T) int64 -> the decoder's last layer (B, T, D)."""
        return self.decoder(  # type: ignore[no-any-return]
            ids, mask, positions=positions, segments=segments, cache=cache
        )


class SoftcappedLinear(nn.Linear):
    """c tanh(W x / c): logits between -c and c (Gemma 2)."""

    def __init__(self, d_in: int, d_out: int, *, bias: bool, softcap: float) -> None:
        super().__init__(d_in, d_out, bias=bias)
        self.softcap = softcap

    def forward(self, x: Tensor) -> Tensor:
        """x (..., D) -> (..., V)."""
        return self.softcap * (super().forward(x) / self.softcap).tanh()


def _output(config: TransformerConfig, tokens: TokenEmbedding, *, bias: bool) -> nn.Linear:
    """The projection to the vocabulary; shares the embedding's weight if the config ties them."""
    sizes = (tokens.embedding_dim, tokens.num_embeddings)
    output = (
        nn.Linear(*sizes, bias=bias)
        if config.output_softcap is None
        else SoftcappedLinear(*sizes, bias=bias, softcap=config.output_softcap)
    )
    if config.tying in ("all", "target"):
        output.weight = tokens.weight
    return output
