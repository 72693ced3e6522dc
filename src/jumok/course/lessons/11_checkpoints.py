"""Checkpoints of other libraries, and their tokenizers."""

# %% folder
import json
import tempfile
from pathlib import Path

folder = Path(tempfile.mkdtemp())
config = {"architectures": ["BertModel"], "model_type": "bert", "vocab_size": 11}
config |= {"hidden_size": 32, "num_attention_heads": 2, "num_hidden_layers": 1}
config |= {"intermediate_size": 64, "max_position_embeddings": 16}
(folder / "config.json").write_text(json.dumps(config))
words = "[PAD] [UNK] [CLS] [SEP] [MASK] time fl ##ies like an arrow"
(folder / "vocab.txt").write_text(words.replace(" ", "\n") + "\n")
(folder / "tokenizer_config.json").write_text('{"do_lower_case": true}')
print(*sorted(path.name for path in folder.iterdir()))

# %% tensors
import torch
from safetensors.torch import save_file

sizes = {"word": 11, "position": 16, "token_type": 2}
shapes = {f"embeddings.{name}_embeddings": (n, 32) for name, n in sizes.items()}
layer = dict.fromkeys(("attention.output.LayerNorm", "output.LayerNorm"), (32,))
layer |= {f"attention.self.{name}": (32, 32) for name in ("query", "key", "value")}
layer |= {"attention.output.dense": (32, 32), "intermediate.dense": (64, 32)}
shapes |= {f"encoder.layer.0.{name}": shape for name, shape in layer.items()}
shapes |= {"encoder.layer.0.output.dense": (32, 64), "embeddings.LayerNorm": (32,)}
tensors = {f"{name}.weight": torch.randn(shape) for name, shape in shapes.items()}
biases = {f"{n}.bias": torch.randn(s[0]) for n, s in shapes.items() if "_emb" not in n}
save_file(tensors | biases, folder / "model.safetensors")

# %% load
import jumok

model = jumok.load(folder, device="cpu")
ids = torch.tensor([model.vocabulary.encode("Time flies like an arrow")])  # (1, T)
hidden = model.hidden_states(ids)  # (1, T, D)
assert hidden.shape == (1, 6, 32)
print(type(model.model).__name__, tuple(hidden.shape))
for text in ("Time flies like an arrow", "time 겨울"):
    print(model.vocabulary.pieces(text))

# %% guess-special
from jumok.text.pretrained import PretrainedTokenizer

assert isinstance(model.vocabulary, PretrainedTokenizer)
row = model.vocabulary.encode_with_special_tokens("time flies like an arrow").ids
guess = 8  # guess
assert guess == len(row), (
    "힌트: 조각 6개에 [CLS]와 [SEP]을 더합니다. / Hint: 6 pieces, [CLS] and [SEP]."
)
print(*(model.vocabulary.piece(i) for i in row))

# %% names
ours = model.model.state_dict()
query = "encoder.layer.0.attention.self.query.weight"
up = "encoder.layer.0.intermediate.dense.weight"
pairs = {query: "stack.layers.0.self_attention.query.weight"}
pairs |= {up: "stack.layers.0.feed_forward.up.weight"}
for theirs, name in pairs.items():
    assert torch.equal(tensors[theirs], ours[name])
    print(theirs, "->", name)
assert len(ours) == len(tensors) + len(biases)

# %% ko-small
korean = jumok.load("ko-small", device="cpu")
print(korean("이 영화는 정말 [MASK].").output)
table = korean.model.get_parameter("encoder.embedding.tokens.weight")  # (V, E)
unit = torch.nn.functional.normalize(table.detach(), dim=-1)  # (V, E)
pieces = [korean.vocabulary.piece(i) for i in range(len(korean.vocabulary))]
for piece in ("▁겨울", "▁고양이"):
    cosine = unit @ unit[pieces.index(piece)]  # (V)
    nearest = cosine.topk(5).indices[1:].tolist()  # the first is the piece itself
    print(piece, "->", *(pieces[i] for i in nearest))
assert "▁여름" in [pieces[i] for i in (unit @ unit[pieces.index("▁겨울")]).topk(5).indices]

# %% slip-embedding
new = torch.nn.Embedding(config["vocab_size"], config["hidden_size"])  # the note's
learned = model.model.get_parameter("embedding.tokens.weight")
stored = tensors["embeddings.word_embeddings.weight"]
assert new.weight.shape == learned.shape == (11, 32)
print("nn.Embedding(config):", torch.equal(new.weight, stored))
print("jumok.load:", torch.equal(learned, stored))

# %% answer-exercises
count = sum(weight.numel() for weight in korean.model.parameters())
print(f"1. {count:,} weights, {table.numel() / count:.0%} of them token vectors")
torch.manual_seed(0)
noise = torch.nn.functional.normalize(torch.randn_like(unit), dim=-1)
closest = (noise @ noise[pieces.index("▁겨울")]).topk(2).values[1]
learned = (unit @ unit[pieces.index("▁겨울")]).topk(2).values[1]
assert learned > closest
print(f"2. cosine {learned:.2f} in ko-small, {closest:.2f} between random vectors")
