"""The pipeline of a model that generates text: its decoding, ensemble and draft model."""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

from torch import nn

from jumok.decoding.processors import Processor
from jumok.decoding.speculative import DraftModel
from jumok.errors import InputError
from jumok.models import EncoderDecoder, LanguageModel
from jumok.native.kernel_choice import KernelChoice
from jumok.tasks.pipeline.backends import DecoderBackends
from jumok.tasks.pipeline.generation_rules import describe_processors, generation_processors
from jumok.tasks.pipeline.output_warnings import unread_tokens, with_warnings
from jumok.tasks.pipeline.outputs import GeneratedText
from jumok.tasks.pipeline.pipeline import Pipeline, combination_error
from jumok.tasks.pipeline.segments import Split, predict_parts, splitter, stream_parts
from jumok.tasks.pipeline.text_inputs import Pair
from jumok.tasks.recipe.recipe import Recipe

TRANSLATORS = ("Marian", "MBart", "M2M100", "NllbMoe")  # the start of their names in transformers


class GenerationPipeline(Pipeline[GeneratedText]):
    """A pipeline whose outputs are generated as `recipe.decoding` specifies.

    `.processors` are the logits processors of the generation_config.json of an imported model,
    `.backends` the copies of the model that decode.

    >>> import jumok
    >>> model = jumok.load("note", device="cpu")
    >>> model.with_decoding(["beam=4"])("감기 조심하세요.").output
    'Watch out for colds.'
    """

    def __init__(self, *parts: Any, **named: Any) -> None:
        super().__init__(*parts, **named)
        self.ensemble_models: tuple[nn.Module, ...] = ()
        self.draft_model: DraftModel | None = None
        self.keeps_alignment = False
        self.backends = DecoderBackends(self.recipe.decoding, in_training=self.in_training)
        self.processors = self._generation_processors()

    def with_drawn_seed(self) -> Self:
        """The same pipeline, or a copy with a random seed where it samples without one."""
        decoding = self.recipe.decoding.seeded()
        if decoding is self.recipe.decoding:
            return self
        other = copy.copy(self)
        other.recipe = replace(self.recipe, decoding=decoding)
        return other

    def predict(
        self, texts: Sequence[str | Pair], *, sentences: bool = False
    ) -> list[GeneratedText]:
        """One output per text, in order; see `Pipeline.predict`.

        Without `decoding.seed` each call draws another sample, whose seed is in the output. A model
        that is known to translate reads a text line by line, and the sentences of a line that is
        too long one by one; with `sentences` all of them.
        """
        texts = self.lines_of(texts)
        self.check_texts(texts)
        self.check_supported()
        seeded = self.with_drawn_seed()
        found = seeded._splitter(texts, sentences=sentences)
        if found is None:
            outputs = with_warnings(seeded, seeded._predict(texts))
            return [seeded._with_seed(output) for output in outputs]
        split, unread = found

        def predict(parts: list[str]) -> list[GeneratedText]:
            return with_warnings(seeded, seeded._predict(parts), unread)

        joined = predict_parts(texts, split, predict, self.recipe.decoding.n_best)
        return [seeded._with_seed(output) for output in joined]

    def stream(self, text: str, on_text: Callable[[str], None]) -> GeneratedText:
        """Generate for one text; pass each part to `on_text` as soon as it is final."""
        from jumok.tasks.task import GenerativeTask  # it makes these pipelines

        assert isinstance(self.task, GenerativeTask)
        self.check_texts([text])
        self.check_supported()
        seeded = self.with_drawn_seed()
        found = seeded._splitter([text], sentences=False)
        if found is None:
            output = self.task.stream(seeded, text, on_text)
            return seeded._with_seed(with_warnings(seeded, [output])[0])
        split, unread = found
        task = self.task

        def stream(part: str) -> GeneratedText:
            return with_warnings(seeded, [task.stream(seeded, part, on_text)], unread)[0]

        n_best = self.recipe.decoding.n_best
        return seeded._with_seed(stream_parts(text, split, stream, on_text, n_best))

    def continue_ids(
        self,
        ids: list[int],
        on_text: Callable[[str], None] = lambda part: None,
        *,
        text: str = "",
        end_ids: tuple[int, ...] = (),
    ) -> GeneratedText:
        """The continuation of a prompt of token ids by a language model, which reads them as given.

        Each part goes to `on_text` as soon as it is final. `text` is what the ids spell, for the
        warnings; `end_ids` end a text besides the tokens of the model's files.
        """
        from jumok.tasks.pipeline.causal_generation import continue_prompt

        self.check_supported()
        seeded = self.with_drawn_seed()
        output = continue_prompt(seeded, ids, on_text, text=text, end_ids=end_ids)
        if text:
            output = with_warnings(seeded, [output])[0]
        return seeded._with_seed(output)

    def _splitter(
        self, texts: Sequence[str], *, sentences: bool
    ) -> tuple[Split, Mapping[str, int]] | None:
        """How each of these texts is split, None where they are read as a whole.

        With the number of unread tokens of the lines that had to be counted. An alignment is that
        of the whole text.
        """
        if not self.task.reads_source or self.keeps_alignment:
            return None
        unread: dict[str, int] = {}

        def count_unread(lines: list[str]) -> list[int]:
            counts = unread_tokens(self, [[line] for line in lines])
            unread.update(zip(lines, counts, strict=True))
            return counts

        split = splitter(
            texts, translates=translates(self), sentences=sentences, n_unread=count_unread
        )
        return split, unread

    def _with_seed(self, output: GeneratedText) -> GeneratedText:
        """The output with the seed that it was sampled with."""
        decoding = self.recipe.decoding
        if not decoding.sample:
            return output
        return replace(output, seed=decoding.fixed_seed)

    @property
    def kernel(self) -> KernelChoice:
        """What computes predictions, and why: chosen by model, processor and precision."""
        return self.backends.choice(self.model)

    @property
    def decoding_summary(self) -> str:
        """The decoding settings, limited to what the model supports, and the rules of its files."""
        from jumok.tasks.task import GenerativeTask  # it makes these pipelines

        assert isinstance(self.task, GenerativeTask)
        return f"{self.task.effective_decoding(self)}{self.constraints_summary}"

    @property
    def constraints_summary(self) -> str:
        """The rules of generation_config.json, appended to the printed decoding settings."""
        return describe_processors(self.processors, self.more_end_ids)

    @property
    def more_end_ids(self) -> tuple[int, ...]:
        """The tokens of generation_config.json that end a text, besides the tokenizer's EOS."""
        if self.origin is None or not self.origin.eos_ids:
            return ()
        tokenizer = self.target_vocabulary
        ids = dict.fromkeys(self.origin.eos_ids)
        return tuple(each for each in ids if each != tokenizer.eos_id and each < len(tokenizer))

    def refreshed(self) -> Self:
        """A copy with cached backends cleared, for use after the weights changed."""
        other = copy.copy(self)
        other.backends = DecoderBackends(self.recipe.decoding, in_training=self.in_training)
        return other

    def ensemble(self, others: Sequence[Pipeline]) -> Pipeline:
        """A pipeline that generates by the mean probabilities of this model and of the others.

        Raises InputError for different tokenizers, for models that generate no text or are of
        different classes, for others with a smaller max_length, and for coverage.
        """
        models = list(self.ensemble_models)
        for each in others:
            if not isinstance(each, GenerationPipeline) or type(each.model) is not type(self.model):
                raise combination_error(self, each)
            self._check_partner(each)
            models += [each.model, *each.ensemble_models]
        _check_coverage(self.recipe, models)
        other = self._copy_with(self.recipe)
        other.ensemble_models = tuple(models)
        return other

    def with_draft(self, draft: Pipeline) -> Pipeline:
        """A pipeline with the same outputs by speculative decoding with a smaller draft model.

        Raises InputError for models that generate no text or have different tokenizers, for a
        draft with a smaller max_length, and where more than one output is generated per text.
        """
        recipe = self.recipe
        if type(draft.model) is not type(self.model):
            raise combination_error(self, draft)
        self._check_partner(draft)
        if recipe.decoding.beam > 1 or recipe.decoding.n_best > 1:
            raise InputError(
                "pipeline.speculative_needs_beam_1",
                "speculative decoding needs decoding.beam=1 and n_best=1, got {beam} and {n_best}",
                beam=recipe.decoding.beam,
                n_best=recipe.decoding.n_best,
            )
        assert isinstance(draft.model, EncoderDecoder | LanguageModel)
        drafted = self._copy_with(recipe)
        drafted.draft_model = DraftModel(draft.model)
        return drafted

    def with_models(self, change: Callable[[nn.Module], nn.Module]) -> Pipeline:
        """A pipeline with `change` applied to its model and to the models of its ensemble."""
        other = self._copy_with(self.recipe)
        other.ensemble_models = tuple(change(model) for model in self.ensemble_models)
        other.model = change(self.model)
        return other

    def _check_partner(self, other: Pipeline) -> None:
        """Raise InputError when another run has different tokenizers, or reads shorter texts."""
        if other.vocabulary.fingerprint != self.vocabulary.fingerprint or (
            other.target_vocabulary.fingerprint != self.target_vocabulary.fingerprint
        ):
            raise InputError(
                "pipeline.different_vocabularies",
                "the runs {recipe} and {recipe_2} must have the same vocabulary; train one with "
                "vocabulary.file naming the other's",
                recipe=self.recipe.name,
                recipe_2=other.recipe.name,
            )
        limit, required = other.recipe.model.max_length, self.recipe.model.max_length
        if limit < required and self.task.reads_source:
            raise InputError(
                "pipeline.shorter_partner",
                "the first run must have the smallest model.max_length, got {recipe} with "
                "{required} and {recipe_2} with {limit}",
                recipe=self.recipe.name,
                required=required,
                recipe_2=other.recipe.name,
                limit=limit,
            )

    def with_alignment(self) -> Self:
        """A copy whose C++ kernel keeps the cross-attention of each token while it decodes."""
        other = copy.copy(self)
        other.keeps_alignment = True
        return other

    def _copy_with(self, recipe: Recipe) -> Self:
        """A copy with another recipe of its task; it shares the converted models."""
        _check_coverage(recipe, self.ensemble_models)
        other = super()._copy_with(recipe)
        other.backends = self.backends.with_config(recipe.decoding)
        other.processors = other._generation_processors()
        return other

    def _generation_processors(self) -> list[Processor]:
        """The logits processors of an imported model's generation_config.json."""
        if self.origin is None:
            return []
        decoding, model = self.recipe.decoding, self.recipe.model
        max_tokens = min(decoding.max_length, model.max_length)
        return generation_processors(self.origin, max_tokens, model.output_size)


def as_generation(pipeline: Pipeline) -> GenerationPipeline:
    """The pipeline of a task that generates text, as its class."""
    assert isinstance(pipeline, GenerationPipeline)  # as the task has made it
    return pipeline


def translates(pipeline: Pipeline) -> bool:
    """Whether a model is known to translate single sentences.

    It was trained on a known corpus of sequence_to_sequence or with `data.target_language`, or is
    an imported translator. A model for documents, a summarizer, reads all lines together.
    """
    if not pipeline.task.reads_source:
        return False
    if pipeline.origin is not None:
        return pipeline.origin.architecture.startswith(TRANSLATORS)
    return bool(pipeline.recipe.data.corpus or pipeline.recipe.data.target_language)


def _check_coverage(recipe: Recipe, ensemble: Sequence[nn.Module]) -> None:
    """Raise InputError for coverage in an ensemble: coverage reads the attention of one model."""
    if ensemble and recipe.decoding.coverage:
        raise InputError(
            "pipeline.coverage_in_ensemble",
            "decoding.coverage must be 0 in an ensemble of {n_ensemble} runs, got {coverage}: "
            "attention weights are those of one model",
            n_ensemble=1 + len(ensemble),
            coverage=recipe.decoding.coverage,
        )
