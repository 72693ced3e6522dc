"""Figure requests of the page: validation of the fields, and the resulting files."""

from dataclasses import replace

import pytest

from jumok.errors import InputError
from jumok.fonts import figure_bytes
from jumok.viewer.figure_requests import FIGURE_OF_VIEW, FigureRequest, write_figure
from jumok.viewer.view_state import ViewState
from tests.errors import raises
from tests.viewer.figure_traces import trace_of

TRACE = trace_of(classifies=True)
INFO = TRACE.info
ASKED: dict[str, object] = {  # what the page sends
    "trace": "00ff",
    "figure": "attention",
    "block": "decoder",
    "layer": 1,
    "head": 2,
    "sequence": 0,
    "query": 3,
    "format": "pdf",
    "width": 6.9,
}


def test_a_request_of_the_page_is_drawn() -> None:
    request = FigureRequest.of_json(ASKED)
    assert (request.trace, request.media_type) == ("00ff", "application/pdf")
    figure = TRACE.figure(block="decoder", layer=1, head=2, query=3, width=6.9)
    assert write_figure(TRACE, request) == figure_bytes(figure, "pdf")


@pytest.mark.parametrize(
    ("ending", "start"), [("pdf", b"%PDF"), ("svg", b"<?xml"), ("png", b"\x89PNG")]
)
def test_every_format(ending: str, start: bytes) -> None:
    request = FigureRequest.of_json({"format": ending})
    first = write_figure(TRACE, request)
    assert first.startswith(start)
    assert first == write_figure(TRACE, request)


@pytest.mark.slow
def test_every_choice_reaches_the_figure() -> None:
    plain = FigureRequest(figure="alignment", block="cross", layer=1, head="mean")
    pictures = {write_figure(TRACE, replace(plain, format="png"))}
    for choice in (
        {"layer": 0},
        {"head": 1},
        {"query": 1},
        {"unit": "word"},
        {"specials": "renormalise"},
        {"measure": "values"},
        {"rows": "read"},
        {"width": 6.9},
        {"font_size": 6.0},
        {"title": "그림 1"},
        {"palette": "grey"},
        {"scale": "sqrt"},
        {"layer": "all"},
    ):
        pictures.add(write_figure(TRACE, replace(plain, format="png", **choice)))  # type: ignore[arg-type]
    assert len(pictures) == 14


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("figure", "pie", 'figure must be "attention", "heads"'),
        ("block", "../etc", 'block must be "encoder", "decoder" or "cross", got'),
        ("layer", "2", 'layer must be an integer or "all", got "2"'),
        ("layer", True, 'layer must be an integer or "all", got true'),
        ("head", 1.5, "head must be an integer"),
        ("query", [], "query must be an integer, got a list"),
        ("width", "wide", "width must be a number, got "),
        ("width", float("nan"), "width must be a number, got NaN"),
        ("format", "exe", 'format must be "pdf", "svg" or "png", got'),
        ("trace", 7, "trace must be a string, got 7"),
        ("title", None, "title must be true or false or a string, got null"),
        ("colour", "red", "colour is not known"),
    ],
)
def test_a_wrong_field_is_named(field: str, value: object, sentence: str) -> None:
    with pytest.raises(
        InputError, match=r"invalid figure request: .*; correct the request"
    ) as caught:
        FigureRequest.of_json({**ASKED, field: value})
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    "field", [{"width": 1e9}, {"width": -1}, {"head": -1}, {"layer": 10**30}, {"title": "가" * 301}]
)
def test_invalid_numbers(field: dict[str, object]) -> None:
    with pytest.raises(InputError):
        write_figure(TRACE, FigureRequest.of_json({**ASKED, **field}))


@pytest.mark.slow
@pytest.mark.parametrize("view", FIGURE_OF_VIEW)
def test_every_view_with_a_figure_is_drawn(view: str) -> None:
    state = ViewState.parse(f"v={view}&L=1&H=1&q=2")
    request = FigureRequest.of_state(state, TRACE.info, "png")
    assert write_figure(TRACE, request).startswith(b"\x89PNG")


def test_an_alignment_always_uses_cross_attention() -> None:
    state = ViewState.parse("v=alignment&b=encoder")
    assert FigureRequest.of_state(state, TRACE.info, "pdf").block == "cross"


def test_an_alignment_takes_of_the_focus_what_cross_attention_has() -> None:
    def request_of(state: str) -> tuple[object, object, object]:
        state = f"v=alignment&alignment.over=head&{state}"
        request = FigureRequest.of_state(ViewState.parse(state), INFO, "pdf")
        return request.layer, request.head, request.query

    assert request_of("b=encoder&L=9&H=9&q=7") == (1, 3, None)  # 7 is a token of the source
    assert request_of("b=cross&L=1&H=2&q=3") == (1, 2, 3)


def test_without_a_layer_it_is_the_last_one_and_an_unknown_view_names_the_nearest() -> None:
    for view in ("matrix", "lines", "alignment", "neuron"):
        request = FigureRequest.of_state(ViewState.parse(f"v={view}&b=cross"), INFO, "pdf")
        assert request.layer == INFO.block("cross").layers - 1, view
    assert ViewState.parse("v=calculation").layers(INFO)[0][1] == 0
    for name, nearest in (("head", "v=heads"), ("matrx", "v=matrix")):
        with raises(InputError, "page.unknown_view") as caught:
            ViewState.parse(f"v={name}")
        assert nearest in str(caught.value)


def test_a_matrix_is_that_of_the_first_pinned_head() -> None:
    state = ViewState.parse("v=matrix&b=encoder&L=0&H=0&q=2&pin=cross.1.2~encoder.1.1")
    request = FigureRequest.of_state(state, INFO, "pdf")
    assert (request.block, request.layer, request.head, request.query) == ("cross", 1, 2, None)


def test_what_the_page_does_to_the_numbers_is_done_in_the_figure() -> None:
    state = ViewState.parse("v=alignment&u=word&sp=renormalise&m=values&alignment.rows=read")
    request = FigureRequest.of_state(state, TRACE.info, "pdf")
    done = (request.unit, request.specials, request.measure, request.rows)
    assert done == ("word", "renormalise", "values", "read")
    assert (
        FigureRequest.of_state(ViewState(view="alignment"), TRACE.info, "pdf").rows == "predicted"
    )
    with raises(InputError, "trace.unknown_value"):
        ViewState.parse("u=line")


def test_an_alignment_of_many_heads_is_drawn_as_the_page_pools_it() -> None:
    def request_of(state: str) -> tuple[object, object]:
        request = FigureRequest.of_state(
            ViewState.parse(f"v=alignment&L=1&H=2&{state}"), INFO, "pdf"
        )
        return request.layer, request.head

    assert request_of("") == (1, "mean")
    assert request_of("alignment.pool=max") == (1, "max")
    assert request_of("alignment.over=head") == (1, 2)
    assert request_of("alignment.over=head&alignment.pool=max") == (1, 2)
    assert request_of("alignment.over=model") == ("all", "mean")


def test_lines_keep_their_heads_their_mass_and_their_colours() -> None:
    def request_of(state: str) -> FigureRequest:
        return FigureRequest.of_state(
            ViewState.parse(f"v=lines&b=cross&L=1&H=2&{state}"), INFO, "pdf"
        )

    pins = "pin=cross.0.1~encoder.0.0~cross.1.3"
    assert (request_of(pins).head, request_of(pins).pins) == (
        2,
        (),
    )  # pinned, but not what is drawn
    kept = request_of(f"{pins}&lines.heads=pinned&lines.mass=0.5")
    assert (kept.pins, kept.mass) == ((("cross", 0, 1), ("cross", 1, 3)), 0.5)
    assert request_of("lines.heads=max").head == "max"
    assert [head for _, _, head in request_of("lines.heads=all").pins] == [0, 1, 2, 3]
    assert (request_of("").scale, request_of("sc=linear").scale) == ("sqrt", "linear")
    for wrong in ("lines.mass=0", "lines.mass=x", "lines.heads=some", "alignment.over=it"):
        with pytest.raises(InputError, match=" must be "):
            request_of(wrong)


def test_a_view_without_a_figure() -> None:
    with raises(InputError, "page.no_figure_of_view"):
        FigureRequest.of_state(ViewState.parse("v=generation"), TRACE.info, "pdf")
