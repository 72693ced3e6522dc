"""Nothing is read from a cache that others may write to."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from jumok.data import arrow_cache, trusted_cache
from jumok.data.corpora.corpus import Corpus, CorpusFile
from jumok.data.corpora.paths import corpus_file, downloads
from jumok.data.token_cache import encode_cached
from jumok.data.trusted_cache import exposure, is_trusted, make_private, private_folder, record_sum
from jumok.errors import InputError
from tests.text.sample_texts import SENTENCES, trained

pytestmark = pytest.mark.skipif(os.name != "posix", reason="other permissions")
OTHER_USER = 65_534


@pytest.fixture(autouse=True)
def warnings_anew() -> None:
    private_folder.cache_clear()
    trusted_cache.warn_exposed.cache_clear()


def kept(folder: Path) -> Path:
    """A file of the cache with its sum."""
    make_private(folder / "kind")
    path = folder / "kind" / "kernel.so"
    path.write_bytes(b"code")
    record_sum(path)
    return path


def test_a_file_of_the_user_alone_is_trusted(tmp_path: Path) -> None:
    path = kept(tmp_path)
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert exposure(path) is None
    assert is_trusted(path)
    link = tmp_path / "link"
    link.symlink_to(path.parent)
    assert is_trusted(link / path.name)


def give_away(path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root can give files away")
    os.chown(path, OTHER_USER, OTHER_USER)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda path: path.chmod(0o666), "other users may write to .*kernel.so"),
        (lambda path: path.parent.chmod(0o777), "other users may write to .*kind"),
        (lambda path: path.parents[1].chmod(0o777), "other users may write to "),
        (lambda path: give_away(path), "kernel.so belongs to another user"),
        (lambda path: give_away(path.parent), "kind belongs to another user"),
    ],
)
def test_a_file_that_others_may_write_is_not_trusted(
    tmp_path: Path, change: Callable[[Path], None], reason: str
) -> None:
    path = kept(tmp_path)
    change(path)
    assert not is_trusted(path)
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(exposure(path))


def test_a_group_of_others_may_not_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The group of the user's own name may, as on Debian; one with members may not."""
    path = kept(tmp_path)
    path.parent.chmod(0o770)
    assert exposure(path) is None
    monkeypatch.setattr(trusted_cache, "_is_own_group", lambda gid: False)
    assert "other users may write to" in str(exposure(path))
    make_private(path.parent)  # as the next command does
    assert is_trusted(path)


def test_other_content_than_recorded_is_not_trusted(tmp_path: Path) -> None:
    path = kept(tmp_path)
    path.write_bytes(b"other")
    assert not is_trusted(path)
    path.with_name("kernel.so.sha256").unlink()
    assert not is_trusted(path)
    assert not is_trusted(tmp_path / "none")


def test_a_shared_cache_is_replaced_by_a_temporary_folder(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    folder = shared / "jumok" / "native"
    temporary = private_folder(folder)
    assert temporary != folder
    assert exposure(temporary) is None
    assert temporary.stat().st_mode & 0o777 == 0o700
    (message,) = caplog.messages
    assert message == (
        f"other users may write to {shared}, so that nothing in the cache {folder} is used; set "
        "XDG_CACHE_HOME to a folder of your own"
    )
    assert private_folder(folder) == temporary


def test_planted_ids_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    tokenizer, texts = trained("unigram"), [SENTENCES[0]] * 5_000
    right = encode_cached(texts, tokenizer).ids.tolist()
    (path,) = (tmp_path / "jumok" / "tokens").iterdir()
    planted = arrow_cache.mapped_file(path)
    assert planted is not None
    path.chmod(0o666)
    assert arrow_cache.mapped_file(path) is None
    assert "other users may write to" in caplog.text
    assert encode_cached(texts, tokenizer).ids.tolist() == right
    assert arrow_cache.mapped_file(path) is not None  # written anew, for the user alone
    tmp_path.chmod(0o777)
    assert arrow_cache.mapped_file(path) is None
    assert encode_cached(texts, tokenizer).ids.tolist() == right


def test_a_changed_corpus_in_a_shared_cache_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    from jumok.data.corpora.registry import corpus_by_name

    corpus: Corpus = corpus_by_name("nsmc")
    file: CorpusFile = corpus.files[0]
    path = downloads(corpus.folder(file)) / file.name
    path.parent.mkdir(parents=True)
    path.write_text("id\tdocument\tlabel\n")
    assert corpus_file(corpus, file) == path
    path.chmod(0o666)
    with pytest.raises(InputError, match=r"must have the content of the corpus .* get it again"):
        corpus_file(corpus, file)
