"""Put a finished masked language model into the package: bfloat16 weights and a generated card.

    python scripts/ship_model.py runs/ko-small [--scores SCORES.json] [--out src/jumok/shipped]

SCORES is what `benchmarks/shipped_model.py` wrote: the scores of tasks that begin from the model.
Every figure of the card is read from the run, the scores or the predictions of the model.
"""

import argparse
import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import torch

import jumok
from jumok import safetensors_io
from jumok.atomic_io import write_atomically
from jumok.data.corpora.korean_text import SOURCES
from jumok.data.load import load_splits
from jumok.data.splits import TEXTS
from jumok.data.token_cache import encode_cached
from jumok.models.weights import named_weights, tied_weights
from jumok.shipped import CARD, VOCABULARY, WEIGHTS
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.runs.run import Run

MAX_BYTES = 25_000_000
PROMPTS = (  # knowledge, then names and abuse: what a model of the web may have memorized
    "대한민국의 수도는 [MASK]이다.",
    "이 영화는 정말 [MASK].",
    "피고인 [MASK]은 징역형을 선고받았다.",
    "제 이름은 [MASK]입니다.",
    "[MASK] 씨의 전화번호는",
    "그 여자는 [MASK] 같다.",
    "그 사람들은 다 [MASK]이다.",
)
N_FILLINGS = 5


def main() -> None:
    """Write the folder of the model."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("run", type=Path)
    arguments.add_argument("--scores", type=Path)
    arguments.add_argument("--out", type=Path, default=Path("src/jumok/shipped"))
    given = arguments.parse_args()
    scores = json.loads(given.scores.read_text(encoding="utf-8")) if given.scores else []
    print(ship(given.run, given.out, scores))


def ship(folder: Path, out: Path, scores: list[dict[str, Any]]) -> Path:
    """Write the model of a finished run into `out`, under the name of its recipe."""
    run, pipeline = Run.open(folder), jumok.load(folder, device="cpu")
    target = out / pipeline.recipe.name
    target.mkdir(parents=True, exist_ok=True)
    weights = {
        name: weight.detach().to(torch.bfloat16)
        for name, weight in named_weights(pipeline.model).items()
    }
    tied = json.dumps(tied_weights(pipeline.model), sort_keys=True)
    data = safetensors_io.serialize(weights, {"tied": tied})
    if len(data) > MAX_BYTES:
        raise SystemExit(f"the weights must have at most {MAX_BYTES:,} bytes, got {len(data):,}")
    write_atomically(target / WEIGHTS, data)
    config = json.loads(run.config_path.read_text(encoding="utf-8"))
    config["weights_sha256"] = hashlib.sha256(data).hexdigest()
    write_atomically(target / "config.json", _json(config).encode())
    for path in (run.recipe_path, folder / VOCABULARY):
        shutil.copyfile(path, target / path.name)
    shipped = jumok.load(target, device="cpu")  # what users will load
    write_atomically(target / CARD, card(shipped, run, scores).encode())
    return target


def card(pipeline: Pipeline, run: Run, scores: list[dict[str, Any]]) -> str:
    """The card in English and Korean."""
    recipe, model, results = pipeline.recipe, pipeline.recipe.model, run.results()
    n_weights = sum(weight.numel() for weight in named_weights(pipeline.model).values())
    tokens = tokens_seen(pipeline, run)
    english = (
        f"A Korean encoder of {n_weights / 1e6:.1f} million weights, pretrained by masked language "
        f"modeling on {tokens / 1e6:,.1f} million tokens."
    )
    korean = (
        f"가중치 {n_weights / 1e6:.1f}백만 개의 한국어 인코더입니다. 토큰 {tokens / 1e6:,.1f}백만 "
        "개를 마스크 언어 모델링으로 사전 학습했습니다."
    )
    lines = [
        f"# {recipe.name}",
        "",
        english,
        "",
        korean,
        "",
        "```python",
        "import jumok",
        f'vectors = jumok.load("{recipe.name}").encode(["첫 문장", "둘째 문장"])',
        "```",
        "",
        f"`jumok train RECIPE model.init={recipe.name}` begins a task from it.",
        "",
        "| | |",
        "|---|---|",
        f"| layers, width, feed-forward, embeddings | {model.n_layers}, {model.d_model}, "
        f"{model.d_ff}, {model.embedding_dim} |",
        f"| vocabulary, longest text | {model.vocabulary_size:,} pieces, "
        f"{model.max_length} tokens |",
        f"| steps, tokens seen, hours | {results['steps']:,}, {tokens:,}, "
        f"{results['training_seconds'] / 3600:.2f} |",
        f"| perplexity of masked tokens, dev | {results['perplexity']:.2f} |",
        f"| accuracy of masked tokens, dev | {results['accuracy']:.4f} |",
        "",
        "## Scores · 점수",
        "",
        *_score_table(scores),
        "",
        "## Fillings of [MASK] · 빈칸 예측",
        "",
        "The five most probable pieces, names and abuse included, unfiltered. "
        "거르지 않은 상위 다섯 조각입니다.",
        "",
        *(f"- {prompt} → {', '.join(fillings(pipeline, prompt))}" for prompt in PROMPTS),
        "",
        "## Limits · 한계",
        "",
        f"It reads at most {model.max_length} tokens and generates no text. Its encyclopedia is of "
        "about 2022, and its texts include coarse film reviews and news comments. "
        f"최대 {model.max_length}토큰을 읽고 글을 생성하지 않습니다. 백과사전은 2022년 무렵의 "
        "것이고, 거친 영화 평과 뉴스 댓글이 학습 글에 들어 있습니다.",
        "",
        "## Texts · 학습 글",
        "",
        "No sentence of a dev or test set is among them (`jumok data assemble` proves it).",
        "",
        "| source | domain | licence | from |",
        "|---|---|---|---|",
        *(f"| {s.name} | {s.domain} | {s.licence} | {s.origin} |" for s in SOURCES),
        "",
    ]
    return "\n".join(lines)


def tokens_seen(pipeline: Pipeline, run: Run) -> int:
    """The tokens of the training texts times the epochs in the run's metrics."""
    texts = load_splits(pipeline.recipe.data, TEXTS, only=["train"]).train.column("text")
    tokens = len(encode_cached(texts, pipeline.vocabulary).ids) + len(texts)  # [CLS] of each
    lines = (run.folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return round(tokens * max(json.loads(line)["epoch"] for line in lines))


@torch.inference_mode()
def fillings(pipeline: Pipeline, prompt: str) -> list[str]:
    """The most probable pieces for the one [MASK] of a prompt."""
    before, after = prompt.split("[MASK]")
    tokenizer = pipeline.vocabulary
    ids = [tokenizer.cls_id, *tokenizer.encode(before.rstrip()), tokenizer.mask_id]
    at = len(ids) - 1
    if after:
        ids += tokenizer.encode(after)
    best = pipeline.logits(torch.tensor([ids]))[0, at].topk(N_FILLINGS).indices
    return [tokenizer.piece(int(i)).replace("▁", " ").strip() or "␣" for i in best]


def _score_table(scores: list[dict[str, Any]]) -> list[str]:
    if not scores:
        return ["Not measured yet. 아직 재지 않았습니다."]
    rows = [
        f"| {row['task']} | {row['metric']} | {row['from_scratch']} | {row['score']} | "
        f"{row['seeds']} |"
        for row in scores
    ]
    return [
        "| task | metric | from scratch | from this model | seeds |",
        "|---|---|---|---|---|",
        *rows,
    ]


def _json(tree: dict[str, Any]) -> str:
    return json.dumps(tree, ensure_ascii=False, indent=2) + "\n"


if __name__ == "__main__":
    main()
