"""Several heads: the same vectors cut into pieces, and why the order of the cut matters."""

# %% split
import torch

B, T, D, H = 2, 8, 128, 2  # batch, tokens, width, heads
torch.manual_seed(0)
x = torch.randn(B, T, D)
query = torch.nn.Linear(D, D)
q = query(x).view(B, T, H, D // H).transpose(1, 2)
assert q.shape == (B, H, T, 64)
print(tuple(query(x).shape), "->", tuple(q.shape))

# %% guess-parameters
attention = torch.nn.ModuleList([torch.nn.Linear(D, D, bias=False) for _ in range(4)])
one_head = sum(weight.numel() for weight in attention.parameters())
four_heads = 4 * 3 * D * (D // 4) + D * D  # q, k, v of each head, then the output
guess = 1.0  # guess
hint = "힌트: 헤드가 네 배, 차원은 사분의 일 / Hint: four times the heads, a quarter wide"
assert guess == four_heads / one_head, hint
print(one_head, four_heads)

# %% split-order
right = x.view(B, T, H, D // H).transpose(1, 2)  # (B, H, T, K)
wrong = x.view(B, H, T, D // H)  # the same shape, another content
assert right.shape == wrong.shape
first, other = x[0, 0, 64:], x[0, 4, :64]  # of token 0, of token 4
print("head 1 of token 0 comes from token 0:", torch.equal(right[0, 1, 0], first))
print("head 1 of token 0 comes from token 4:", torch.equal(wrong[0, 1, 0], other))
joined = right.transpose(1, 2).flatten(2)  # (B, T, D)
assert torch.equal(joined, x)


# %% slip-names
class MHA(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc_o = torch.nn.Linear(D, D)
        self.scale = torch.sqrt(torch.tensor(D / H))  # a tensor, but not a buffer


try:
    output = MHA().fx_o
except AttributeError as error:
    print(error)
model = MHA().double()
print("weights:", model.fc_o.weight.dtype, " scale:", model.scale.dtype)

# %% heads-are-independent
from jumok.nn import MultiHeadAttention
from torch.nn.functional import scaled_dot_product_attention

attention = MultiHeadAttention(d_model=D, n_heads=H)
k, v = attention.project(x)  # 2 x (B, H, T, K)
q = attention.split(attention.query(x))  # (B, H, T, K)
heads = [scaled_dot_product_attention(q[:, h], k[:, h], v[:, h]) for h in range(H)]
output = attention.output(torch.cat(heads, -1))  # (B, T, D)
assert torch.allclose(output, attention(x, x), atol=1e-5)
print("one after the other = all at once:", tuple(output.shape))

# %% note-heads
import jumok

model = jumok.load("note", device="cpu")
with jumok.record(model.model) as recorded:
    model("겨울은 추워요.")
[weights] = recorded["encoder.stack.layers.0.self_attention"]  # (B, H, T, S)
for head in range(2):
    rows = weights[0, head]
    entropy = -(rows * rows.clamp(min=1e-9).log2()).sum(-1).mean()
    print(f"head {head}: {entropy:.2f} bits, strongest key {rows.argmax(-1).tolist()}")

# %% picture-heads
figure = jumok.trace(model, "겨울은 추워요.").figure("heads", block="encoder", layer=0)
figure

# %% answer-exercises
print("1.", 4 * 512 * 512)
attention = MultiHeadAttention(d_model=D, n_heads=H)
before, exchanged = attention(x, x), torch.arange(D).roll(D // 2)
with torch.no_grad():
    for linear in (attention.query, attention.key, attention.value):
        linear.weight.copy_(linear.weight[exchanged].clone())
        linear.bias.copy_(linear.bias[exchanged].clone())
    attention.output.weight.copy_(attention.output.weight[:, exchanged].clone())
assert torch.allclose(before, attention(x, x), atol=1e-5)
print("2. no: heads have no order")
