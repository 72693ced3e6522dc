"""The routes of LibreTranslate: /translate, /detect and /languages."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from jumok.safe_json import parse_json
from jumok.serving.app import HASH_HEADER
from jumok.serving.fields import ANYTHING, choice, integer, object_of, text, text_or_texts
from jumok.serving.languages import LANGUAGES, detect_languages, language_pair
from jumok.serving.limits import Limits
from jumok.serving.markup import Markup
from jumok.serving.openapi import OBJECT, ApiRoute
from jumok.serving.replies import json_reply
from jumok.serving.requests import read_form_or_object
from jumok.serving.routes import answer, one_version
from jumok.serving.scheduler import Answer
from jumok.serving.service import ServedModel, Service
from jumok.web.app import Route
from jumok.web.errors import RequestError, invalid

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
        inputs = _Inputs.of(texts, html=content.get("format") == "html")
        if len(inputs.texts) > self._limits.texts:
            raise invalid(
                "request.too_many_texts",
                "{param} must have at most {high} texts between tags; send several requests",
                "q",
                high=self._limits.texts,
            )
        model, detected = self._choose(content.get("source"), content.get("target"), inputs)
        decoding = f'{{"beam": {n + 1}, "n_best": {n + 1}, "sample": false}}' if n else ""
        message = {"kind": "predict", "decoding": decoding, "sentences": True}
        answers: list[Answer] = []
        if inputs.texts:
            answers = await answer(request, model, message, inputs.texts, self._limits, "q")
            one_version(answers)
        outputs = [parse_json(each.payload) for each in answers]
        found = inputs.join([output["output"] for output in outputs])
        reply: dict[str, Any] = {"translatedText": found[0] if single else found}
        if detected is not None:
            reply["detectedLanguage"] = detected if single else [detected] * len(texts)
        if n:
            ranks = [
                inputs.join([output["n_best"][rank]["output"] for output in outputs])
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
                raise invalid(
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
            raise invalid(
                "request.languages_unknown",
                "the languages of the served models must be known from their names, such as "
                "{example}; rename the folder, or leave out source and target",
                "target",
                example="koen",
            )
        if found:
            raise invalid(
                "request.source_missing",
                "source must be one of /languages, or {auto!r}; several models have this target",
                "source",
                auto=AUTO,
            )
        raise invalid(
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
    """The texts to translate: the given ones, or those between the tags of HTML."""

    texts: list[str]
    markups: Sequence[Markup] | None  # None: plain texts

    @classmethod
    def of(cls, given: Sequence[str], *, html: bool) -> "_Inputs":
        if not html:
            return cls(list(given), None)
        markups = [Markup.split(each) for each in given]
        return cls([text for markup in markups for text in markup.texts], markups)

    def join(self, translated: Sequence[str]) -> list[str]:
        """The translation of each given text."""
        if self.markups is None:
            return list(translated)
        return [
            markup.join(rows)
            for markup, rows in zip(self.markups, self._split(translated), strict=True)
        ]

    def warnings(self, outputs: Sequence[Mapping[str, Any]]) -> list[list[Any]]:
        """The warnings of each given text, of HTML each code once."""
        found = [output.get("warnings", []) for output in outputs]
        if self.markups is None:
            return found
        return [
            list({each["code"]: each for warnings in rows for each in warnings}.values())
            for rows in self._split(found)
        ]

    def _split(self, values: Sequence[Any]) -> Iterator[Sequence[Any]]:
        """The values of the texts of each given text."""
        at = 0
        for markup in self.markups or ():
            yield values[at : at + len(markup.texts)]
            at += len(markup.texts)


def _no_translator(path: str) -> RequestError:
    return invalid(
        "request.needs_translator",
        "{path} needs a translating model with known languages; see /v1/models",
        path=path,
    )


def _pair(model: ServedModel) -> tuple[str, str] | None:
    """The languages of a model: those in its name, else those of its corpus."""
    corpus = model.info.get("corpus", "")
    return language_pair(model.name) or _CORPORA.get(corpus) or language_pair(corpus)
