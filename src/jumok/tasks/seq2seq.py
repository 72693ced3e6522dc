"""Sequence to sequence: a target is generated for a source. Number normalization, translation."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from torch import nn

from jumok.data.table import Table
from jumok.decoding import DecodingConfig, OnToken, StepCallback, TextStreamer
from jumok.evaluation import bleu_tokenizations, sequence_metrics
from jumok.evaluation.examples import Example
from jumok.models import EncoderDecoder
from jumok.tasks.inputs.seq2seq_encoder import Seq2SeqEncoder
from jumok.tasks.pipeline.generation import (
    Generated,
    effective_config,
    generate_all,
    generation_request,
    to_generated_text,
)
from jumok.tasks.pipeline.outputs import EvaluationResult, GeneratedText
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.tasks.recipe.tables import ModelConfig
from jumok.unicode_forms import normalize

MAX_EXAMPLES = 30  # in a report


class Seq2SeqTask:
    """A target for each source."""

    def build_model(self, config: ModelConfig, labels: Sequence[str]) -> nn.Module:
        """The Transformer of figure 1."""
        return EncoderDecoder(config)

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
                "decoding": f"{self.effective_decoding(pipeline)}{pipeline.constraints_summary}",
            },
            examples=[*wrong[: MAX_EXAMPLES // 2], *right[: MAX_EXAMPLES // 2]],
        )

    def effective_decoding(self, pipeline: Pipeline) -> DecodingConfig:
        """The decoding settings, limited to the model's positions."""
        assert isinstance(pipeline.model, EncoderDecoder)
        return effective_config(pipeline.recipe.decoding, pipeline.model)

    def predict(self, pipeline: Pipeline, texts: Sequence[str]) -> list[GeneratedText]:
        """The generated target of each text."""
        outputs = self.generate(pipeline, texts)
        return [
            to_generated_text(pipeline, text, candidates)
            for text, candidates in zip(texts, outputs, strict=True)
        ]

    def stream(
        self, pipeline: Pipeline, text: str, on_text: Callable[[str], None]
    ) -> GeneratedText:
        """Generate for one text; pass each part to `on_text` as soon as it is final."""
        stop = pipeline.recipe.decoding.stop
        streamer = TextStreamer(pipeline.target_vocabulary, lambda _, part: on_text(part), stop)
        (candidates,) = self.generate(pipeline, [text], streamer.push)
        streamer.finish()
        return to_generated_text(pipeline, text, candidates)

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
            backends=pipeline.backends,
            processes=pipeline.processes,
            keep_alignment=pipeline.keeps_alignment,
        )
