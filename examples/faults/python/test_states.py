"""States in which a controller is seldom tested: between two of its writes, and without what it never saw."""

import subprocess

from kubernetes import client, config
from test_copier import HERE, MUSTER, cluster, copier, create_source, strikes, wait_for_copy


def test_a_controller_that_dies_between_two_writes_goes_on(tmp_path):
    with cluster(tmp_path, "--faults", HERE / "../between-writes.yaml") as kubeconfig:
        core = client.CoreV1Api(config.new_client_from_config(kubeconfig))
        with copier(kubeconfig):
            create_source(core, "page")
            wait_for_copy(core, "page-copy", {"round": "0"})
            core.patch_namespaced_config_map("page", "default", {"data": {"round": "1"}})
            assert any(strikes(kubeconfig) for _ in range(5000)), "it sends no update"
        assert core.read_namespaced_config_map("page-copy", "default").data == {"round": "0"}
        with copier(kubeconfig):
            wait_for_copy(core, "page-copy", {"round": "1"})


def test_what_came_and_went_unseen_leaves_nothing(tmp_path):
    with cluster(tmp_path) as kubeconfig, copier(kubeconfig):
        core = client.CoreV1Api(config.new_client_from_config(kubeconfig))
        create_source(core, "page")
        wait_for_copy(core, "page-copy", {"round": "0"})
        subprocess.check_call([MUSTER, "faults", "add", HERE / "../unseen-states.yaml", "--kubeconfig", kubeconfig])
        create_source(core, "unseen")
        create_source(core, "after")
        core.delete_namespaced_config_map("unseen", "default")
        wait_for_copy(core, "after-copy", {"round": "0"})
        names = [found.metadata.name for found in core.list_namespaced_config_map("default").items]
        assert "unseen-copy" not in names
        assert {strike["verb"] for strike in strikes(kubeconfig)} == {"list", "watch"}
