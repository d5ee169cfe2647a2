"""The image of the Containerfile, built from packages of Debian because no registry is needed for that, and run."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import urllib.request

import psutil
import pytest

from tests.conftest import ROOT
from tests.helpers.requirements import missing, program
from tests.helpers.services import write_certificate, write_onnx

pytestmark = pytest.mark.long

#: The isolation needs no kernel features, so that the test runs in a container too; the network is that of the machine.
RUN = ("run", "--isolation", "chroot")


def buildah(*words: object) -> str:
    """Run a command of buildah; return the last line that it printed."""
    command = [program("buildah", package="buildah"), *map(str, words)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout.strip().rpartition("\n")[2]


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """Name of the image, built on a Debian with Python in place of the base image of the Containerfile."""
    bootstrap = program("debootstrap", package="debootstrap")
    program("buildah", package="buildah")
    if os.geteuid():
        missing("building an image here needs root")
    root = tmp_path_factory.mktemp("image") / "root"
    packages = "--include=python3,python3-venv,ca-certificates"
    subprocess.run([bootstrap, "--variant=minbase", packages, "bookworm", root], check=True, capture_output=True)
    base, name = f"localhost/sight-test-base:{os.getpid()}", f"localhost/sight-test:{os.getpid()}"
    empty = buildah("from", "scratch")
    buildah("copy", empty, root, "/")
    buildah("commit", "--rm", empty, base)
    certificates = ("--volume", "/etc/ssl/certs:/etc/ssl/certs:ro")  # of the machine, if it is behind a proxy
    build = ("build", "--isolation", "chroot", "--format", "docker", "--build-arg", f"BASE={base}", *certificates)
    buildah(*build, "--tag", name, "--file", "Containerfile", ".")
    yield name
    buildah("rmi", "--force", name, base)


@pytest.fixture
def container(image):
    name = buildah("from", image)
    yield name
    buildah("rm", name)


def test_the_image_has_a_health_check_and_no_privileges(image):
    inspected = subprocess.run(
        ["buildah", "inspect", "--type", "image", image], capture_output=True, text=True, check=True
    )
    config = json.loads(inspected.stdout)["Docker"]["config"]
    assert config["User"] == "10001"
    assert config["Healthcheck"]["Test"] == ["CMD", "sight", "serve", "check", "--data", "/data"]
    assert config["Entrypoint"] + config["Cmd"][:3] == ["sight", "serve", "--data", "/data"]


@pytest.mark.parametrize("tls", [False, True])
def test_the_image_serves_and_its_health_check_follows(container, tmp_path, tls):
    """The service runs as the user of the image, and the check of the image finds it over http and https."""
    models = tmp_path / "models"
    models.mkdir()
    write_onnx(models / "toy.onnx")
    data = tmp_path / "data"
    data.mkdir(0o700)
    os.chown(data, 10001, 10001)
    mounts = ("--volume", f"{data}:/data", "--volume", f"{models}:/models:ro")
    check = ["buildah", *RUN, *mounts, container, "sight", "serve", "check", "--data", "/data"]
    assert "No service uses" in subprocess.run(check, capture_output=True, text=True, check=False).stderr
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = ["sight", "serve", "--data", "/data", "--model", "/models/toy.onnx", "--port", str(port)]
    if tls:
        _, key = write_certificate(models)
        key.chmod(0o644)
        words += ["--tls-cert", "/models/cert.pem", "--tls-key", "/models/key.pem"]
    log = tmp_path / "log"
    with log.open("wb") as out:
        service = subprocess.Popen(["buildah", *RUN, *mounts, container, *words], stdout=out, stderr=out)
    try:
        waiting = subprocess.run([*check, "--wait", "120"], capture_output=True, text=True, check=False)
        assert (waiting.returncode, waiting.stdout) == (0, "ready\n"), f"{waiting.stderr}{log.read_text()}"
        assert all(path.stat().st_uid == 10001 for path in data.rglob("*"))
        if not tls:
            request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/wearers/anna", method="PUT")
            assert json.load(urllib.request.urlopen(request, timeout=60))["seq"] == 0
    finally:
        psutil.Process(service.pid).children(recursive=True)[-1].terminate()  # buildah itself would kill it
        service.wait(60)
    assert re.findall(r'"event": "(\w+)"', log.read_text())[-1] == "closed"
    assert service.returncode == 0
    assert subprocess.run(check, capture_output=True, check=False).returncode == 1
