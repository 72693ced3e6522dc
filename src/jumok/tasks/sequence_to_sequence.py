"""Sequence to sequence: a target is generated for a source. Number normalization, translation."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from jumok.data.splits import Splits
from jumok.data.table import Table
from jumok.decoding import DecodingConfig, GenerationRequest, OnToken, StepCallback, TextStreamer
from jumok.evaluation import bleu_tokenizations, sequence_metrics
from jumok.evaluation.bootstrap import RowStatistics
from jumok.evaluation.examples import Example
from jumok.evaluation.own_metric import own_scores
from jumok.models import EncoderDecoder
from jumok.nn.fused_linear_cross_entropy import fused_linear_cross_entropy
from jumok.processes import SINGLE_PROCESS, ProcessGroup
from jumok.seeding import derive_seed
from jumok.tasks.inputs.batches import EVAL_BATCH_TOKENS, LazyBatches, batches_by_length
from jumok.tasks.inputs.seq2seq_encoder import Seq2SeqBatch, Seq2SeqEncoder
from jumok.tasks.inputs.special_tokens import build_source
from jumok.tasks.pipeline.distributed_map import JSON_CODEC, distributed_map
from jumok.tasks.pipeline.generated import Generated, to_generated_text
from jumok.tasks.pipeline.generation import (
    effective_config,
    generate_all,
    generation_request,
    greedy_config,
    linked_output,
)
from jumok.tasks.pipeline.generation_pipeline import as_generation
from jumok.tasks.pipeline.outputs import EvaluationResult, GeneratedText, RunOutputs
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.recipe.recipe import Recipe
from jumok.tasks.recipe.tables import ModelConfig
from jumok.tasks.shared.recipe_job import RecipeJob
from jumok.tasks.shared.row_statistics import fraction
from jumok.tasks.shared.subword_sampling import sample_some
from jumok.tasks.task import GenerativeTask
from jumok.text.ragged import Ragged
from jumok.text.tokenizer import Tokenizer
from jumok.training.job import DevResult
from jumok.unicode_forms import normalize

MAX_EXAMPLES = 30  # in a report
LONGER, EXTRA = 2, 10  # times the longest dev target, and tokens more: longer outputs are wrong


class Seq2SeqTask(GenerativeTask):
    """A target for each source."""

    kinds = ("encoder_decoder",)
    metrics = ("exact_match", "bleu", "chrf")
    columns = ("source", "target")
    tables = (("decoding", DecodingConfig),)
    augmentations = ("subword_sampling", "rdrop_alpha")
    model_keys = ("scale_output",)
    two_vocabularies = compares_rows = True
    special_pieces = ("eos_id",)
    head = "encoder_decoder"
    examples = (
        "오늘은 날씨가 좋습니다.",
        "How are you today?",
        "봄은 따뜻해요.",
        "여름은 더워요.",
        "감기 조심하세요.",  # the vocabulary of the model `note` spells the last three
    )
    korean = "글을 읽고 다른 글로 옮겨 쓰는"
    input_format = "A source ends with [EOS], a target begins with [BOS]."

    def build_model(self, config: ModelConfig, labels: Sequence[str]) -> nn.Module:
        """The Transformer of figure 1."""
        return EncoderDecoder(config)

    def job(self, recipe: Recipe) -> type[RecipeJob[Any]]:
        """Cross-entropy of each next target token."""
        return Seq2SeqJob

    def add_special_tokens(
        self, tokenizer: Tokenizer, rows: Ragged, pairs: Ragged | None, max_length: int
    ) -> Ragged:
        """The source, with [EOS] at its end."""
        return build_source(tokenizer, rows, max_length)

    def evaluate(self, pipeline: Pipeline, table: Table, split: str) -> EvaluationResult:
        """Exact match, BLEU and chrF, the number of repetitions, and examples, wrong ones first."""
        sources, targets = list(table.column("source")), list(table.column("target"))
        predictions = self.predict(pipeline, sources)
        outputs = [prediction.output for prediction in predictions]
        language = pipeline.recipe.data.language
        metrics = sequence_metrics(outputs, targets, bleu_tokenizations(language), language)
        composed = [normalize("NFC", target) for target in targets]  # as tokenizers decode
        examples = [Example(*triple) for triple in zip(sources, composed, outputs, strict=True)]
        wrong = [example for example in examples if example.output != example.target]
        right = [example for example in examples if example.output == example.target]
        return EvaluationResult(
            {
                "task": pipeline.recipe.task,
                "split": split,
                **metrics.to_dict(),
                "loops": sum(prediction.loop is not None for prediction in predictions),
                "decoding": as_generation(pipeline).decoding_summary,
                **own_scores(pipeline.recipe.metric, targets, outputs),
            },
            examples=[*wrong[: MAX_EXAMPLES // 2], *right[: MAX_EXAMPLES // 2]],
        )

    def row_outputs(self, pipeline: Pipeline, table: Table) -> RunOutputs:
        """The output of each row; the metrics are exact match and BLEU."""
        from sacrebleu.metrics import BLEU  # type: ignore[attr-defined]

        sources = list(table.column("source"))
        targets = [normalize("NFC", target) for target in table.column("target")]
        outputs = [normalize("NFC", output.display) for output in self.predict(pipeline, sources)]
        bleu = BLEU()
        counted = []
        for output, target in zip(outputs, targets, strict=True):
            found = bleu.corpus_score([output], [[target]])
            counted.append([found.sys_len, found.ref_len, *found.counts, *found.totals])
        counts = np.array(counted, np.float64)
        return RunOutputs(
            sources,
            targets,
            outputs,
            {
                "exact_match": fraction(np.array(outputs) == np.array(targets)),
                "bleu": RowStatistics(counts, partial(_bleu, bleu.compute_bleu)),
            },
        )

    def generate_one(
        self, pipeline: Pipeline, text: str, callback: StepCallback
    ) -> tuple[Generated, int]:
        """The best target; the prompt is [BOS]."""
        ((best, *_),) = self.generate(pipeline, [text], callback=callback)
        return best, 1

    def score_target(
        self, pipeline: Pipeline, text: str, target: str
    ) -> tuple[Tensor, list[int], int]:
        """log p of the target, with [BOS] as the prompt and [EOS] at the end."""
        tokenizer, max_length = pipeline.target_vocabulary, pipeline.recipe.model.max_length
        encode = Seq2SeqEncoder(pipeline.vocabulary, tokenizer, max_length)
        start, *tokens = encode.targets([target])[0].tolist()
        source, shifted = (
            torch.tensor([ids], dtype=torch.int64)
            for ids in (encode.sources([text])[0].tolist(), [start, *tokens[:-1]])
        )
        logits = pipeline.logits(source, decoder_input_ids=shifted)
        return logits[0].log_softmax(-1).cpu(), tokens, 1

    def effective_decoding(self, pipeline: Pipeline) -> DecodingConfig:
        """The decoding settings, limited to the model's positions."""
        assert isinstance(pipeline.model, EncoderDecoder)
        return effective_config(pipeline.recipe.decoding, pipeline.model)

    def predict(self, pipeline: Pipeline, texts: Sequence[str]) -> list[GeneratedText]:
        """The generated target of each text."""
        outputs = self.generate(pipeline, texts)
        tokenizer, n_best = pipeline.target_vocabulary, pipeline.recipe.decoding.n_best
        found = [
            to_generated_text(text, candidates, tokenizer, n_best)
            for text, candidates in zip(texts, outputs, strict=True)
        ]
        if not pipeline.recipe.decoding.alignment:
            return found
        return [linked_output(pipeline, output) for output in found]

    def stream(
        self, pipeline: Pipeline, text: str, on_text: Callable[[str], None]
    ) -> GeneratedText:
        """Generate for one text; pass each part to `on_text` as soon as it is final."""
        decoding, tokenizer = pipeline.recipe.decoding, pipeline.target_vocabulary
        streamer = TextStreamer(tokenizer, lambda _, part: on_text(part), decoding.stop)
        (candidates,) = self.generate(pipeline, [text], streamer.push)
        streamer.finish()
        return to_generated_text(text, candidates, tokenizer, decoding.n_best)

    def generate(
        self,
        pipeline: Pipeline,
        texts: Sequence[str],
        on_token: OnToken | None = None,
        callback: StepCallback | None = None,
    ) -> list[list[Generated]]:
        """All candidates for each text, the best first; a `callback` needs a single text."""
        assert isinstance(pipeline.model, EncoderDecoder)
        tokenizer, target_tokenizer = pipeline.vocabulary, pipeline.target_vocabulary
        encode = Seq2SeqEncoder(tokenizer, target_tokenizer, pipeline.recipe.model.max_length)
        return generate_all(
            pipeline.model,
            encode.sources(texts),
            tokenizer.padding_id,
            replace(generation_request(pipeline), on_token=on_token, callback=callback),
            backends=as_generation(pipeline).backends,
            processes=pipeline.processes,
            keep_alignment=as_generation(pipeline).keeps_alignment,
        )


def _bleu(compute: Callable[..., object], sums: NDArray[np.float64]) -> float:
    """BLEU from the lengths, and the counts and totals of the n-grams."""
    sys_len, ref_len, *grams = map(int, sums)
    half = len(grams) // 2
    found = compute(grams[:half], grams[half:], sys_len, ref_len, smooth_method="exp")
    return float(found.score)  # type: ignore[attr-defined]


class Seq2SeqJob(RecipeJob[Seq2SeqBatch]):
    """Trains an encoder-decoder with cross-entropy of the next target token."""

    model: EncoderDecoder

    def prepare(self, splits: Splits) -> None:
        """Encode the pairs of both splits."""
        self.target_tokenizer = self.tokenizers.target
        max_length = self.recipe.model.max_length
        self.encode = Seq2SeqEncoder(self.tokenizer, self.target_tokenizer, max_length)
        self.train, self.dev = splits.train, splits.dev
        self.train_ids, self.dev_ids = map(self.encode.pairs, (self.train, self.dev))

    def epoch(self, number: int) -> LazyBatches[Seq2SeqBatch]:
        """The batches of an epoch, in its order and with its augmentation."""
        n_views = 2 if self.recipe.augmentation.rdrop_alpha > 0 else 1
        sources = [self._sources(number, view) for view in range(n_views)]
        targets = self._targets(number)  # the same for both views, which R-Drop compares by token
        lengths = np.stack([rows.lengths for view in sources for rows in (view, targets)], -1)
        index_batches = self.index_batches(lengths, number)
        return LazyBatches(index_batches, lambda examples: self._batch(sources, targets, examples))

    def _sources(self, number: int, view: int) -> Ragged:
        """The training sources of an epoch: a pure function of its number and the view."""
        rows = self._sampled("source", self.tokenizer, number, view)
        return self.train_ids[0] if rows is None else self.encode.source_rows(rows)

    def _targets(self, number: int) -> Ragged:
        rows = self._sampled("target", self.target_tokenizer, number, 0)
        return self.train_ids[1] if rows is None else self.encode.target_rows(rows)

    def _sampled(self, side: str, tokenizer: Tokenizer, number: int, view: int) -> Ragged | None:
        """Sampled segmentations of the training texts of a side; None without sampling."""
        augmentation = self.recipe.augmentation
        if not augmentation.subword_sampling:
            return None
        seed = derive_seed(self.recipe.seed, side, number, view)
        return sample_some(self.train.column(side), tokenizer, augmentation, seed)

    def loss(self, batch: Seq2SeqBatch) -> Tensor:
        """Cross-entropy of each next token, summed over the targets; with two views plus R-Drop."""
        return self._loss(batch, self.recipe.training.label_smoothing)

    def _loss(self, batch: Seq2SeqBatch, label_smoothing: float) -> Tensor:
        """Only tokens without padding are projected: the largest product of a small model."""
        source_mask = batch.source.attention_mask
        memory = self.model.encode(batch.source.input_ids, source_mask)
        hidden = self.model.decode(batch.target.input_ids, memory, source_mask)  # (B, T, D)
        mask = batch.target.attention_mask
        if mask is None:
            hidden, labels = hidden.flatten(0, 1), batch.labels.flatten()
        else:
            hidden, labels = hidden[mask], batch.labels[mask]  # (tokens, D), (tokens,)
        if self.own_loss is not None:
            return self.own_loss(self.model.output(hidden).float(), labels)
        return fused_linear_cross_entropy(
            hidden,
            self.model.output,
            labels,
            label_smoothing=label_smoothing,
            # a pair counts as its two texts
            rdrop_alpha=self.recipe.augmentation.rdrop_alpha if batch.two_views else 0.0,
        )

    def evaluate(self, processes: ProcessGroup = SINGLE_PROCESS) -> DevResult:
        """The recipe's metric on the development pairs, and their mean loss per token.

        Targets are generated greedily, whatever search the recipe specifies for the test; the loss
        is without label smoothing. An output ends at the latest at twice the tokens of the longest
        dev target and 10 more, since a model of few steps would repeat itself to the last position.
        """

        def dev_loss(examples: NDArray[np.int64]) -> tuple[float, int]:
            batch = self._batch([self.dev_ids[0]], self.dev_ids[1], examples)
            return self._loss(batch, 0.0).item(), batch.n_targets

        index_batches = batches_by_length(self.dev_ids[0], EVAL_BATCH_TOKENS)
        losses = distributed_map(index_batches, dev_loss, processes, JSON_CODEC)
        total, n_targets = sum(loss for loss, _ in losses), sum(n for _, n in losses)
        longest = LONGER * int(self.dev_ids[1].lengths.max(initial=0)) + EXTRA
        outputs = generate_all(
            self.model,
            self.dev_ids[0],
            self.tokenizer.padding_id,
            GenerationRequest(
                greedy_config(self.recipe.decoding).capped_at(longest),
                end_id=self.target_tokenizer.eos_id,
                tokenizer=self.target_tokenizer,
            ),
            processes=processes,
        )
        texts = [best.text for best, *_ in outputs]
        scores = sequence_metrics(texts, list(self.dev.column("target")))
        return self.dev_result(
            total / max(n_targets, 1), scores, list(self.dev.column("target")), texts
        )

    def _batch(
        self, views: Sequence[Ragged], targets: Ragged, examples: NDArray[np.int64]
    ) -> Seq2SeqBatch:
        return self.encode.batch(views, targets, examples, self.device)
