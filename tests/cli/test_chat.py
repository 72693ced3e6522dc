"""jumok chat and predict --chat."""

import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import jumok
from jumok.tasks.pipeline.chat import Chat
from jumok.tasks.pipeline.pipeline import Pipeline
from jumok.text.chat import Message
from tests import hf_folders
from tests.text.test_chat import CHATML

transformers = pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chat model whose tokenizer has ChatML's pieces and template."""
    path = tmp_path_factory.mktemp("chat") / "model"
    hf_folders.llama(path, chat=True, max_position_embeddings=4000)
    (path / "chat_template.jinja").write_text(CHATML, encoding="utf-8")
    return path


def test_same_prompt_and_answer_as_transformers(folder: Path) -> None:
    loaded = jumok.load(folder)
    assert isinstance(loaded, Pipeline)
    messages = [Message("system", "영화"), Message("user", "이 영화 어때요?")]
    parts: list[str] = []
    answer = Chat.of(loaded.with_decoding(["max_length=12"])).answer(messages, parts.append)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    rows = [{"role": each.role, "content": each.content} for each in messages]
    ids = tokenizer.apply_chat_template(rows, add_generation_prompt=True, return_dict=False)
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    model.generation_config = transformers.GenerationConfig(eos_token_id=[0, end], pad_token_id=0)
    [row] = model.generate(torch.tensor([ids]), max_new_tokens=12, do_sample=False)
    assert answer == tokenizer.decode(row[len(ids) :], skip_special_tokens=True)
    assert "".join(parts) == answer
    assert len(parts) > 1


def run(*arguments: object, stdin: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "jumok", *map(str, arguments)]
    return subprocess.run(
        command, input=stdin, capture_output=True, text=True, encoding="utf-8", timeout=120
    )


@pytest.mark.slow
def test_predict_chat(folder: Path, tmp_path: Path) -> None:
    messages = json.dumps([{"role": "user", "content": "안녕"}])
    short = ("--chat", "--decoding", "max_length=5")
    done = run("predict", folder, *short, "--json", stdin=messages)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["role"] == "assistant"
    wrong = run("predict", folder, "--chat", stdin='[{"role": "bot", "content": "a"}]')
    assert wrong.returncode == 2
    assert "role must be one of system, user, assistant" in wrong.stderr
    copy = shutil.copytree(folder, tmp_path / "model")
    (copy / "chat_template.jinja").write_text("{{ raise_exception('no chats') }}")
    refused = run("predict", copy, *short, stdin=messages)
    assert refused.returncode == 2
    assert "got TemplateError: no chats; correct it, or give another" in refused.stderr
    (folder / "chat_template.jinja").rename(tmp_path / "template")
    try:
        missing = run("predict", folder, *short, stdin=messages)
    finally:
        (tmp_path / "template").rename(folder / "chat_template.jinja")
    assert missing.returncode == 2
    assert "give the one it was trained with: --template FILE" in missing.stderr
    given = ("--template", folder / "chat_template.jinja")
    assert run("predict", copy, *short, *given, stdin=messages).returncode == 0
    (copy / "chat_template.jinja").write_bytes(b"\xff")
    invalid = run(
        "predict", folder, *short, "--template", copy / "chat_template.jinja", stdin=messages
    )
    assert invalid.returncode == 2
    assert "byte 1 is not UTF-8" in invalid.stderr


@pytest.mark.slow
def test_interrupted_answer_is_kept_in_the_terminal(folder: Path) -> None:
    """Ctrl-C during an answer: its text stays and the chat goes on; at the prompt it ends."""
    pty = pytest.importorskip("pty")
    child, terminal = pty.fork()
    if child == 0:
        command = [sys.executable, "-m", "jumok", "chat", str(folder)]
        os.execv(command[0], [*command, "--decoding", "max_length=3500"])
    seen = b""

    def read_until(what: bytes) -> None:
        nonlocal seen
        end = time.monotonic() + 90
        while what not in seen:
            assert time.monotonic() < end, seen.decode(errors="replace")
            seen += os.read(terminal, 4096)

    def press_until(what: bytes) -> None:
        """A signal within a destructor is lost: press again, as one would."""
        nonlocal seen
        for _ in range(6):
            os.write(terminal, b"\x03")
            until = time.monotonic() + 10
            while what not in seen and time.monotonic() < until:
                if select.select([terminal], [], [], 0.1)[0]:
                    seen += os.read(terminal, 4096)
            if what in seen:
                return
        raise AssertionError(seen.decode(errors="replace"))

    try:
        read_until(b"> ")
        os.write(terminal, "안녕\n".encode())
        read_until("안녕\r\n".encode())
        seen = b""
        while not seen.strip():
            seen += os.read(terminal, 4096)
        press_until(b"interrupted; its text is kept")
        seen = seen.rpartition(b"kept")[2]
        read_until(b"> ")
        # A signal between Python's last check and read(2) ends no read: press again, as one would.
        ended = status = 0
        while not ended:
            os.write(terminal, b"\x03")
            until = time.monotonic() + 5
            while not ended and time.monotonic() < until:
                time.sleep(0.05)
                ended, status = os.waitpid(child, os.WNOHANG)
        assert os.waitstatus_to_exitcode(status) == 0
    finally:
        os.close(terminal)
