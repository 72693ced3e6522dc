"""The routes of LibreTranslate: /translate, /detect and /languages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from jumok.documents import Document
from jumok.documents.document import Translation
from jumok.documents.placement import MIN_LINK, Link
from jumok.safe_json import parse_json
from jumok.serving.app import HASH_HEADER
from jumok.serving.fields import ANYTHING, choice, integer, object_of, text, text_or_texts
from jumok.serving.languages import LANGUAGES, detect_languages, language_pair
from jumok.serving.limits import Limits
from jumok.serving.openapi import OBJECT, ApiRoute
from jumok.serving.replies import json_reply
from jumok.serving.requests import read_form_or_object
from jumok.serving.routes import answer, one_version
from jumok.serving.scheduler import Answer
from jumok.serving.service import ServedModel, Service
from jumok.tasks.pipeline.text_warnings import EMPTY_TEXT
from jumok.terminal import to_json_line
from jumok.web.app import Route
from jumok.web.errors import RequestError

_CORPORA = {"note": ("ko", "en")}  # whose names have no languages
AUTO = "auto"  # as a source: to be detected


class TranslationRoutes:
    """Endpoints that LibreTranslate's clients call."""

    def __init__(self, service: Service, limits: Limits) -> None:
        self._service, self._limits = service, limits
        self._translate = object_of(
            {
                "q": text_or_texts(limits),
                "source": text(limits),
                "target": text(limits),
                "format": choice("text", "html"),
                "alternatives": integer(0, limits.beam - 1),
                "api_key": ANYTHING,
            },
            ["q"],
        )
        self._detect = object_of({"q": text(limits), "api_key": ANYTHING}, ["q"])

    @property
    def routes(self) -> list[Route]:
        """The routes."""
        return [
            ApiRoute(
                *("POST", "/translate", self.translate),
                summary="Translations, as LibreTranslate; the request may also be a form.",
                request=self._translate,
                reply={**OBJECT, "required": ["translatedText"]},
            ),
            ApiRoute(
                *("POST", "/detect", self.detect),
                summary="The languages of a text, as LibreTranslate; also as a form.",
                request=self._detect,
                reply={"type": "array"},
            ),
            ApiRoute(
                *("GET", "/languages", self.languages),
                summary="The languages of all translating models.",
                reply={"type": "array"},
            ),
        ]

    async def translate(self, request: Request) -> Response:
        """The translation of one text or of several, which are computed together."""
        given = await read_form_or_object(request, self._limits, ("alternatives",))
        content = self._translate.check(given, "")
        n, q = content.get("alternatives", 0), content["q"]
        single = isinstance(q, str)
        texts = [q] if single else q
        inputs = _Inputs([Document.read(each, content.get("format", "text")) for each in texts])
        model, detected = self._choose(content.get("source"), content.get("target"), inputs)
        message = {"kind": "predict", "decoding": inputs.decoding(n), "sentences": True}
        answers: list[Answer] = []
        if inputs.texts:
            answers = await answer(request, model, message, inputs.texts, self._limits, "q")
            one_version(answers)
        outputs = [parse_json(each.payload) for each in answers]
        found = inputs.join([(output["output"], output.get("links")) for output in outputs])
        reply: dict[str, Any] = {"translatedText": found[0] if single else found}
        if detected is not None:
            reply["detectedLanguage"] = detected if single else [detected] * len(texts)
        if n:
            ranks = [
                inputs.join([(output["n_best"][rank]["output"], None) for output in outputs])
                for rank in range(1, min((len(each["n_best"]) for each in outputs), default=1))
            ]
            others = [[row[number] for row in ranks] for number in range(len(texts))]
            reply["alternatives"] = others[0] if single else others
        if any(warnings := inputs.warnings(outputs)):
            reply["warnings"] = warnings[0] if single else warnings
        version = answers[0].hash if answers else model.hash
        return json_reply(reply, headers={HASH_HEADER: version})

    async def detect(self, request: Request) -> Response:
        """The languages of the translators that a text may be in, the most probable first."""
        content = self._detect.check(await read_form_or_object(request, self._limits, ()), "")
        codes = sorted({code for pair in map(_pair, self._translators()) for code in pair or ()})
        if not codes:
            self._unready()
            raise _no_translator("/detect")
        found = detect_languages(content["q"], codes)
        return json_reply([{"confidence": share, "language": code} for code, share in found])

    async def languages(self, request: Request) -> Response:
        """The languages of all translating models, and what each is translated into."""
        targets: dict[str, list[str]] = {}
        for source, target in sorted(set(filter(None, map(_pair, self._translators())))):
            targets.setdefault(source, []).append(target)
            targets.setdefault(target, [])
        return json_reply(
            [{"code": code, "name": LANGUAGES[code], "targets": to} for code, to in targets.items()]
        )

    def _choose(
        self, source: str | None, target: str | None, inputs: "_Inputs"
    ) -> tuple[ServedModel, dict[str, Any] | None]:
        """The model, and for the source "auto" the detected language with its confidence."""
        if source != AUTO:
            return self._model(source, target), None
        pairs = filter(None, map(_pair, self._translators()))
        sources = sorted({pair[0] for pair in pairs if target in (None, pair[1])})
        if not sources:
            return self._model(None, target), None
        code, confidence = detect_languages(" ".join(inputs.texts), sources)[0]
        if len(sources) > 1:
            each = {detect_languages(text, sources)[0] for text in inputs.texts}
            if not confidence or {found for found, share in each if share} - {code}:
                raise RequestError(
                    "request.source_not_detected",
                    "source must be one of /languages; that of these texts was not detected, or "
                    "they have several",
                    "source",
                )
        model = self._model(None if target is None else code, target)
        return model, {"confidence": confidence, "language": code}

    def _translators(self) -> list[ServedModel]:
        return [model for model in self._service.models.values() if model.info.get("translates")]

    def _model(self, source: str | None, target: str | None) -> ServedModel:
        """The first model of a pair of languages.

        Without a source the target decides; without both, the only model that translates. Raises
        RequestError for a pair that no model has, and where several models translate different
        languages.
        """
        models = self._translators()
        if len(models) == 1 and source is None and target is None:
            return models[0]
        pairs = {model: pair for model in models if (pair := _pair(model)) is not None}
        found = [
            model
            for model, pair in pairs.items()
            if pair[1] == target and source in (None, pair[0])
        ]
        if found and len({pairs[model] for model in found}) == 1:
            return found[0]
        self._unready()
        if not models:
            raise _no_translator("/translate")
        if not pairs:
            raise RequestError(
                "request.languages_unknown",
                "the languages of the served models must be known from their names, such as "
                "{example}; rename the folder, or leave out source and target",
                "target",
                example="koen",
            )
        if found:
            raise RequestError(
                "request.source_missing",
                "source must be one of /languages, or {auto!r}; several models have this target",
                "source",
                auto=AUTO,
            )
        raise RequestError(
            "request.unknown_pair",
            "source and target must be a pair of /languages; change them",
            "target",
        )

    def _unready(self) -> None:
        """Raise RequestError 503 while a model is loading: it may be a translating one."""
        for model in self._service.models.values():
            if not model.info:
                raise model.unavailable()


@dataclass(frozen=True)
class _Inputs:
    """The given texts as documents; what a model reads of each is one text, a block on each line.

    So that a model, which translates line by line, has all blocks of a text at once.
    """

    documents: Sequence[Document]

    @property
    def texts(self) -> list[str]:
        """What is translated: of each document with a block."""
        return ["\n".join(block.text for block in each.blocks) for each in self._translated]

    def decoding(self, n_alternatives: int) -> str:
        """The settings as JSON, "" for those of the model: alternatives, links of the words."""
        settings: dict[str, Any] = {}
        if n_alternatives:
            settings |= dict.fromkeys(("beam", "n_best"), n_alternatives + 1) | {"sample": False}
        if any(block.needs_links for each in self.documents for block in each.blocks):
            settings["alignment"] = MIN_LINK
        return to_json_line(settings) if settings else ""

    def join(self, translations: Sequence[Translation]) -> list[str]:
        """The translation of each given text, from those of `texts`; empty if the model's is."""
        found = iter(translations)
        return [
            _joined(each, *next(found)) if each.blocks else each.write([])
            for each in self.documents
        ]

    def warnings(self, outputs: Sequence[Mapping[str, Any]]) -> list[list[Any]]:
        """The warnings of each given text; of one without a letter that it is empty, if it is."""
        found = iter([output.get("warnings", []) for output in outputs])
        empty = [{"code": EMPTY_TEXT.code, "message": EMPTY_TEXT.message}]
        return [
            next(found) if each.blocks else [] if each.write([]).strip() else empty
            for each in self.documents
        ]

    @property
    def _translated(self) -> list[Document]:
        return [each for each in self.documents if each.blocks]


def _joined(document: Document, text: str, links: Sequence[Link] | None) -> str:
    if not text and document.parts == document.blocks and not document.blocks[0].placed:
        return ""  # otherwise a block without a translation stays as it is
    return document.write(_by_line(len(document.blocks), text, links))


def _by_line(n: int, text: str, links: Sequence[Link] | None) -> list[Translation]:
    r"""The translations of n blocks from that of their lines, with the links of each.

    A model that does not translate line by line may return other lines: then the first block has
    all of them.

    >>> _by_line(2, "a\nbc", [(0, 1, 0, 2, 1.0), (2, 4, 3, 4, 1.0)])
    [('a', [(0, 1, 0, 2, 1.0)]), ('bc', [(0, 2, 3, 4, 1.0)])]
    """
    lines = text.split("\n")
    if len(lines) != n:
        return [(" ".join(lines), links), *[("", None)] * (n - 1)]
    found: list[Translation] = []
    start = 0
    for line in lines:
        end = start + len(line)
        own = [
            (t - start, t_end - start, s, s_end, weight)
            for t, t_end, s, s_end, weight in links or ()
            if start <= t < end
        ]
        found.append((line, own if links is not None else None))
        start = end + 1
    return found


def _no_translator(path: str) -> RequestError:
    return RequestError(
        "request.needs_translator",
        "{path} needs a translating model with known languages; see /v1/models",
        path=path,
    )


def _pair(model: ServedModel) -> tuple[str, str] | None:
    """The languages of a model: those in its name, else those of its corpus."""
    corpus = model.info.get("corpus", "")
    return language_pair(model.name) or _CORPORA.get(corpus) or language_pair(corpus)
