"""Keys of a recipe that must keep one value, because the task or another key excludes others."""

from collections.abc import Mapping
from operator import attrgetter
from typing import TYPE_CHECKING

from jumok.errors import Message, RecipeError

if TYPE_CHECKING:
    from jumok.tasks.recipe.recipe import Recipe


def check_values(recipe: "Recipe", values: Mapping[str, object], reason: Message) -> None:
    """Raise RecipeError, which names the key, unless these keys (TABLE.KEY) have these values.

    `reason` completes the sentence: `for_task(...)`, or `with_key(...)` of the key that excludes
    other values.
    """
    for key, wanted in values.items():
        value = attrgetter(key)(recipe)
        if value != wanted:
            raise RecipeError(
                "recipe.fixed_value",
                "{key} must be {wanted} {reason}, got {value}; leave it out",
                key=key,
                wanted=shown(wanted),
                reason=reason,
                value=shown(value),
            )


def for_task(name: str) -> Message:
    """The reason that the task has no use for a value."""
    return Message("recipe.for_task", "for the task {task}", task=name)


def with_key(key: str) -> Message:
    """The reason that another key, perhaps with its value, excludes a value."""
    return Message("recipe.with_key", "with {key}", key=key)


def shown(value: object) -> str:
    """A value as in TOML; "none" for a key that is left out.

    >>> shown(True), shown("mean"), shown(0.5)
    ('true', '"mean"', '0.5')
    """
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)
