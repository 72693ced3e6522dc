"""Signals, lost processes, reloads, overload, clients that leave."""

import hashlib
import http.client
import json
import os
import shutil
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import psutil
import pytest

from jumok import safetensors_io
from tests.serving.server_process import Reply, serving

JSON = {"Content-Type": "application/json"}
TEXT = "이 영화 정말 재미있어요"


def copy_of(run: Path, folder: Path, name: str) -> Path:
    """A copy of a run that a test may change."""
    copied = folder / name
    shutil.copytree(run, copied, ignore=shutil.ignore_patterns("checkpoints", "*.png"))
    return copied


def wait_until(condition: object, seconds: float = 60) -> None:
    """Poll a condition."""
    assert callable(condition)
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.slow
def test_a_killed_process_is_replaced_and_no_request_is_lost(
    review_run: Path, tmp_path: Path
) -> None:
    with serving(tmp_path, [review_run], workers=1) as server:
        expected = server.predict(TEXT).body
        stop = threading.Event()
        replies: list[Reply] = []

        def ask() -> None:
            while not stop.is_set():
                replies.append(server.predict(TEXT))

        with ThreadPoolExecutor(4) as pool:
            futures = [pool.submit(ask) for _ in range(4)]
            for _ in range(3):
                (pid,) = server.computing_pids()
                os.kill(pid, signal.SIGKILL)
                wait_until(lambda pid=pid: not psutil.pid_exists(pid))
                wait_until(lambda: server.request("/ready").status == 200)
                assert server.predict(TEXT).body == expected
            stop.set()
            for future in futures:
                future.result()
        assert {reply.status for reply in replies} == {200, 503}
        for reply in replies:
            if reply.status == 503:
                assert "what computes the model ended" in reply.error["message"]
                assert int(reply.headers["retry-after"]) >= 1
            else:
                assert reply.body == expected
        assert 'jumok_restarts_total{model="run"} 3.0' in server.request("/metrics").body.decode()


@pytest.mark.slow
def test_a_process_that_cannot_be_started_again_is_tried_again(
    review_run: Path, tmp_path: Path
) -> None:
    """First there are no free descriptors (OSError in the front), then no weights (in the other).

    Meanwhile requests get 503 with the reason, and the pauses between the attempts grow.
    """
    run, limits = copy_of(review_run, tmp_path, "model"), {"keep_alive_seconds": 120.0}
    with serving(tmp_path / "server", [run], workers=1, limits=limits) as server:
        caller = http.client.HTTPConnection(*server.address, timeout=60)
        front = psutil.Process(server.process.pid)
        soft, hard = front.rlimit(psutil.RLIMIT_NOFILE)

        def ask() -> tuple[int, str]:
            caller.request("POST", "/v1/predict", json.dumps({"texts": [TEXT]}), JSON)
            reply = caller.getresponse()
            return reply.status, reply.read().decode()

        def kill() -> None:
            for pid in server.computing_pids():
                os.kill(pid, signal.SIGKILL)

        def attempts() -> int:
            return server.log.read_text(encoding="utf-8").count('failed model="model"')

        def unavailable() -> bool:
            status, body = ask()
            return status == 503 and "the model cannot be loaded again; see the log" in body

        with closing(caller):
            expected = ask()
            assert expected[0] == 200
            front.rlimit(psutil.RLIMIT_NOFILE, (3, hard))
            kill()
            wait_until(unavailable)
            assert "Too many open files" in server.log.read_text(encoding="utf-8")
            time.sleep(2)
            assert 2 <= attempts() <= 8  # 0.05 s, 0.1, 0.2, 0.4, 0.8, 1.6
            front.rlimit(psutil.RLIMIT_NOFILE, (soft, hard))
            wait_until(lambda: ask() == expected)
            (run / "model.safetensors").rename(tmp_path / "weights")
            before = attempts()
            kill()
            wait_until(lambda: attempts() > before)
            assert unavailable()
            (tmp_path / "weights").rename(run / "model.safetensors")
            wait_until(lambda: ask() == expected)


@pytest.mark.slow
def test_sigterm_answers_all_accepted_requests(review_run: Path, tmp_path: Path) -> None:
    with serving(tmp_path, [review_run]) as server, ExitStack() as stack:
        body = json.dumps({"texts": [TEXT] * 30}).encode()
        waiting = stack.enter_context(socket.create_connection(server.address))
        waiting.sendall(b"POST /v1/predict HTTP/1.1\r\nHost: x")  # a client that stalls
        callers = []
        for _ in range(8):
            caller = http.client.HTTPConnection(*server.address, timeout=60)
            stack.enter_context(closing(caller))
            caller.request("POST", "/v1/predict", body, JSON)
            callers.append(caller)
        started = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        replies = [stack.enter_context(caller.getresponse()) for caller in callers]
        assert {reply.status for reply in replies} <= {200, 429}
        assert all(json.loads(reply.read()) for reply in replies)
        assert server.process.wait(60) == 0
        assert time.monotonic() - started < 55


@pytest.mark.slow
def test_ready_is_503_while_accepted_requests_are_answered(
    review_run: Path, tmp_path: Path
) -> None:
    """On new connections too; other requests are refused, so that the end comes."""
    with serving(tmp_path, [review_run], workers=1) as server, ThreadPoolExecutor(1) as pool:
        expected = server.predict(TEXT).body
        (pid,) = server.computing_pids()
        os.kill(pid, signal.SIGSTOP)
        accepted = pool.submit(server.predict, TEXT)
        waiting = 'jumok_waiting_texts{model="run"} 1.0'
        wait_until(lambda: waiting in server.request("/metrics").body.decode())
        server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: server.request("/ready").status == 503)
        assert "the server is shutting down" in server.request("/ready").error["message"]

        def ask() -> Reply:  # in the first 0.1 s it is accepted, and expires
            content = {"texts": [TEXT]}
            return server.request("/v1/predict", content, X_Jumok_Deadline_Ms="300")

        wait_until(lambda: ask().status == 503)
        assert "the server shuts down" in ask().error["message"]
        assert server.request("/health").status == 200
        os.kill(pid, signal.SIGCONT)
        assert accepted.result().body == expected
        assert server.process.wait(60) == 0


@pytest.mark.slow
def test_requests_that_the_grace_does_not_suffice_for_get_503(
    reading_run: Path, tmp_path: Path
) -> None:
    limits = {"grace_seconds": 1.0, "max_wait": 60.0}
    with serving(tmp_path, [reading_run], workers=1, limits=limits) as server:
        (pid,) = server.computing_pids()
        caller = http.client.HTTPConnection(*server.address, timeout=60)
        with closing(caller):
            os.kill(pid, signal.SIGSTOP)
            caller.request("POST", "/v1/predict", json.dumps({"texts": ["삼 일 오"]}), JSON)
            time.sleep(0.5)
            server.process.send_signal(signal.SIGTERM)
            reply = caller.getresponse()
            assert reply.status == 503
            assert "the server shuts down" in json.loads(reply.read())["error"]["message"]
        assert server.process.wait(60) == 0


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 1])
def test_reload_switches_between_requests_and_keeps_the_old_one_on_failure(
    review_run: Path, tmp_path: Path, workers: int
) -> None:
    run = copy_of(review_run, tmp_path, "model")
    other = copy_of(review_run, tmp_path, "other")
    retrain(other)
    with serving(tmp_path / "server", [run], workers=workers) as server:
        first = server.predict(TEXT)
        stop = threading.Event()
        replies: list[Reply] = []

        def ask() -> None:
            while not stop.is_set():
                replies.append(server.predict(TEXT))

        with ThreadPoolExecutor(2) as pool:
            futures = [pool.submit(ask) for _ in range(2)]
            for name in ("model.safetensors", "config.json"):
                shutil.copy(other / name, run / name)
            reply = server.request("/admin/reload", {})
            assert reply.status == 200, reply.body
            (result,) = reply.json["reloaded"]
            assert result["former_hash"] == first.json["hash"] != result["hash"]
            assert 0 <= result["agreement"] <= 1
            second = server.predict(TEXT)
            assert second.json["hash"] == result["hash"]
            (run / "model.safetensors").write_bytes(b"damaged")
            refused = server.request("/admin/reload", {"model": "model"})
            assert refused.status == 409
            assert refused.error["message"].startswith("the running version stays: ")
            server.process.send_signal(signal.SIGHUP)
            wait_until(lambda: "reload failed" in server.log.read_text(encoding="utf-8"))
            assert server.predict(TEXT).body == second.body
            stop.set()
            for future in futures:
                future.result()
        assert {reply.body for reply in replies} == {first.body, second.body}
        wait_until(lambda: len(server.computing_pids()) == workers)


def retrain(run: Path) -> None:
    """Change the weights of a run a little, as another training would."""
    path, config = run / "model.safetensors", run / "config.json"
    weights = safetensors_io.deserialize(path.read_bytes())
    path.write_bytes(safetensors_io.serialize({k: 0.9 * v for k, v in weights.items()}))
    tree = json.loads(config.read_text(encoding="utf-8"))
    tree["weights_sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    config.write_text(json.dumps(tree), encoding="utf-8")


@pytest.mark.slow
def test_reloads_do_not_wait_for_each_other(review_run: Path, tmp_path: Path) -> None:
    with serving(tmp_path, [review_run]) as server:
        with ThreadPoolExecutor(6) as pool:
            replies = list(pool.map(lambda _: server.request("/admin/reload", {}), range(6)))
        statuses = [reply.status for reply in replies]
        assert set(statuses) == {200, 409}
        refused = next(reply for reply in replies if reply.status == 409)
        assert "a reload of run must end before the next one" in refused.error["message"]
        assert "lost" not in server.log.read_text(encoding="utf-8")  # the old one was closed


@pytest.mark.slow
def test_other_addresses_need_a_token_on_every_route(review_run: Path, tmp_path: Path) -> None:
    with (
        pytest.raises(AssertionError, match="other machines can reach"),
        serving(tmp_path / "open", [review_run], host="0.0.0.0"),
    ):
        pass
    token = "a-token-of-letters"
    with serving(tmp_path / "guarded", [review_run], host="0.0.0.0", token=token) as server:
        paths = server.request("/openapi.json").json["paths"]
        assert {"/v1/predict", "/health", "/metrics", "/admin/reload"} <= set(paths)
        for path, methods in paths.items():
            for method in methods:
                body = {} if method == "post" else None
                for wrong in ("Bearer a-token-of-lettera", token, ""):
                    reply = server.request(path, body, Authorization=wrong)
                    assert reply.status == 401, path
                    assert reply.error["message"].startswith("the header Authorization")
                assert server.request(path, body).status != 401
        assert server.request("/health", Host="any.example").status == 200
