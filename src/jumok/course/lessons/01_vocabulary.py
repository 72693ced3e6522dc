"""Vocabulary: one spelling for each syllable (NFC), and SentencePiece."""

# %% spelling
from unicodedata import normalize

composed = "재미"
decomposed = normalize("NFD", composed)
print(len(composed), len(decomposed), composed == decomposed)
assert normalize("NFC", decomposed) == composed
for form in ("NFC", "NFKC"):
    laugh = normalize(form, "ㅋㅋ")
    print(form, [f"U+{ord(letter):04X}" for letter in laugh], laugh == "ㅋㅋ")

# %% guess-letters
guess = 6  # guess
hint = "힌트: ㅎ, ㅏ, ㄴ부터 세기 / Hint: count from ㅎ, ㅏ, ㄴ"
assert guess == len(normalize("NFD", "한글")), hint

# %% pieces
import jumok

vocabulary = jumok.load("note", device="cpu").vocabulary
for text in ("겨울은 추워요.", "감기 조심하세요."):
    ids = vocabulary.encode(text)
    print([vocabulary.piece(i) for i in ids], ids)
    assert vocabulary.decode(ids) == text

# %% train
from jumok.data.note_sentences import generate
from jumok.text.sentencepiece import VocabularyConfig

texts = [text for pair in generate("train", 2000) for text in pair]
for size in (160, 240, 320):
    config = VocabularyConfig(kind="bpe", size=size)
    trained = jumok.SentencePieceTokenizer.train(texts, config)
    ids = trained.encode("나는 집으로 재빠르게 간다.")
    print(size, len(ids), [trained.piece(i) for i in ids])

# %% slip-shape
from torch import tensor
from torch.nn.utils.rnn import pad_sequence

rows = [tensor(vocabulary.encode(text)) for text in ("겨울은 추워요.", "감기 조심하세요.")]
ids = pad_sequence(rows, batch_first=True, padding_value=vocabulary.pad_id)
longest = max(len(row) for row in rows)
assert ids.shape == (2, longest)  # (sentences, tokens), not (tokens, sentences)
print(ids)

# %% special
print(dict(vocabulary.special_ids))
ids = vocabulary.encode("겨울은 甲워요.")
print([vocabulary.piece(i) for i in ids])
assert vocabulary.unk_id in ids
print(repr(vocabulary.decode(ids)))

# %% answer-exercises
from collections import Counter
from itertools import pairwise

words = ["겨울은", "겨울이", "겨울에", "여름은"]
pairs = Counter(pair for word in words for pair in pairwise(word))
[(first, times)] = pairs.most_common(1)
before = sum(map(len, words))
print("1.", *first, f"({times} times)")
print(f"2. {before} -> {before - times}")
assert ("".join(first), before - times) == ("겨울", 9)
