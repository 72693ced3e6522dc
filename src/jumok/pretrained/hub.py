"""A checkpoint by name: the folder on this disk, or one fetched from the Hugging Face Hub.

Fetched are the files that jumok reads and no other: configurations, tokenisers and weights, never
a line of code; a pickle only where there is no safetensors. Everything else is as huggingface_hub
does it: `HF_HOME` says where, `HF_HUB_OFFLINE=1` forbids the network, a token opens gated models.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from jumok.errors import InputError, StorageError

_SETTINGS = (
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "tokenizer.model",
    "spiece.model",
    "spm.model",
    "sentencepiece.bpe.model",
    "source.spm",
    "target.spm",
    "target_vocab.json",
)
_SAFETENSORS = ("model.safetensors", "model.safetensors.index.json", "model-*-of-*.safetensors")
_PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json", "pytorch_model-*-of-*.bin")

_NAME = re.compile(r"([A-Za-z0-9_-][A-Za-z0-9._-]{0,95}/)?[A-Za-z0-9_-][A-Za-z0-9._-]{0,95}")
_COMMIT = re.compile(r"[0-9a-f]{40}")


def resolve(name_or_folder: str | Path, revision: str | None = None) -> Path:
    """The folder of a checkpoint: `name_or_folder` itself, or the model of that name from the Hub.

    A folder on this disk wins. `revision` is a commit, tag or branch of the Hub, by default the
    newest; what was taken is fixed by its commit, which `commit_of` tells. Raises InputError, in
    one sentence, when there is no such folder and no such model, when it may not be had (gated,
    no network and not in the cache), or when huggingface_hub is not installed; StorageError when
    it cannot be kept.
    """
    name = str(name_or_folder)
    folder = Path(name_or_folder)
    if folder.is_dir():
        return folder
    if folder.exists():
        raise InputError(f"{name}: a file; give the folder it is in")
    if not _NAME.fullmatch(name) or ".." in name or "--" in name:
        raise InputError(
            f"{name}: no such folder, and no name of a model on the Hub either; give a folder with "
            "config.json and weights, or OWNER/NAME"
        )
    fetched = _fetch(name, revision, (*_SETTINGS, *_SAFETENSORS))
    if any(path.suffix == ".safetensors" for path in fetched.glob("*")):
        return fetched
    return _fetch(name, commit_of(fetched), (*_SETTINGS, *_PICKLES))


def commit_of(folder: Path) -> str | None:
    """The commit (40 hexadecimal digits) that a folder of the Hub's cache holds, None for others.

    >>> commit_of(Path("hub/models--klue--bert-base/snapshots/" + "0a" * 20))[:6]
    '0a0a0a'
    >>> commit_of(Path("runs/nsmc")) is None
    True
    """
    in_cache = folder.parent.name == "snapshots" and _COMMIT.fullmatch(folder.name)
    return folder.name if in_cache else None


def name_of(folder: Path) -> str:
    """What a folder of the Hub's cache is called there, or the name of any other folder.

    >>> name_of(Path("hub/models--klue--bert-base/snapshots/" + "0a" * 20))
    'klue/bert-base'
    >>> name_of(Path("runs/nsmc"))
    'nsmc'
    """
    if commit_of(folder) is None:
        return folder.name
    return folder.parent.parent.name.removeprefix("models--").replace("--", "/")


def _fetch(name: str, revision: str | None, files: Sequence[str]) -> Path:
    """The folder in the Hub's cache with those of `files` that the model has."""
    try:
        from huggingface_hub import errors, snapshot_download
    except ImportError as error:
        raise InputError(
            f"{name}: no such folder; to fetch a model of that name from the Hub, "
            'pip install "jumok[hf]"'
        ) from error
    at = "" if revision is None else f" at {revision}"
    try:
        return Path(snapshot_download(name, revision=revision, allow_patterns=list(files)))
    except errors.GatedRepoError as error:
        raise InputError(
            f"{name}: its owner asks for consent first; give it on the model's page on the Hub, "
            "then log in with: hf auth login"
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise InputError(
            f"{name}: no such folder, and the Hub shows no model of that name; check it, or log "
            "in with hf auth login if it is private"
        ) from error
    except errors.RevisionNotFoundError as error:
        raise InputError(f"{name}: the Hub has no revision{at}; check it") from error
    except errors.LocalEntryNotFoundError as error:
        raise InputError(
            f"{name}{at}: no such folder, and the Hub cannot be asked (no network, or "
            "HF_HUB_OFFLINE is set) while its cache has not all of it; fetch it where there is a "
            "network, or give a folder"
        ) from error
    except OSError as error:
        raise StorageError(
            f"{name}{at}: cannot be fetched into the Hub's cache ({_first_line(error)}); check "
            "the network and the disk"
        ) from error
    except Exception as error:  # of the web library beneath, which is another in every version
        raise InputError(
            f"{name}{at}: the Hub does not answer ({type(error).__name__}: {_first_line(error)}); "
            "check the network"
        ) from error


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0][:200]
