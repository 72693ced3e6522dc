"""The text before every text of a model of vectors, chosen by a name."""

from collections.abc import Mapping

from jumok.errors import ModelFileError


def find_prompt(prompts: Mapping[str, str], name: str = "", default: str = "") -> str:
    """The prompt of this name, or of the name `default`; "" without a name.

    Raises ModelFileError for an unknown name.

    >>> find_prompt({"query": "query: "}, "query"), find_prompt({})
    ('query: ', '')
    """
    name = name or default
    if name and name not in prompts:
        known = ", ".join(prompts) or "none"
        raise ModelFileError(
            "pretrained.unknown_prompt",
            "prompt_name must be one of the model's prompts ({known}), got {name}; change it",
            known=known,
            name=name,
        )
    return prompts[name] if name else ""
