"""The copier on a bad day. `MUSTER` names the program where it is not on the PATH."""

import json
import os
import pathlib
import subprocess
import sys

from kubernetes import client, config, watch

MUSTER = os.environ.get("MUSTER", "muster")
HERE = pathlib.Path(__file__).parent


def test_the_copy_follows_whatever_strikes(tmp_path):
    kubeconfig = str(tmp_path / "kubeconfig")
    up = [MUSTER, "up", "--listen", "127.0.0.1:0", "--kubeconfig", kubeconfig, "--output", "json", "--exit-with-parent"]
    up += ["--nodes", "0", "--faults", str(HERE / "../copier.yaml"), "--seed", "1"]
    with subprocess.Popen(up, stdout=subprocess.PIPE) as cluster:
        assert json.loads(cluster.stdout.readline())["event"] == "ready"
        copier = subprocess.Popen([sys.executable, HERE / "copier.py"], env={**os.environ, "KUBECONFIG": kubeconfig})
        try:
            core = client.CoreV1Api(config.new_client_from_config(kubeconfig))
            metadata = client.V1ObjectMeta(name="page", labels={"copy": "yes"})
            core.create_namespaced_config_map("default", client.V1ConfigMap(metadata=metadata, data={"round": "0"}))
            for number in range(4):
                core.patch_namespaced_config_map("page", "default", {"data": {"round": str(number)}})
                wait_for_copy(core, {"round": str(number)})
            strikes = subprocess.run(
                [MUSTER, "faults", "strikes", "--kubeconfig", kubeconfig], stdout=subprocess.PIPE, check=True
            )
        finally:
            copier.terminate()
            cluster.terminate()
    strikes = [json.loads(line) for line in strikes.stdout.splitlines()]
    assert {strike["client"] for strike in strikes} == {"copier"}
    # A fault is a name, or a name with what it did: {"lag": "1.2s"}.
    names = [strike["fault"] if isinstance(strike["fault"], str) else next(iter(strike["fault"])) for strike in strikes]
    kinds = {(strike["verb"], name) for strike, name in zip(strikes, names)}
    assert kinds == {
        ("create", "answer-lost"), ("update", "refuse"), ("watch", "lag"), ("watch", "cut-at"), ("watch", "refuse")
    }


def wait_for_copy(core, data):
    stream = watch.Watch().stream(
        core.list_namespaced_config_map, "default", field_selector="metadata.name=page-copy", timeout_seconds=60
    )
    assert any(event["object"].data == data for event in stream), f"no copy with {data} within a minute"
