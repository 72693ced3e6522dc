"""The routes of LibreTranslate: /translate and /languages."""

import re

from starlette.requests import Request
from starlette.responses import Response

from jumok.safe_json import parse_json
from jumok.serving.app import HASH_HEADER
from jumok.serving.fields import ANYTHING, integer, object_of, only, text, text_or_texts
from jumok.serving.limits import Limits
from jumok.serving.openapi import OBJECT, ApiRoute
from jumok.serving.replies import json_reply
from jumok.serving.requests import read_form_or_object
from jumok.serving.routes import answer, one_version
from jumok.serving.service import ServedModel, Service
from jumok.web.app import Route
from jumok.web.errors import RequestError, invalid

LANGUAGES = {
    "de": "German",
    "en": "English",
    "fr": "French",
    "ja": "Japanese",
    "ko": "Korean",
    "zh": "Chinese",
}
_PAIR = re.compile(rf"({'|'.join(LANGUAGES)})-?({'|'.join(LANGUAGES)})")
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
                "format": only("text", refusal=_no_text),
                "alternatives": integer(0, limits.beam - 1),
                "api_key": ANYTHING,
            },
            ["q"],
        )

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
        model = self._model(content.get("source"), content.get("target"))
        decoding = f'{{"beam": {n + 1}, "n_best": {n + 1}, "sample": false}}' if n else ""
        message = {"kind": "predict", "decoding": decoding, "sentences": True}
        answers = await answer(request, model, message, texts, self._limits)
        one_version(answers)
        outputs = [parse_json(each.payload) for each in answers]
        found: list[object] = [output["output"] for output in outputs]
        reply = {"translatedText": found[0] if single else found}
        if content.get("source") == AUTO and (pair := _pair(model)) is not None:
            # The only language of the model; confidence 0, as LibreTranslate without a detection.
            detected = {"confidence": 0.0, "language": pair[0]}
            reply["detectedLanguage"] = detected if single else [detected] * len(texts)
        if n:
            others = [[each["output"] for each in output["n_best"][1:]] for output in outputs]
            reply["alternatives"] = others[0] if single else others
        if any(warnings := [output.get("warnings", []) for output in outputs]):
            reply["warnings"] = warnings[0] if single else warnings
        return json_reply(reply, headers={HASH_HEADER: answers[0].hash})

    async def languages(self, request: Request) -> Response:
        """The languages of all translating models, and what each is translated into."""
        targets: dict[str, list[str]] = {}
        for source, target in sorted(set(filter(None, map(_pair, self._translators())))):
            targets.setdefault(source, []).append(target)
            targets.setdefault(target, [])
        return json_reply(
            [{"code": code, "name": LANGUAGES[code], "targets": to} for code, to in targets.items()]
        )

    def _translators(self) -> list[ServedModel]:
        return [model for model in self._service.models.values() if model.info.get("translates")]

    def _model(self, source: str | None, target: str | None) -> ServedModel:
        """The first model of a pair of languages.

        Without a source, or with "auto", the target decides; without both, the only model that
        translates. Raises RequestError for a pair that no model has, and where several models
        translate different languages, since the server detects none.
        """
        models = self._translators()
        if len(models) == 1 and source in (None, AUTO) and target is None:
            return models[0]
        pairs = {model: pair for model in models if (pair := _pair(model)) is not None}
        found = [
            model
            for model, pair in pairs.items()
            if pair[1] == target and source in (None, AUTO, pair[0])
        ]
        if found and len({pairs[model] for model in found}) == 1:
            return found[0]
        self._unready()
        if not models:
            raise invalid(
                "request.needs_translator",
                "/translate needs a translating model; see /v1/models",
            )
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
                "request.source_not_detected",
                "source must be one of /languages; none is detected",
                "source",
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


def _no_text(param: str) -> RequestError:
    return invalid(
        "request.not_text",
        "{param} must be text; HTML is not translated",
        param,
    )


def _pair(model: ServedModel) -> tuple[str, str] | None:
    """The languages of a model: those in its name, else those of its corpus."""
    corpus = model.info.get("corpus", "")
    return language_pair(model.name) or _CORPORA.get(corpus) or language_pair(corpus)


def language_pair(name: str) -> tuple[str, str] | None:
    """The languages in the name of a model.

    >>> language_pair("koen"), language_pair("multi30k-en-de"), language_pair("reading")
    (('ko', 'en'), ('en', 'de'), None)
    """
    match = re.search(rf"(?<![a-z]){_PAIR.pattern}(?![a-z])", name.lower())
    return None if match is None else (match[1], match[2])
