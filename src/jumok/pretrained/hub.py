"""Find a checkpoint by name: a local folder, or a model downloaded from the Hugging Face Hub.

Only the files that jumok reads are downloaded: configs, tokenizers and weights, never code, and a
pickle only if there are no safetensors. Everything else follows huggingface_hub: `HF_HOME` is the
cache, `HF_HUB_OFFLINE=1` forbids downloads, a token gives access to gated models.
"""

import os
import re
from collections.abc import Sequence
from pathlib import Path

from jumok.errors import ModelFileError, StorageError
from jumok.shipped import resolve_model

CONFIG_FILES = (
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
    "tokenizer_78b3253a26.model",  # KoBERT
    "chat_template.jinja",
    "adapter_config.json",
    "extensions.json",
    "recipe.toml",  # a run of jumok, as `Run.push_to_hub` uploads it
    "vocabulary.model",
    "vocabulary.target.model",
    "vocabulary/*",  # of an imported checkpoint
    "origin/*.json",
    "origin/*.safetensors",
)
_SENTENCE_MODULES = (  # of sentence-transformers, which decide what the vectors of a text are
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "[0-9]_*/*.json",
    "[0-9]_*/model.safetensors",
    "[0-9]_Dense/pytorch_model.bin",  # small, and often the only file of its weights
)
_SAFETENSORS = (
    "model.safetensors",
    "model.safetensors.index.json",
    "model-*-of-*.safetensors",
    "adapter_model.safetensors",
)
_RESULTS = ("results.json", "history.csv", "history.png")  # of a run, uploaded with it
_PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json", "pytorch_model-*-of-*.bin")

HUB_NAME = re.compile(r"([A-Za-z0-9_-][A-Za-z0-9._-]{0,95}/)?[A-Za-z0-9_-][A-Za-z0-9._-]{0,95}")
_COMMIT = re.compile(r"[0-9a-f]{40}")


def resolve(name_or_folder: str | Path, revision: str | None = None) -> Path:
    """The folder of a checkpoint: `name_or_folder` itself, or the model of that name on the Hub.

    A local folder takes precedence. `revision` is a commit, tag or branch on the Hub, by default
    the newest; `commit_of` returns the commit of the result. Raises InputError if there is no such
    folder and no such model, or if it cannot be downloaded (gated, or no network and not in the
    cache); StorageError if it cannot be written.
    """
    name = str(name_or_folder)
    folder = Path(name_or_folder)
    if folder.is_dir():
        return folder
    if folder.exists():
        raise ModelFileError(
            "pretrained.not_a_folder",
            "{name}: must be a folder, got a file; give the folder that contains it",
            name=name,
        )
    if not HUB_NAME.fullmatch(name) or ".." in name or "--" in name:
        raise ModelFileError(
            "pretrained.not_a_model_name",
            "{name}: no such folder, and not a valid model name on the Hub; give a folder with "
            "config.json and weights, or OWNER/NAME",
            name=name,
        )
    common = (*CONFIG_FILES, *_SENTENCE_MODULES)
    downloaded = _download(name, revision, (*common, *_SAFETENSORS))
    if any(path.suffix == ".safetensors" for path in downloaded.glob("*")):
        return downloaded
    return _download(name, commit_of(downloaded), (*common, *_PICKLES))


def is_hf_folder(folder: Path) -> bool:
    """Whether a folder is a Hugging Face checkpoint and not a jumok run."""
    return (folder / "config.json").is_file() and not os.path.lexists(folder / "recipe.toml")


def find_model(name_or_folder: str | Path) -> Path:
    """The folder of a model: a path, a model that ships with jumok, or OWNER/NAME on the Hub.

    A path in runs/, the folder of `jumok train`, or whose parent folder exists is never searched on
    the Hub. Raises InputError and
    StorageError as `resolve` does; the folder of any other path may be missing.

    >>> find_model("./runs/nsmc")
    PosixPath('runs/nsmc')
    """
    folder = resolve_model(name_or_folder)
    name = str(name_or_folder)
    on_hub = HUB_NAME.fullmatch(name) and "/" in name and not name.startswith((".", "runs/"))
    if not on_hub or folder.exists() or folder.parent.exists():
        return folder
    return resolve(name)


def upload(folder: Path, name: str, *, private: bool, revision: str | None = None) -> str:
    """Upload the model files of a run to OWNER/NAME; the URL of the commit."""
    if not HUB_NAME.fullmatch(name) or "/" not in name:
        raise ModelFileError(
            "pretrained.hub_name",
            "the name of a model on the Hub must be OWNER/NAME, got {name!r}",
            name=name,
        )
    from huggingface_hub import HfApi  # slow to import

    api = HfApi()
    try:
        api.create_repo(name, private=private, exist_ok=True)
        done = api.upload_folder(
            repo_id=name,
            folder_path=folder,
            allow_patterns=[*CONFIG_FILES, *_SAFETENSORS, *_RESULTS],
            revision=revision,
            commit_message="Upload a run of jumok",
        )
    except Exception as error:  # of the HTTP library, which differs between versions
        raise ModelFileError(
            "pretrained.upload_refused",
            "{name}: the Hub does not accept the upload ({type_error}: {first_line}); log in "
            "with hf auth login, and check the name",
            name=name,
            type_error=type(error).__name__,
            first_line=_first_line(error),
        ) from error
    return str(done.commit_url)


def commit_of(folder: Path) -> str | None:
    """The commit (40 hex digits) of a folder in the Hub's cache; None for other folders.

    >>> commit_of(Path("hub/models--klue--bert-base/snapshots/" + "0a" * 20))[:6]
    '0a0a0a'
    >>> commit_of(Path("runs/nsmc")) is None
    True
    """
    in_cache = folder.parent.name == "snapshots" and _COMMIT.fullmatch(folder.name)
    return folder.name if in_cache else None


def name_of(folder: Path) -> str:
    """The model name of a folder in the Hub's cache; the folder name for other folders.

    >>> name_of(Path("hub/models--klue--bert-base/snapshots/" + "0a" * 20))
    'klue/bert-base'
    >>> name_of(Path("runs/nsmc"))
    'nsmc'
    """
    if commit_of(folder) is None:
        return folder.name
    return folder.parent.parent.name.removeprefix("models--").replace("--", "/")


def _download(name: str, revision: str | None, files: Sequence[str]) -> Path:
    """Download those of `files` that the model has; returns the folder in the Hub's cache."""
    from huggingface_hub import errors, snapshot_download  # slow to import

    at = "" if revision is None else f" at {revision}"
    try:
        return Path(snapshot_download(name, revision=revision, allow_patterns=list(files)))
    except errors.GatedRepoError as error:
        raise ModelFileError(
            "pretrained.gated",
            "{name}: the model is gated; accept its terms on the model's page on the Hub, then "
            "log in with: hf auth login",
            name=name,
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise ModelFileError(
            "pretrained.no_such_model",
            "{name}: no such folder, and no such model on the Hub; check the name, or log in "
            "with hf auth login if the model is private",
            name=name,
        ) from error
    except errors.RevisionNotFoundError as error:
        raise ModelFileError(
            "pretrained.no_such_revision",
            "{name}: no such revision{at} on the Hub; check it",
            name=name,
            at=at,
        ) from error
    except errors.LocalEntryNotFoundError as error:
        raise ModelFileError(
            "pretrained.not_in_the_cache",
            "{name}{at}: no such folder, not in the cache, and the Hub cannot be reached (no "
            "network, or HF_HUB_OFFLINE is set); download it where there is a network, or give a "
            "folder",
            name=name,
            at=at,
        ) from error
    except OSError as error:
        raise StorageError(
            "pretrained.not_downloaded",
            "{name}{at}: cannot be downloaded to the Hub's cache ({first_line}); check the "
            "network and the disk",
            name=name,
            at=at,
            first_line=_first_line(error),
        ) from error
    except Exception as error:  # of the HTTP library, which differs between versions
        raise ModelFileError(
            "pretrained.hub_not_reached",
            "{name}{at}: the Hub does not respond ({type_error}: {first_line}); check the network",
            name=name,
            at=at,
            type_error=type(error).__name__,
            first_line=_first_line(error),
        ) from error


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0][:200]
