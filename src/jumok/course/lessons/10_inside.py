"""Looking inside: a trace, its heads, one score."""

# %% trace
import jumok

model = jumok.load("note", device="cpu")
trace = jumok.trace(model, ["겨울은 추워요.", "감기 조심하세요."])
tokens = trace.info.tokens("source", 0).pieces
weights = trace.weights("encoder", layer=0)  # (H, T, S)
assert weights.shape == (2, len(tokens), len(tokens))
assert abs(weights.sum(-1) - 1).max() < 1e-5
print(trace)
print(*tokens)

# %% heads
for block in ("encoder", "decoder", "cross"):
    entropy = trace.entropy(block)  # (L, H), in bits
    assert entropy.shape == (2, 2)
    print(f"{block:8s}", *(f"{bits:.1f}" for bits in entropy.flatten()))
padded = trace.info.tokens("source", 1)
columns = trace.weights("encoder", layer=0, sequence=1)[..., sum(padded.real) :]
assert columns.size
assert not columns.any()

# %% guess-products
q, k = trace.q("encoder", layer=0)[1], trace.k("encoder", layer=0)[1]  # (T, K), (S, K)
products = q[3] * k[0]  # (K): what the neuron view draws, one bar per dimension
guess = 16  # guess
assert guess == len(products), (
    "힌트: d_model 32, 헤드 2개 / Hint: d_model is 32, and there are 2 heads."
)
score = trace.scores("encoder", layer=0)[1, 3, 0]
assert abs(products.sum() * 16**-0.5 - score) < 1e-4
print(tokens[3], "->", tokens[0], f"score {score:.1f}")

# %% softmax
import numpy as np

scores = q[3] @ k.T * 16**-0.5  # (S)
exponentials = np.exp(scores - scores.max())
by_hand = exponentials / exponentials.sum()
assert by_hand.shape == (len(tokens),)
assert np.allclose(by_hand, weights[1, 3], atol=1e-4)
for token, weight in zip(tokens, by_hand, strict=True):
    print(f"{token:6s} {weight:.2f} {'#' * round(weight * 20)}")

# %% picture-neuron
figure = trace.figure("neuron", block="encoder", layer=0, head=1, query=3)
figure

# %% mute
english = model("겨울은 추워요.").output
for layer in (0, 1):
    for head in (0, 1):
        mute = [("cross", layer, head)]
        muted = jumok.trace(model, "겨울은 추워요.", english, mute=mute)
        next_tokens = [candidates[0].piece for candidates in muted.info.next or ()]
        assert len(next_tokens) == 7
        print(f"cross layer {layer} without head {head}:", *next_tokens)

# %% slip-embeddings
import torch

torch.manual_seed(0)
token_emb = torch.nn.Embedding(30522, 768)  # new and random, not the checkpoint's
x = token_emb(torch.tensor([[2051, 10029, 2066, 2019, 8612]]))  # (1, 5, 768)
weights = (x @ x.mT / 768**0.5).softmax(-1)  # (1, 5, 5)
assert weights.shape == (1, 5, 5)
print("sums:", *(f"{total:.0f}" for total in weights.sum(-1)[0]))
print(weights[0].detach().round(decimals=1))

# %% answer-exercises
print(f"1. {np.log2(5):.2f} bits")
print(f"2. dimension {products.argmax()}: {products.max():.2f} of {products.sum():.2f}")
assert products.max() > 0
