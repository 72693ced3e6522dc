"""A task and a trained model as a function of text: what `jumok.load` returns."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Self, cast, overload

import torch
from torch import Tensor, nn

from jumok.errors import InputError
from jumok.models import (
    CharacterClassifier,
    Decoder,
    Encoder,
    EncoderDecoder,
    EncoderDecoderClassifier,
    SentenceEncoder,
)
from jumok.models.character_classifier import NEEDS_CHARACTERS
from jumok.models.config import SentencePooling
from jumok.processes import SINGLE_PROCESS, ProcessGroup
from jumok.tasks.own_model import forward_own
from jumok.tasks.pipeline.model_inputs import ModelInputs, model_inputs
from jumok.tasks.pipeline.origin import Origin
from jumok.tasks.pipeline.outputs import OutputT
from jumok.tasks.pipeline.text_inputs import (
    Pair,
    as_lines,
    as_list,
    check_pooling,
    check_texts,
    chosen_normalization,
)
from jumok.tasks.recipe.recipe import Recipe
from jumok.tasks.registry import TRANSFORMER, tasks_with
from jumok.text.limits import MAX_TEXT_BYTES
from jumok.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from jumok.native.kernel_choice import KernelChoice
    from jumok.pretrained.sentence_encoding import SentenceEncoding
    from jumok.tasks.pipeline.text_vectors import Vectors
    from jumok.tasks.task import Task


class Pipeline(Generic[OutputT]):
    """A model in eval mode with its tokenizer and recipe; call it with a text, or several.

    `.model` is the nn.Module, `.vocabulary` the tokenizer (InputError when the folder has none),
    `.target_vocabulary` the tokenizer of generated text, usually the same one, `.recipe` the
    resolved recipe. `.origin` describes an imported model (None: trained with jumok), `.processes`
    is the group that shares large evaluations, by default one process. `.kernel` is what computes
    predictions; `in_training`, while the weights change, it is PyTorch. A model that generates text
    is a `GenerationPipeline`.

    Raises InputError for texts that are no strings or too long, and where the model has no head.

    >>> import jumok
    >>> model = jumok.load("note", device="cpu")
    >>> model
    <Pipeline: sequence_to_sequence, encoder_decoder, 52,992 parameters>
    >>> model("겨울은 추워요.").output
    'Winter is cold.'
    >>> [answer.output for answer in model(["겨울은 추워요.", "감기 조심하세요."])]
    ['Winter is cold.', 'Watch out for colds.']
    """

    def __init__(
        self,
        task: "Task",
        model: nn.Module,
        vocabulary: Tokenizer | None,
        recipe: Recipe,
        labels: tuple[str, ...],
        device: torch.device,
        target_vocabulary: Tokenizer | None = None,
        origin: Origin | None = None,
        processes: ProcessGroup = SINGLE_PROCESS,
        *,
        in_training: bool = False,
    ) -> None:
        self.task = task
        self.model = model.to(device).eval().requires_grad_(False)
        self.recipe, self.labels, self.device = recipe, labels, device
        self._vocabulary, self._target_vocabulary = vocabulary, target_vocabulary
        self.origin, self.processes = origin, processes
        self.in_training = in_training
        self.sentence_encoding: SentenceEncoding | None = None  # of sentence-transformers
        self.weights_path: Path | None = None  # the single file that holds the weights, if any

    def __repr__(self) -> str:
        from jumok.models.weights import named_weights

        parameters = sum(weight.numel() for weight in named_weights(self.model).values())
        kind = self.recipe.model.kind
        return f"<Pipeline: {self.recipe.task}, {kind}, {parameters:,} parameters>"

    @property
    def kernel(self) -> "KernelChoice":
        """What computes predictions, and why: chosen by model, processor and precision."""
        from jumok.tasks.pipeline.encoder_choice import encoder_choice

        return encoder_choice(self.model)

    @property
    def architecture(self) -> str:
        """The name of the model class; for an imported model that of transformers."""
        return type(self.model).__name__ if self.origin is None else self.origin.architecture

    @property
    def is_own(self) -> bool:
        """Whether the model is one of one's own (`model.architecture`)."""
        return self.recipe.model.architecture != TRANSFORMER

    @property
    def has_text_head(self) -> bool:
        """Whether the model has a head for text inputs; an imported one may have none."""
        return self.origin is None or self.origin.has_text_head

    @property
    def has_logits(self) -> bool:
        """Whether ids alone have logits: the model has a head, and one that reads no characters."""
        if isinstance(self.model, EncoderDecoder):
            return self.has_text_head  # its output projection exists even without a head
        no_head = Encoder | Decoder | SentenceEncoder
        return not isinstance(self.model, no_head | CharacterClassifier)

    @property
    def vocabulary_or_none(self) -> Tokenizer | None:
        """The tokenizer, None when the folder has none."""
        return self._vocabulary

    @property
    def vocabulary(self) -> Tokenizer:
        """The tokenizer of the inputs, and usually of the outputs too."""
        if self._vocabulary is None:
            raise InputError(
                "pipeline.no_tokenizer",
                "text needs a tokenizer, and the folder has none; put its vocabulary.model or "
                "its tokenizer files there, or pass ids to .logits(...)",
            )
        _check_tokenizer_size(self._vocabulary, self.recipe.model.vocabulary_size)
        return self._vocabulary

    @property
    def target_vocabulary(self) -> Tokenizer:
        """The tokenizer of generated text."""
        if self.recipe.vocabulary.joint:
            return self.vocabulary
        if self._target_vocabulary is None:
            raise InputError(
                "pipeline.no_target_tokenizer",
                "generated text needs a tokenizer, and the folder has none for the targets; put "
                "its vocabulary.target.model there, or pass ids to .logits(...)",
            )
        _check_tokenizer_size(self._target_vocabulary, self.recipe.model.output_size)
        return self._target_vocabulary

    @overload
    def __call__(self, texts: str) -> OutputT: ...  # type: ignore[overload-overlap]  # a str is one
    @overload
    def __call__(self, texts: Sequence[str | Pair]) -> list[OutputT]: ...
    def __call__(self, texts: str | Sequence[str | Pair]) -> OutputT | list[OutputT]:
        """One output per text: the dataclass of the task in `jumok.tasks.pipeline.outputs`."""
        if isinstance(texts, str):
            return self.predict([texts])[0]
        return self.predict(as_list(texts))

    def predict(self, texts: Sequence[str | Pair]) -> list[OutputT]:
        """One output per text, in order, also for an empty text.

        A model of pairs reads a tuple of two texts, or a line with a TAB between them. Raises
        InputError for what is not a text, or too long, before any prediction.
        """
        texts = self.lines_of(texts)
        self.check_texts(texts)
        self.check_supported()
        from jumok.tasks.pipeline.output_warnings import with_warnings

        return with_warnings(self, self._predict(texts))

    def _predict(self, texts: Sequence[str]) -> list[OutputT]:
        """The outputs of the task, without warnings."""
        return cast(list[OutputT], list(self.task.predict(self, texts)))

    def encode(
        self,
        texts: str | Sequence[str],
        *,
        pooling: SentencePooling | None = None,
        normalize: bool | None = None,
        prompt_name: str | None = None,
        normalize_embeddings: bool | None = None,
    ) -> "Vectors":
        """One vector per text, (n, D) float32, or (D,) for a single text; for encoders.

        A folder of sentence-transformers has its own pooling, dense layers and prompts. Otherwise
        the last layer is averaged over the tokens of a text, special tokens included, and divided
        by its length, so that the dot product of two vectors is their cosine. `pooling` and
        `normalize` override both; `normalize_embeddings` is its name in sentence-transformers. A
        text that is too long is truncated. Raises InputError for a model that is not an encoder,
        and for an unknown pooling or prompt.
        """
        from jumok.tasks.pipeline.text_vectors import text_vectors

        if self.is_own:
            raise own_model_error(self)
        own = self.sentence_encoding or self.default_encoding
        normalize = chosen_normalization(normalize, normalize_embeddings)
        if normalize is None:
            normalize = self.sentence_encoding is None
        if pooling is not None:
            own = replace(own, pooling=check_pooling(pooling), steps=())
        listed, prompt = as_list(texts), own.prompt(prompt_name or "")
        self.check_texts(listed)
        vectors = text_vectors(
            self.model,
            [prompt + text for text in listed],
            self.vocabulary,
            self.recipe.model.max_length,
            self.device,
            encoding=own,
            normalize=normalize,
        )
        if not listed:
            return vectors.reshape(0, own.width(self.recipe.model.d_model))
        return vectors[0] if isinstance(texts, str) else vectors

    def encode_ids(
        self, rows: Sequence[Sequence[int]], *, normalize: bool | None = None
    ) -> "Vectors":
        """`encode` of texts whose token ids are given, (n, D) float32.

        The ids are those of this model's tokenizer, with or without its special tokens; a prompt
        of the model's files is put in front. Raises InputError for ids that the tokenizer lacks.
        """
        from jumok.tasks.pipeline.text_vectors import text_vectors

        if self.is_own:
            raise own_model_error(self)
        own = self.sentence_encoding or self.default_encoding
        prompt = self.vocabulary.encode(own.prompt("")) if own.prompt("") else []
        return text_vectors(
            self.model,
            [[*prompt, *row] for row in rows] if prompt else rows,
            self.vocabulary,
            self.recipe.model.max_length,
            self.device,
            encoding=own,
            normalize=self.sentence_encoding is None if normalize is None else normalize,
        )

    @property
    def default_encoding(self) -> "SentenceEncoding":
        """How a model without the files of sentence-transformers pools its texts."""
        from jumok.pretrained.sentence_encoding import SentenceEncoding

        if isinstance(self.model, SentenceEncoder):
            return SentenceEncoding(pooling=self.model.pooling)
        return SentenceEncoding()

    @property
    def is_trained_for_vectors(self) -> bool:
        """Whether its vectors were trained: a similarity run, or one of sentence-transformers."""
        return self.sentence_encoding is not None or isinstance(self.model, SentenceEncoder)

    @property
    def optional_pairs(self) -> bool:
        """Whether a row may be a text or a pair: of an imported classifier with a pair template.

        The files of such a model do not contain whether it was trained on pairs.
        """
        if self.origin is None or self.recipe.reads_pairs or self._vocabulary is None:
            return False
        has_pairs = self.task.joins_pairs and "pair" in self.task.columns
        return has_pairs and bool(self.vocabulary.input_template.pair)

    @property
    def paired_columns(self) -> tuple[str, ...]:
        """The columns of pairs to evaluate, where they are optional; else ()."""
        return self.task.columns if self.optional_pairs else ()

    def is_pair(self, line: str) -> bool:
        """Whether the model reads a line as a pair of texts with a TAB between them.

        A recipe with pairs has nothing else; where they are optional, a line with exactly one TAB
        is a pair.
        """
        return self.recipe.reads_pairs or (line.count("\t") == 1 and self.optional_pairs)

    def lines_of(self, texts: Sequence[str | Pair]) -> list[str]:
        """The texts as lines, with a TAB between the texts of a pair.

        Raises InputError for a pair where the model reads none, and for one with a TAB in a text.
        """
        return as_lines(texts, paired=self.recipe.paired or self.optional_pairs)

    def check_supported(self) -> None:
        """Raise InputError for an imported model whose logits are not outputs for texts."""
        if not self.has_text_head:
            raise InputError(
                "pipeline.no_text_head",
                "predictions need a model with a head for texts, got {architecture}; use "
                ".hidden_states(...) or .logits(...), or train a head with model.init",
                architecture=self.architecture,
            )
        if self.origin is not None:
            self.task.check_imported(self.origin, self.labels)

    def check_texts(self, texts: Sequence[str]) -> None:
        """Raise InputError for what is not a text, or longer than its tokenizer handles."""
        check_texts(
            texts, MAX_TEXT_BYTES if self._vocabulary is None else self._vocabulary.max_text_bytes
        )

    def with_decoding(self, overrides: Sequence[str]) -> "Pipeline":
        """A pipeline of this model with `key=value` overrides of the recipe's [decoding] table.

        Raises InputError for an unknown key, for a task that generates no text, and for coverage
        in an ensemble.
        """
        return self._copy_with(self.recipe.with_decoding(overrides))

    def refreshed(self) -> "Pipeline":
        """A copy with cached backends cleared, for use after the weights changed."""
        return copy.copy(self)

    def ensemble(self, others: Sequence["Pipeline"]) -> "Pipeline":
        """A pipeline that generates by the mean probabilities of this model and of the others.

        Raises InputError for different tokenizers, for models that generate no text or are of
        different classes, for others with a smaller max_length, and for coverage.
        """
        raise combination_error(self, self)

    def with_draft(self, draft: "Pipeline") -> "Pipeline":
        """A pipeline with the same outputs by speculative decoding with a smaller draft model.

        Raises InputError for models that generate no text or have different tokenizers, for a
        draft with a smaller max_length, and where more than one output is generated per text.
        """
        raise combination_error(self, draft)

    def with_models(self, change: Callable[[nn.Module], nn.Module]) -> "Pipeline":
        """A pipeline with `change` applied to its model and to the models of its ensemble."""
        other = self._copy_with(self.recipe)
        other.model = change(self.model)
        return other

    def _copy_with(self, recipe: Recipe) -> Self:
        """A copy with another recipe of its task."""
        other = copy.copy(self)
        other.recipe = recipe
        return other

    @torch.inference_mode()
    def logits(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
    ) -> Tensor:
        """float32 logits: (B, L) of texts, (B, T, L) of tokens, (B, T, V) of language models.

        input_ids (B, S) int64; attention_mask (B, S), 1 = real token, padding left or right;
        decoder_input_ids (B, T), required by sequence-to-sequence models; the decoder of a
        classifier defaults to [BOS]. Raises InputError for a model without a head, and for one that
        tags characters.
        """
        inputs = self._inputs(input_ids, attention_mask, token_type_ids, decoder_input_ids)
        if isinstance(self.model, CharacterClassifier):
            raise InputError("model.needs_characters", NEEDS_CHARACTERS)
        if not self.has_logits:
            raise InputError(
                "pipeline.no_head",
                "a {architecture} has no head and so no logits; use .hidden_states(...)",
                architecture=self.architecture,
            )
        if self.is_own:
            return forward_own(self.model, inputs.ids[0], inputs.mask).float()
        return inputs.apply(self.model)

    @torch.inference_mode()
    def hidden_states(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
    ) -> Tensor:
        """float32 (B, T, D) of the last layer: the decoder's where there is one."""
        if self.is_own:
            raise own_model_error(self)
        inputs = self._inputs(input_ids, attention_mask, token_type_ids, decoder_input_ids)
        return inputs.apply(self.model.hidden_states)  # type: ignore[arg-type]  # all have it

    def _inputs(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None,
        token_type_ids: Tensor | None,
        decoder_input_ids: Tensor | None,
    ) -> ModelInputs:
        starts = isinstance(self.model, EncoderDecoderClassifier) and decoder_input_ids is None
        return model_inputs(
            self.model,
            self.recipe.model,
            self.device,
            input_ids,
            attention_mask,
            token_type_ids,
            decoder_input_ids,
            start_id=self.vocabulary.decoder_start_id if starts else None,
        )


def _check_tokenizer_size(tokenizer: Tokenizer, size: int) -> None:
    """Raise InputError for a tokenizer with ids beyond the model's embedding."""
    if len(tokenizer) > size:
        raise InputError(
            "pipeline.too_many_pieces",
            "the tokenizer must have at most {size:,} pieces, as many as the model, got "
            "{n_tokenizer:,}; put the model's own tokenizer into the folder, or pass ids to "
            ".logits(...)",
            size=size,
            n_tokenizer=len(tokenizer),
        )


def combination_error(first: Pipeline, other: Pipeline) -> InputError:
    """The error for models that are no ensemble, or no model and its draft."""
    return InputError(
        "pipeline.not_combinable",
        "models that generate together must be of one class and of a task that generates text "
        "({generative}), got {kind} for {task} and {kind_2} for {task_2}",
        generative=", ".join(tasks_with(lambda task: task.generates)),
        kind=type(first.model).__name__,
        task=first.recipe.task,
        kind_2=type(other.model).__name__,
        task_2=other.recipe.task,
    )


def own_model_error(pipeline: Pipeline) -> InputError:
    """The error for what reads the layers of a Transformer."""
    return InputError(
        "pipeline.own_model",
        "hidden states and vectors need a Transformer of jumok, got the model {name} of one's own; "
        "call .model, a module of PyTorch",
        name=pipeline.recipe.model.architecture,
    )
