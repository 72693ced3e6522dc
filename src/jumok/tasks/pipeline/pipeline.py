"""A trained model as a function of text: what `jumok.load` gives."""

import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import overload

import torch
from torch import Tensor, nn

from jumok.decoding import DraftModel
from jumok.decoding.processors import Processor
from jumok.errors import InputError
from jumok.models import Decoder, Encoder, EncoderDecoder, LanguageModel
from jumok.processes import SINGLE_PROCESS, ProcessGroup
from jumok.tasks.inputs import bio
from jumok.tasks.pipeline import forward as from_ids
from jumok.tasks.pipeline.backends import DecoderBackends
from jumok.tasks.pipeline.origin import Origin, describe_processors, generation_processors
from jumok.tasks.pipeline.outputs import Output
from jumok.tasks.recipe.recipe import Recipe
from jumok.tasks.recipe.task_spec import GENERATIVE_TASKS
from jumok.tasks.registry import get_task
from jumok.text.limits import MAX_PRETRAINED_TEXT_BYTES, MAX_TEXT_BYTES, check_text_length
from jumok.text.pretrained import PretrainedTokenizer
from jumok.text.tokenizer import Tokenizer


class Pipeline:
    """A model in eval mode with its vocabulary and recipe; call it with a text, or several.

    `.model` is the plain module, `.vocabulary` the vocabulary (asking for one that is not there is
    an InputError), `.target_vocabulary` that of what is written, most often the same one,
    `.recipe` the resolved recipe. `.origin` tells where an imported model is from (None: trained
    here), `.constraints` what its folder forces upon or forbids everything it writes,
    `.processes` who shares the work on many texts with this one, as a rule nobody.
    """

    def __init__(
        self,
        model: nn.Module,
        vocabulary: Tokenizer | None,
        recipe: Recipe,
        labels: tuple[str, ...],
        device: torch.device,
        target_vocabulary: Tokenizer | None = None,
        origin: Origin | None = None,
        processes: ProcessGroup = SINGLE_PROCESS,
    ) -> None:
        self.model = model.to(device).eval().requires_grad_(False)
        self.task = get_task(recipe)
        self.recipe, self.labels, self.device = recipe, labels, device
        self._vocabulary, self._target_vocabulary = vocabulary, target_vocabulary
        self.origin, self.processes = origin, processes
        self.ensemble_models: tuple[nn.Module, ...] = ()  # that write along
        self.draft_model: DraftModel | None = None  # that guesses ahead
        self.weights_path: Path | None = None  # the file they were read from, where it is one
        self.backends = DecoderBackends(recipe.decoding)
        self.processors = _generation_processors(origin, recipe)

    @property
    def constraints_summary(self) -> str:
        """What its folder forces and forbids, as told behind the settings in force."""
        return describe_processors(
            self.processors, () if self.origin is None else self.origin.eos_ids
        )

    @property
    def architecture(self) -> str:
        """The name of the model's class: that in transformers, where it is imported."""
        return type(self.model).__name__ if self.origin is None else self.origin.architecture

    @property
    def has_text_head(self) -> bool:
        """Whether it has a head that answers texts; an imported one may have none, or another."""
        return self.origin is None or self.origin.has_text_head

    @property
    def has_logits(self) -> bool:
        """Whether it has a head at all; of towers alone there are hidden states."""
        if isinstance(self.model, EncoderDecoder):
            return self.has_text_head  # a projection is there all the same
        return not isinstance(self.model, Encoder | Decoder)

    @property
    def vocabulary_or_none(self) -> Tokenizer | None:
        """The vocabulary, None when the folder has none."""
        return self._vocabulary

    @property
    def vocabulary(self) -> Tokenizer:
        """The vocabulary the model reads with, and as a rule writes with."""
        if self._vocabulary is None:
            raise InputError(
                "the folder has no vocabulary, so no text can be read or written; put its "
                "vocabulary.model or its tokeniser's files there, or give ids to .logits(...)"
            )
        _check_tokenizer_size(self._vocabulary, self.recipe.model.vocabulary_size)
        return self._vocabulary

    @property
    def target_vocabulary(self) -> Tokenizer:
        """The vocabulary the model writes with."""
        if self.recipe.vocabulary.joint:
            return self.vocabulary
        if self._target_vocabulary is None:
            raise InputError(
                "the folder has no vocabulary of the target; put its vocabulary.target.model "
                "there, or give ids to .logits(...)"
            )
        _check_tokenizer_size(self._target_vocabulary, self.recipe.model.output_size)
        return self._target_vocabulary

    @overload
    def __call__(self, texts: str) -> Output: ...  # type: ignore[overload-overlap]  # a str is one
    @overload
    def __call__(self, texts: Sequence[str]) -> list[Output]: ...
    def __call__(self, texts: str | Sequence[str]) -> Output | list[Output]:
        """A Prediction, RegressionOutput, TokenClassification or GeneratedText for each text, in order."""
        if isinstance(texts, str):
            return self.predict([texts])[0]
        return self.predict(list(texts))

    def predict(self, texts: Sequence[str]) -> list[Output]:
        """One answer a text, in order; an empty text is answered too.

        Raises InputError for a text that is too long, before any is answered.
        """
        self.check_length(texts)
        self.check_supported()
        return list(self.task.predict(self, texts))

    def check_supported(self) -> None:
        """Raises InputError for an imported model whose numbers are no answers to texts."""
        if not self.has_text_head:
            raise InputError(
                f"a {self.architecture} has no head that answers texts; ask .hidden_states(...) or "
                ".logits(...), or train one with model.init"
            )
        origin = self.origin
        if self.recipe.task == "classification" and origin is not None and not origin.single_label:
            raise InputError(
                f"config.json: problem_type {str(origin.config['problem_type'])[:80]!r} came, and "
                "jumok answers with one label a text; ask .logits(...), or train a head with "
                "model.init"
            )
        if self.recipe.task == "tagging" and origin is not None:
            bio.check_bio(self.labels)

    def check_length(self, texts: Sequence[str]) -> None:
        """Raises InputError when a text is longer than its vocabulary cuts in little memory."""
        imported = isinstance(self._vocabulary, PretrainedTokenizer)
        for text in texts:
            check_text_length(text, MAX_PRETRAINED_TEXT_BYTES if imported else MAX_TEXT_BYTES)

    def with_decoding(self, overrides: Sequence[str]) -> "Pipeline":
        """The same model, writing as `key=value` words laid over the recipe's [decoding] say.

        Raises InputError for a key that is not known, when the model writes nothing, and for
        coverage where several write together.
        """
        return self._copy_with(self.recipe.with_decoding(overrides), self.ensemble_models)

    def refreshed(self) -> "Pipeline":
        """The same model once its weights were changed: what was made of the old ones is let go."""
        return self._copy_with(self.recipe, self.ensemble_models)

    def ensemble(self, others: Sequence["Pipeline"]) -> "Pipeline":
        """One that writes by the mean of the probabilities of this model and of the others.

        Raises InputError when they do not read and write with the same vocabularies, for models
        that do not write, or not all the same way, for others that hold less, and for coverage.
        """
        for each in (self, *others):
            if each.recipe.task not in GENERATIVE_TASKS or type(each.model) is not type(self.model):
                raise InputError(
                    f"a run of the task {each.recipe.task} cannot write along with one of "
                    f"{self.recipe.task}; give runs of {' or all of '.join(GENERATIVE_TASKS)}"
                )
            self._check_same_tokenizers(each)
            holds, longest = each.recipe.model.max_length, self.recipe.model.max_length
            if holds < longest and self.recipe.task != "language_modeling":
                raise InputError(
                    f"{each.recipe.name} holds {holds} tokens, {self.recipe.name} {longest}; name "
                    "the one that holds fewest first"
                )
        models = [model for each in others for model in (each.model, *each.ensemble_models)]
        return self._copy_with(self.recipe, [*self.ensemble_models, *models])

    def with_draft(self, small: "Pipeline") -> "Pipeline":
        """One that writes what this model writes, while a smaller one guesses ahead.

        Raises InputError for models that do not write, or not with the same vocabularies, for a
        draft that holds less, and where more than one answer is written to a text.
        """
        if type(small.model) is not type(self.model) or self.recipe.task not in GENERATIVE_TASKS:
            raise InputError(
                f"a run of the task {small.recipe.task} cannot guess for one of the task "
                f"{self.recipe.task}; give two runs of {' or two of '.join(GENERATIVE_TASKS)}"
            )
        self._check_same_tokenizers(small)
        decoding, longest = self.recipe.decoding, self.recipe.model.max_length
        if decoding.beam > 1 or decoding.n_best > 1:
            raise InputError(
                f"a draft guesses for one answer, and a beam of {decoding.beam} with n_best "
                f"{decoding.n_best} came; set decoding.beam=1 and n_best=1"
            )
        if small.recipe.model.max_length < longest and self.recipe.task != "language_modeling":
            raise InputError(
                f"the draft {small.recipe.name} holds {small.recipe.model.max_length} tokens, "
                f"{self.recipe.name} {longest}; give one that holds as many"
            )
        assert isinstance(small.model, EncoderDecoder | LanguageModel)
        drafted = self._copy_with(self.recipe, self.ensemble_models)
        drafted.draft_model = DraftModel(small.model)
        return drafted

    def with_models(self, change: Callable[[nn.Module], nn.Module]) -> "Pipeline":
        """One that answers with what `change` makes of its model, and of those that write along."""
        other = self._copy_with(self.recipe, [change(model) for model in self.ensemble_models])
        other.model = change(self.model)
        return other

    def _check_same_tokenizers(self, other: "Pipeline") -> None:
        """Raises InputError when another run does not read and write with the same ones."""
        if other.vocabulary.fingerprint != self.vocabulary.fingerprint or (
            other.target_vocabulary.fingerprint != self.target_vocabulary.fingerprint
        ):
            raise InputError(
                f"the runs {self.recipe.name} and {other.recipe.name} have other vocabularies; "
                "train one with vocabulary.file naming the other's"
            )

    def _copy_with(self, recipe: Recipe, others: Sequence[nn.Module]) -> "Pipeline":
        """The same model by another recipe of its task; its fast copies are to be made anew.

        Raises InputError for several models and coverage, which looks at the attention of one.
        """
        if others and recipe.decoding.coverage:
            raise InputError(
                f"decoding.coverage {recipe.decoding.coverage} came, and {1 + len(others)} runs "
                "that write together do not tell what they attend to; set decoding.coverage=0, or "
                "name one run"
            )
        other = copy.copy(self)
        other.recipe, other.ensemble_models = recipe, tuple(others)
        other.backends = DecoderBackends(recipe.decoding)
        other.processors = _generation_processors(self.origin, recipe)
        return other

    def logits(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
    ) -> Tensor:
        """float32 logits: (B, L) of texts, (B, T, L) of tokens, (B, T, V) of language models.

        input_ids (B, S) int64; attention_mask (B, S), 1 = real token, padding left or right;
        decoder_input_ids (B, T) for sequence-to-sequence models, which demand it. The decoder of a
        classifier is given [BOS] unless they say otherwise. Raises InputError for a model without
        a head.
        """
        return from_ids.logits(self, input_ids, attention_mask, token_type_ids, decoder_input_ids)

    def hidden_states(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
    ) -> Tensor:
        """float32 (B, T, D) of the last layer: the decoder's where there is one."""
        return from_ids.hidden_states(
            self, input_ids, attention_mask, token_type_ids, decoder_input_ids
        )


def _generation_processors(origin: Origin | None, recipe: Recipe) -> list[Processor]:
    """What the folder of an imported model forces upon or forbids all that a recipe writes."""
    if origin is None:
        return []
    most = min(recipe.decoding.max_length, recipe.model.max_length)
    return generation_processors(origin, most, recipe.model.output_size)


def _check_tokenizer_size(vocabulary: Tokenizer, size: int) -> None:
    """Raises InputError for a tokeniser that gives ids its model knows nothing of."""
    if len(vocabulary) > size:
        raise InputError(
            f"the tokeniser has {len(vocabulary):,} pieces, the model knows {size:,}; put the one "
            "it was trained with into the folder, or give ids to .logits(...)"
        )
