"""The copier on a bad day. `MUSTER` names the program where it is not on the PATH."""

import contextlib
import json
import os
import pathlib
import subprocess
import sys

from kubernetes import client, config, watch

MUSTER = os.environ.get("MUSTER", "muster")
HERE = pathlib.Path(__file__).parent


def test_the_copy_follows_whatever_strikes(tmp_path):
    with cluster(tmp_path, "--faults", HERE / "../copier.yaml", "--seed", "1") as kubeconfig, copier(kubeconfig):
        core = client.CoreV1Api(config.new_client_from_config(kubeconfig))
        create_source(core, "page")
        for number in range(4):
            core.patch_namespaced_config_map("page", "default", {"data": {"round": str(number)}})
            wait_for_copy(core, "page-copy", {"round": str(number)})
        struck = strikes(kubeconfig)
    assert {strike["client"] for strike in struck} == {"copier"}
    # A fault is a name, or a name with what it did: {"lag": "1.2s"}.
    names = [strike["fault"] if isinstance(strike["fault"], str) else next(iter(strike["fault"])) for strike in struck]
    kinds = {(strike["verb"], name) for strike, name in zip(struck, names)}
    assert kinds == {
        ("create", "answer-lost"), ("update", "refuse"), ("watch", "lag"), ("watch", "cut-at"), ("watch", "refuse")
    }


@contextlib.contextmanager
def cluster(folder, *faults):
    """A cluster without controllers and nodes, for as long as the block lasts: its kubeconfig."""
    kubeconfig = str(folder / "kubeconfig")
    up = [MUSTER, "up", "--listen", "127.0.0.1:0", "--kubeconfig", kubeconfig, "--output", "json", "--exit-with-parent"]
    with subprocess.Popen([*up, "--controllers", "", "--nodes", "0", *faults], stdout=subprocess.PIPE) as process:
        try:
            assert json.loads(process.stdout.readline())["event"] == "ready"
            yield kubeconfig
        finally:
            process.terminate()


@contextlib.contextmanager
def copier(kubeconfig):
    """The controller as a process; killed when the block ends."""
    with subprocess.Popen([sys.executable, HERE / "copier.py"], env={**os.environ, "KUBECONFIG": kubeconfig}) as process:
        try:
            yield
        finally:
            process.kill()


def strikes(kubeconfig):
    command = [MUSTER, "faults", "strikes", "--kubeconfig", kubeconfig]
    return [json.loads(line) for line in subprocess.check_output(command).splitlines()]


def create_source(core, name):
    metadata = client.V1ObjectMeta(name=name, labels={"copy": "yes"})
    core.create_namespaced_config_map("default", client.V1ConfigMap(metadata=metadata, data={"round": "0"}))


def wait_for_copy(core, name, data):
    stream = watch.Watch().stream(
        core.list_namespaced_config_map, "default", field_selector=f"metadata.name={name}", timeout_seconds=60
    )
    assert any(event["object"].data == data for event in stream), f"no {name} with {data} within a minute"
