"""Chat: the answer of a language model to messages, in the chat format of its checkpoint."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from jumok.decoding import TextStreamer
from jumok.errors import InputError
from jumok.tasks.pipeline.causal_generation import generate_from_ids
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.text.chat import (
    FORMATS,
    ChatFormat,
    Message,
    encode_chat,
    named_format,
    template_format,
)
from jumok.text.pretrained import PretrainedTokenizer


@dataclass(frozen=True)
class Chat:
    """A language model with the chat format it was trained with."""

    pipeline: Pipeline
    form: ChatFormat
    end_ids: tuple[int, ...]

    @classmethod
    def of(cls, pipeline: Pipeline, format_name: str | None = None) -> "Chat":
        """The chat of an imported model; the format is that of its template, or the named one.

        Raises InputError for models that are no language models, for unknown templates and for
        tokenizers without the pieces of the format.
        """
        tokenizer = pipeline.vocabulary
        if not pipeline.task.generates or pipeline.task.reads_source:
            raise InputError(f"a chat needs a language model, got task {pipeline.recipe.task}")
        if not isinstance(tokenizer, PretrainedTokenizer):
            raise InputError(
                "a chat needs an imported chat model with its tokenizer, got a model trained with "
                "jumok; predict continues texts"
            )
        if format_name is not None:
            form = named_format(format_name)
        elif (template := tokenizer.files.chat_template) is not None:
            form = template_format(template)
        else:
            raise InputError(
                "the model has no chat template; name the format it was trained with: --format "
                f"{', '.join(FORMATS)}"
            )
        return cls(pipeline, form, tuple(tokenizer.id(piece) for piece in form.ends))

    def answer(
        self, messages: Sequence[Message], on_text: Callable[[str], None] = lambda text: None
    ) -> str:
        """The answer to messages, which end with one of the user; each part goes to `on_text`.

        Raises InputError for a chat that is longer than the model reads.
        """
        tokenizer = self.pipeline.vocabulary
        assert isinstance(tokenizer, PretrainedTokenizer)
        ids = encode_chat(tokenizer, self.form, messages)
        n_new = self.pipeline.recipe.decoding.max_length
        limit = self.pipeline.recipe.model.max_length
        if len(ids) + n_new > limit:
            raise InputError(
                f"a chat must have at most {limit:,} tokens with its answer, got {len(ids):,} and "
                f"up to {n_new:,} new ones; start again, or use less decoding.max_length"
            )
        stop = self.pipeline.recipe.decoding.stop
        streamer = TextStreamer(tokenizer, lambda _, part: on_text(part), stop)
        streamer.set_prompt(0, ids)
        found = generate_from_ids(self.pipeline, [ids], streamer.push, end_ids=self.end_ids)
        streamer.finish()
        return found[0][0].text
