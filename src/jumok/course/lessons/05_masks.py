"""Three masks: padding, causal, and both; and what happens with 0 instead of minus infinity."""

# %% two-lengths
import jumok

model = jumok.load("note", device="cpu")
vocabulary = model.vocabulary
texts = ("겨울은 추워요.", "감기 조심하세요.")
rows = [[*vocabulary.encode(text), vocabulary.eos_id] for text in texts]
print([len(row) for row in rows])
for row in rows:
    print([vocabulary.piece(i) for i in row])

# %% padding
from torch import tensor
from torch.nn.utils.rnn import pad_sequence

from jumok.nn import AttentionMask

pad = vocabulary.pad_id
ids = pad_sequence([tensor(row) for row in rows], batch_first=True, padding_value=pad)
real = ids != pad  # (B, S), True = a real token
mask = AttentionMask.from_padding(real)
assert mask.dense(7, 7).shape == (2, 1, 1, 7)
print(real.int())

# %% guess-causal
import torch

causal = AttentionMask(causal=True).dense(7, 7)  # (T, S)
guess = 3  # guess
hint = "힌트: 자기 자신과 그 앞 / Hint: itself and everything before it"
assert guess == causal[2].sum().item(), hint
print(causal.int())

# %% both
both = AttentionMask.from_padding(real, causal=True)
allowed = both.dense(7, 7)[1, 0]  # (T, S) of the second sentence
assert torch.equal(allowed, causal & real[1])
print(allowed.int())

# %% slip-zero
from jumok.nn.attention import masked_softmax

torch.manual_seed(0)
scores = torch.randn(7, 7)  # (T, S)
hidden = ~real[1].expand(7, 7)  # True = hidden, as in the note
wrong = scores.masked_fill(hidden, 0).softmax(-1)
right = masked_softmax(scores, ~hidden)
print(f"0:    {wrong[hidden].mean():.3f} on padding, at most {wrong[hidden].max():.3f}")
print(f"-inf: {right[hidden].max():.3f}")

# %% padding-changes-nothing
network = model.model
assert isinstance(network, jumok.EncoderDecoder)
memory = network.encode(ids, real)  # (B, S, D)
alone = network.encode(ids[1:, :6])  # (1, S, D), without padding
unmasked = network.encode(ids)  # (B, S, D), [PAD] is read as a token
assert memory.shape == (2, 7, 32)
assert torch.allclose(memory[1, :6], alone[0], atol=1e-5)
print(f"without a mask: {(unmasked[1, :6] - alone[0]).abs().max():.1f}")

# %% picture-masks
trace = jumok.trace(model, texts)
figure = trace.figure("attention", block="decoder", layer=0, head=0, sequence=1)
figure

# %% answer-exercises
print("1.", int(AttentionMask(causal=True).dense(5, 5).sum()))
real_tokens = torch.tensor([[False, True, True]])  # padding in front
left = AttentionMask.from_padding(real_tokens, causal=True).dense(3, 3)
weights = masked_softmax(torch.zeros(1, 1, 3, 3), left)  # (B, H, T, S)
print("2. none:", weights[0, 0, 0].tolist())
assert not left[0, 0, 0].any()
