"""Chat: the answer of a language model to messages, in the chat template of its checkpoint."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from jumok.decoding import TextStreamer
from jumok.errors import InputError
from jumok.tasks.pipeline.causal_generation import generate_from_ids
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.text.chat import ChatTemplate, Message, encode_chat
from jumok.text.pretrained import PretrainedTokenizer


@dataclass(frozen=True)
class Chat:
    """A language model with the chat template it was trained with."""

    pipeline: Pipeline
    template: ChatTemplate
    end_ids: tuple[int, ...]

    @classmethod
    def of(cls, pipeline: Pipeline, template: str | None = None) -> "Chat":
        """The chat of an imported model by its own template, or by the one that is given.

        Raises InputError for models that are no language models, and for a template that is
        missing or invalid.
        """
        tokenizer = pipeline.vocabulary
        if not pipeline.task.generates or pipeline.task.reads_source:
            raise InputError(
                "pipeline.chat_needs_language_model",
                "a chat needs a language model, got task {task}",
                task=pipeline.recipe.task,
            )
        if not isinstance(tokenizer, PretrainedTokenizer):
            raise InputError(
                "pipeline.chat_needs_imported_model",
                "a chat needs an imported chat model with its tokenizer, got a model trained "
                "with jumok; predict continues texts",
            )
        source = tokenizer.files.chat_template if template is None else template
        if source is None:
            raise InputError(
                "pipeline.no_chat_template",
                "the model has no chat template; give the one it was trained with: --template FILE",
            )
        chat_template = ChatTemplate(source, tokenizer.special_tokens)
        end = chat_template.end_piece(tokenizer)
        return cls(pipeline, chat_template, () if end is None else (tokenizer.id(end),))

    def answer(
        self, messages: Sequence[Message], on_text: Callable[[str], None] = lambda text: None
    ) -> str:
        """The answer to messages, which end with one of the user; each part goes to `on_text`.

        Raises InputError for a chat that is longer than the model reads.
        """
        tokenizer = self.pipeline.vocabulary
        assert isinstance(tokenizer, PretrainedTokenizer)
        ids = encode_chat(tokenizer, self.template, messages)
        n_new = self.pipeline.recipe.decoding.max_length
        limit = self.pipeline.recipe.model.max_length
        if len(ids) + n_new > limit:
            raise InputError(
                "pipeline.chat_too_long",
                "a chat must have at most {limit:,} tokens with its answer, got {n_ids:,} and up "
                "to {n_new:,} new ones; start again, or use less decoding.max_length",
                limit=limit,
                n_ids=len(ids),
                n_new=n_new,
            )
        stop = self.pipeline.recipe.decoding.stop
        streamer = TextStreamer(tokenizer, lambda _, part: on_text(part), stop)
        streamer.set_prompt(0, ids)
        found = generate_from_ids(self.pipeline, [ids], streamer.push, end_ids=self.end_ids)
        streamer.finish()
        return found[0][0].text
