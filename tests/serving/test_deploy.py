"""The files in deploy/: checked against the schemas and rules of their tools; none is run here."""

import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import Path

import pytest
import yaml

from jumok.native import bundle as bundling
from jumok.native.instruction_sets import compilable, machine
from jumok.serving.limits import Limits
from tests.serving.server_process import Server, serving

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile and their arguments."""
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line.split(None, 1) for line in text.splitlines() if line and line[0] != "#"]
    return [(name, rest) for name, rest in lines]


def test_the_image_is_small_and_not_root() -> None:
    found = instructions()
    last = max(i for i, (name, _) in enumerate(found) if name == "FROM")
    assert all(rest.split()[0].endswith("-slim") for name, rest in found if name == "FROM")
    final = found[last:]
    assert not any("apt-get" in rest or "g++" in rest for _, rest in final)
    users = [rest for name, rest in final if name == "USER"]
    assert users
    assert users[-1] not in ("root", "0")
    for name, rest in found:
        if "apt-get install" in rest:
            assert "--no-install-recommends" in rest
            assert "rm -rf /var/lib/apt/lists" in rest
        if "pip install" in rest:
            assert "--no-cache-dir" in rest
        assert name != "ADD"
        assert "sudo" not in rest
        if name in ("CMD", "ENTRYPOINT"):
            assert rest.startswith("[")  # a shell would not pass SIGTERM on
        if name == "COPY" and "--from" not in rest:
            assert all((ROOT / source).exists() for source in rest.split()[:-1])


@pytest.mark.slow
def test_the_copied_files_are_all_that_the_build_needs(tmp_path: Path) -> None:
    """Builds the wheel as the image does, from exactly what the Dockerfile copies."""
    sources = [
        source
        for name, rest in instructions()
        if name == "COPY" and "--from" not in rest
        for source in rest.split()[:-1]
    ]
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8").split()
    assert ignored == ["*", *[f"!{source}" for source in sources], "**/__pycache__"]
    root = tmp_path / "source"
    root.mkdir()
    for source in sources:
        if (ROOT / source).is_dir():
            unneeded = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / source, root / source, ignore=unneeded)
        else:
            shutil.copy(ROOT / source, root / source)
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", str(root)]
    environment = {**os.environ, "JUMOK_KERNEL": "none"}  # as in the Dockerfile
    assert any("JUMOK_KERNEL=none pip install" in rest for _, rest in instructions())
    run = subprocess.run(build, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    (wheel,) = (root / "dist").glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {"jumok/native/bundle.py", "jumok/serving/static/page.js"} <= set(names)


def image_name() -> str:
    """The name that the Dockerfile's first lines give to the image."""
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    match = re.search(r"docker build -f deploy/Dockerfile -t (\S+) \.", text)
    assert match is not None
    return match[1]


def test_the_image_is_healthy_when_it_is_ready() -> None:
    (check,) = (rest for name, rest in instructions() if name == "HEALTHCHECK")
    assert '"/ready"' in check


def test_kubernetes_manifests() -> None:
    validate = pytest.importorskip("kubernetes_validate")
    documents = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text(encoding="utf-8")))
    assert [each["kind"] for each in documents] == ["Deployment", "Service", "PodDisruptionBudget"]
    for document in documents:
        validate.validate(document, "1.31", strict=True)
    pod = documents[0]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    for probe, path in (("startup", "/ready"), ("readiness", "/ready"), ("liveness", "/health")):
        assert path in container[f"{probe}Probe"]["exec"]["command"]
    mounts = {each["name"] for each in container["volumeMounts"]}
    assert mounts == {each["name"] for each in pod["volumes"]}
    assert container["image"] == image_name()
    command, seconds = container["lifecycle"]["preStop"]["exec"]["command"]
    assert command == "sleep"
    assert int(seconds) >= 2 * container["readinessProbe"]["periodSeconds"]
    assert pod["terminationGracePeriodSeconds"] > int(seconds) + Limits().grace_seconds
    ports = documents[1]["spec"]["ports"]
    assert ports[0]["targetPort"] == container["ports"][0]["name"]


def test_compose_file() -> None:
    content = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    service = content["services"]["jumok"]
    assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).exists()
    assert set(service["secrets"]) == set(content["secrets"])
    assert service["read_only"]
    assert "healthcheck" not in service  # that of the image
    grace = int(service["stop_grace_period"].removesuffix("s"))
    assert grace > Limits().grace_seconds
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])


def test_the_probe(review_run: Path, tmp_path: Path) -> None:
    token = "a-token-of-this-test-only-0123456789"
    (tmp_path / "token").write_text(token + "\n", encoding="ascii")

    def probe(server: Server, *arguments: str) -> int:
        command = [sys.executable, "-m", "jumok.serving.probe", *arguments, str(server.port)]
        return subprocess.run(command, check=False, env=os.environ).returncode

    with serving(tmp_path / "server", [review_run], token=token) as server:
        assert probe(server, "/ready", str(tmp_path / "token")) == 0
        assert probe(server, "/health", "") == 1  # 401
    assert probe(server, "/ready", str(tmp_path / "token")) == 1  # it has ended


def test_the_probe_is_light() -> None:
    code = "import sys, jumok.serving.probe; print('torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert run.stdout.strip() == b"False"


def test_all_kernels_are_bundled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def compile_kernel(_: object, path: Path, *, part: str) -> None:
        path.write_text(part)

    monkeypatch.setattr(bundling, "compile_kernel", compile_kernel)
    paths = bundling.bundle(tmp_path)
    parts = Counter(path.read_text() for path in paths)
    assert parts == dict.fromkeys(("kernel", "training"), len(compilable(machine())))
    assert all(path.stat().st_mode & 0o777 == 0o644 for path in paths)


@pytest.mark.slow
def test_ray_gives_the_same_answers(review_run: Path) -> None:
    ray = pytest.importorskip("ray")
    serve = pytest.importorskip("ray.serve")
    import torch

    import jumok
    from examples.ray_serve import Model
    from jumok.tasks.pipeline.outputs import to_json

    texts = ["이 영화 정말 재미있어요", "시간이 아깝다"]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ray.init(num_cpus=2, include_dashboard=False)
    try:
        serve.start(http_options={"host": "127.0.0.1", "port": port})
        deployment = Model.options(autoscaling_config=None, num_replicas=2)
        small = deployment.options(ray_actor_options={"num_cpus": 1})
        handle = serve.run(small.bind(str(review_run), torch.get_num_threads()))
        answers = [handle.predict.remote([text]).result()[0] for text in texts * 4]
        caller = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        caller.request("POST", "/", json.dumps({"texts": texts}))
        came = caller.getresponse()
        over_http = came.status, json.loads(came.read())
        caller.close()
    finally:
        serve.shutdown()
        ray.shutdown()
    pipeline = jumok.load(review_run)
    assert answers == [to_json(pipeline(text)) for text in texts * 4]
    assert over_http == (200, {"answers": list(map(json.loads, answers[:2]))})
