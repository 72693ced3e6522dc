"""Start: a first translation, the size of the model, and how the lessons work."""

# %% first
import jumok

model = jumok.load("note", device="cpu")
for text in ("겨울은 추워요.", "감기 조심하세요.", "나는 집으로 재빠르게 간다."):
    print(text, "->", model(text).output)
assert model("겨울은 추워요.").output == "Winter is cold."

# %% size
config = model.recipe.model
count = sum(weight.numel() for weight in model.model.parameters())
assert config.d_model % config.n_heads == 0
print(f"{count:,} weights, {config.n_layers} layers, {config.n_heads} heads")
print(f"d_model {config.d_model}, {config.vocabulary_size} pieces")

# %% guess-attentions
from jumok.nn import MultiHeadAttention

found = [part for part in model.model.modules() if isinstance(part, MultiHeadAttention)]
guess = 6  # guess
hint = "힌트: 디코더 레이어에는 두 개 / Hint: a decoder layer has two"
assert guess == len(found), hint

# %% look
with jumok.record(model.model) as recorded:
    model("겨울은 추워요.")
for name, weights in recorded.items():
    print(f"{name:38} {len(weights)} x {tuple(weights[0].shape)}")  # (B, H, T, S)
assert recorded["encoder.stack.layers.0.self_attention"][0].shape == (1, 2, 7, 7)

# %% slip-install
import subprocess
import sys

command = [sys.executable, "-m", "pip", "inatall", "einops"]
done = subprocess.run(command, capture_output=True, text=True, check=False)
print(done.returncode, done.stderr.strip().splitlines()[0])
assert done.returncode != 0

# %% answer-exercises
with jumok.record(model.model) as recorded:
    model("감기 조심하세요.")
steps = recorded["decoder.stack.layers.0.self_attention"]
print("1.", len(steps), "tokens, the last one is [EOS]")
print(f"2. {320 * 32 / count:.0%}")
output = model.model.get_parameter("output.weight")
assert output.numel() == 320 * 32  # also the output (3.4)
