"""Encoder and decoder, one layer each."""

# %% encoder-layer
import torch

from jumok.nn import NO_MASK, LayerConfig, TransformerLayer

torch.manual_seed(0)
config = LayerConfig(d_model=128, n_heads=2, d_ff=512)  # post-norm, as in the paper
layer, x = TransformerLayer(config).eval(), torch.randn(2, 8, 128)  # (B, S, D)
attended = layer.self_attention_norm.norm(x + layer.self_attention(x, x))
output = layer.feed_forward_norm.norm(attended + layer.feed_forward(attended))
assert output.shape == x.shape == (2, 8, 128)
assert torch.allclose(layer(x, NO_MASK), output, atol=1e-5)
print("encoder layer:", sum(p.numel() for p in layer.parameters()), "weights")

# %% decoder-layer
from jumok.nn import AttentionMask

decoder, memory = TransformerLayer(config, cross=True).eval(), x  # (B, S, D)
cross_attention = decoder.get_submodule("cross_attention")
cross_norm = decoder.get_submodule("cross_attention_norm.norm")
y, causal = torch.randn(2, 5, 128), AttentionMask(causal=True)  # (B, T, D)
own = decoder.self_attention_norm.norm(y + decoder.self_attention(y, y, causal))
crossed = cross_norm(own + cross_attention(own, memory))
output = decoder.feed_forward_norm.norm(crossed + decoder.feed_forward(crossed))
assert output.shape == y.shape == (2, 5, 128)
assert torch.allclose(decoder(y, causal, memory), output, atol=1e-5)
print("decoder layer:", sum(p.numel() for p in decoder.parameters()), "weights")

# %% guess-cross
from jumok import EncoderDecoder, TransformerConfig, record

small = TransformerConfig(vocabulary_size=40, d_model=128, n_heads=2, n_layers=2)
model = EncoderDecoder(small).eval()
source, target = torch.randint(7, 40, (2, 8)), torch.randint(7, 40, (2, 5))
with record(model) as maps, torch.no_grad():
    model(source, target)
guess = (2, 2, 5, 8)  # guess
assert guess == maps["decoder.stack.layers.0.cross_attention"][0].shape, (
    "힌트: (문장, 헤드, 쿼리, 키)의 순서입니다. / Hint: (texts, heads, queries, keys)."
)
print(len(maps), "maps:", *sorted({tuple(seen[0].shape) for seen in maps.values()}))

# %% past-and-future
other = target.clone()
other[:, -1] = (target[:, -1] + 1) % 40  # only the last target token differs
with torch.no_grad():
    decoded = (model(source, target) - model(source, other)).abs().amax((0, 2))
    encoded = (model.encoder(target) - model.encoder(other)).abs().amax((0, 2))
assert decoded.shape == encoded.shape == (5,)
print("decoder:", (decoded > 1e-6).int().tolist())
print("encoder:", (encoded > 1e-6).int().tolist())

# %% picture-cross
import jumok

note = jumok.load("note", device="cpu")
figure = jumok.trace(note, "겨울은 추워요.").figure("alignment", rows="predicted")
figure


# %% slip-return
def forward(x: torch.Tensor, slipped: bool) -> torch.Tensor:
    for each in model.encoder.stack.layers:
        x = each(x, NO_MASK)
        if slipped:
            return x  # inside the loop
    return x


for slipped in (True, False):
    model.zero_grad()
    forward(x, slipped).square().sum().backward()
    layers = [each.feed_forward.up.weight.grad for each in model.encoder.stack.layers]
    print("in the loop" if slipped else "after it   ", [g is not None for g in layers])


# %% slip-residual
def self_attention_is_trained(slipped: bool) -> bool:
    decoder.zero_grad()
    one = memory[:, :1]  # a source of one token: its weight is 1, whatever the query
    own = decoder.self_attention_norm.norm(y + decoder.self_attention(y, y, causal))
    crossed = (y if slipped else own) + cross_attention(own, one)
    assert crossed.shape == (2, 5, 128)
    decoder.feed_forward(cross_norm(crossed)).sum().backward()
    gradient = decoder.self_attention.value.weight.grad
    return gradient is not None and bool(gradient.norm() > 1e-3)


print("x + residual:  ", self_attention_is_trained(slipped=True))
print("own + residual:", self_attention_is_trained(slipped=False))

# %% answer-exercises
base = LayerConfig(d_model=512, n_heads=8, d_ff=2048)
for name, cross in (("encoder", False), ("decoder", True)):
    one = TransformerLayer(base, cross=cross)
    print("1.", name, sum(weight.numel() for weight in one.parameters()))
shuffled = memory[:, torch.randperm(8)]  # (B, S, D)
once, again = decoder(y, causal, memory), decoder(y, causal, shuffled)
assert torch.allclose(once, again, atol=1e-5)
print("2. no: the order is in the vectors, the encoder has added it")
