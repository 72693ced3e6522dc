"""The Transformer in one file of plain PyTorch: each equation of the paper is a function or class.

"Attention Is All You Need" (Vaswani et al. 2017). Lessons 2 to 7 of the course build this file
piece by piece; lesson 14 trains it and fills it with the weights of the model "note".

Shapes: B batch, S source tokens, T target tokens, H heads, D d_model, K = D/H width of a head,
F d_ff, V vocabulary. In masks True means "may attend".
"""

import math
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn


def positional_encoding(length: int, d_model: int) -> Tensor:
    """PE(p, 2i) = sin(p / 10000^(2i/D)), PE(p, 2i+1) = cos(same): 3.5."""
    position = torch.arange(length, dtype=torch.float64)[:, None]  # (T, 1)
    doubled = torch.arange(0, d_model, 2, dtype=torch.float64)  # 2i: (D/2,)
    angle = position / 10_000 ** (doubled / d_model)  # (T, D/2)
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1).float()  # (T, D)


class InputEmbedding(nn.Embedding):
    """Token vectors times sqrt(D) (3.4) plus the positional encoding (3.5)."""

    def forward(self, ids: Tensor) -> Tensor:
        """ids (B, T) -> (B, T, D)."""
        D, T = self.embedding_dim, ids.shape[1]
        tokens = super().forward(ids) * math.sqrt(D)  # (B, T, D)
        return tokens + positional_encoding(T, D).to(tokens)  # (B, T, D)


def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """softmax(Q K^T / sqrt(d_k)) V: equation (1)."""
    scores = q @ k.mT * q.shape[-1] ** -0.5  # (B, H, T, S)
    scores = scores.masked_fill(~mask, float("-inf"))  # 3.2.3: illegal connections
    return scores.softmax(-1) @ v  # (B, H, T, K)


class MultiHeadAttention(nn.Module):
    """Concat(head_1, ..., head_h) W^O, head_i = Attention(Q_i, K_i, V_i): 3.2.2."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.query = nn.Linear(d_model, d_model)  # W^Q of all heads, side by side
        self.key = nn.Linear(d_model, d_model)  # W^K
        self.value = nn.Linear(d_model, d_model)  # W^V
        self.output = nn.Linear(d_model, d_model)  # W^O

    def forward(self, x: Tensor, source: Tensor, mask: Tensor) -> Tensor:
        """x (B, T, D) attends to source (B, S, D) under a mask -> (B, T, D)."""
        q = self.split(self.query(x))  # (B, H, T, K)
        k = self.split(self.key(source))  # (B, H, S, K)
        v = self.split(self.value(source))  # (B, H, S, K)
        heads = attention(q, k, v, mask)  # (B, H, T, K)
        return self.output(heads.transpose(1, 2).flatten(2))  # (B, T, D)

    def split(self, x: Tensor) -> Tensor:
        """(B, T, D) -> (B, H, T, K)."""
        return x.view(*x.shape[:2], self.n_heads, -1).transpose(1, 2)  # (B, H, T, K)


def padding_mask(ids: Tensor, pad: int = 0) -> Tensor:
    """Every query may attend to the keys that are real tokens: (B, 1, 1, S)."""
    return (ids != pad)[:, None, None]  # (B, 1, 1, S)


def causal_mask(length: int) -> Tensor:
    """A position may attend to itself and to earlier ones, not to the future: 3.2.3."""
    return torch.ones(length, length).tril().bool()[None, None]  # (1, 1, T, T)


class FeedForward(nn.Module):
    """FFN(x) = max(0, x W_1 + b_1) W_2 + b_2: equation (2)."""

    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__()
        self.up = nn.Linear(d_model, d_ff)  # W_1, b_1
        self.down = nn.Linear(d_ff, d_model)  # W_2, b_2

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        return self.down(self.up(x).clamp(min=0))  # (B, T, F) -> (B, T, D)


class AddNorm(nn.Module):
    """LayerNorm(x + Dropout(Sublayer(x))): 3.1 and 5.4."""

    def __init__(self, d_model: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, sublayer: Tensor) -> Tensor:
        """x and the output of its sublayer, both (B, T, D) -> (B, T, D)."""
        return self.norm(x + self.dropout(sublayer))  # (B, T, D)


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward network: figure 1, left."""

    def __init__(self, d_model: int, n_heads: int, d_ff: int, dropout: float) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, n_heads)
        self.self_attention_norm = AddNorm(d_model, dropout)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.feed_forward_norm = AddNorm(d_model, dropout)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """x (B, S, D) -> (B, S, D)."""
        x = self.self_attention_norm(x, self.self_attention(x, x, mask))
        return self.feed_forward_norm(x, self.feed_forward(x))  # (B, S, D)


class DecoderLayer(nn.Module):
    """An encoder layer with cross-attention in between: figure 1, right."""

    def __init__(self, d_model: int, n_heads: int, d_ff: int, dropout: float) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, n_heads)
        self.self_attention_norm = AddNorm(d_model, dropout)
        self.cross_attention = MultiHeadAttention(d_model, n_heads)
        self.cross_attention_norm = AddNorm(d_model, dropout)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.feed_forward_norm = AddNorm(d_model, dropout)

    def forward(self, y: Tensor, mask: Tensor, memory: Tensor, memory_mask: Tensor) -> Tensor:
        """y (B, T, D) -> (B, T, D); keys and values come from the memory (B, S, D)."""
        y = self.self_attention_norm(y, self.self_attention(y, y, mask))
        y = self.cross_attention_norm(y, self.cross_attention(y, memory, memory_mask))
        return self.feed_forward_norm(y, self.feed_forward(y))  # (B, T, D)


class Transformer(nn.Module):
    """Encoder, decoder and the linear map to the vocabulary: figure 1."""

    def __init__(
        self,
        n_tokens: int,
        d_model: int = 512,  # these sizes are those of the base model in table 3
        n_heads: int = 8,
        d_ff: int = 2048,
        n_layers: int = 6,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        sizes = (d_model, n_heads, d_ff, dropout)
        self.embedding = InputEmbedding(n_tokens, d_model)
        nn.init.normal_(self.embedding.weight, std=d_model**-0.5)
        self.dropout = nn.Dropout(dropout)
        self.encoder = nn.ModuleList(EncoderLayer(*sizes) for _ in range(n_layers))
        self.decoder = nn.ModuleList(DecoderLayer(*sizes) for _ in range(n_layers))

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """source (B, S), target (B, T) int64 -> logits of each next token (B, T, V)."""
        return self.decode(target, self.encode(source), padding_mask(source))

    def encode(self, source: Tensor) -> Tensor:
        """source (B, S) -> the memory (B, S, D)."""
        x = self.dropout(self.embedding(source))  # (B, S, D)
        for layer in self.encoder:
            x = layer(x, padding_mask(source))
        return x

    def decode(self, target: Tensor, memory: Tensor, memory_mask: Tensor) -> Tensor:
        """target (B, T), memory (B, S, D) -> logits (B, T, V)."""
        y = self.dropout(self.embedding(target))  # (B, T, D)
        mask = causal_mask(target.shape[1]).to(target.device)  # (1, 1, T, T)
        for layer in self.decoder:
            y = layer(y, mask, memory, memory_mask)
        return y @ self.embedding.weight.T  # (B, T, V); 3.4: the embedding's weights


def learning_rate(step: int, d_model: int, warmup: int) -> float:
    """d_model^-0.5 min(step^-0.5, step warmup^-1.5), step from 1: equation (3)."""
    return d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)


@torch.no_grad()
def greedy(model: Transformer, source: Tensor, bos: int, eos: int, longest: int) -> Tensor:
    """The most probable next token until [EOS]; source (1, S) -> (1, T) without [BOS]."""
    target = source.new_tensor([[bos]])  # (1, 1)
    while target[0, -1] != eos and target.shape[1] <= longest:
        newest = model.eval()(source, target)[:, -1]  # (1, V)
        target = torch.cat([target, newest.argmax(-1, keepdim=True)], 1)  # (1, T+1)
    return target[:, 1:]


def load_note(folder: Path) -> Transformer:
    """The model "note" of the course, whose weights are in `folder`, as a Transformer."""
    model = Transformer(n_tokens=320, d_model=32, n_heads=2, d_ff=64, n_layers=2)
    weights = load_file(folder / "model.safetensors")
    weights["embedding.weight"] = weights.pop("encoder.embedding.tokens.weight")
    model.load_state_dict({name.replace("stack.layers.", ""): weights[name] for name in weights})
    return model.eval()
