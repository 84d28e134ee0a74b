"""A cluster for a pytest session. `MUSTER` names the program where it is not on the PATH.

    pip install pytest kubernetes
    pytest
"""

import json
import os
import subprocess

import kubernetes
import pytest


@pytest.fixture(scope="session")
def muster(tmp_path_factory):
    """Starts a cluster; what it said of itself: kubeconfig, url, ca, token, pid."""
    kubeconfig = tmp_path_factory.mktemp("muster") / "kubeconfig"
    command = [os.environ.get("MUSTER", "muster"), "up", "--output", "json", "--exit-with-parent"]
    command += ["--listen", "127.0.0.1:0", "--kubeconfig", str(kubeconfig), "--pod-startup", "0s"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        said = json.loads(process.stdout.readline() or '{"event": "error", "message": "it did not start"}')
        assert said["event"] == "ready", said
        yield said
        process.terminate()
        process.stdout.read()


@pytest.fixture(scope="session")
def api_client(muster):
    """A client of that cluster."""
    return kubernetes.config.new_client_from_config(muster["kubeconfig"])


@pytest.fixture
def namespace(api_client, request):
    """A namespace of the test's own."""
    core = kubernetes.client.CoreV1Api(api_client)
    metadata = kubernetes.client.V1ObjectMeta(generate_name="test-")
    name = core.create_namespace(kubernetes.client.V1Namespace(metadata=metadata)).metadata.name
    yield name
    core.delete_namespace(name)
