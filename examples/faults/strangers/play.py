"""Plays a plan of this folder to any controller manager, and prints what became of the pods.

    pip install kubernetes
    python3 play.py foreground-deletion kube-controller-manager
    python3 play.py foreground-deletion muster controller-manager

The cluster has no controllers of its own, but for the garbage collector. `MUSTER` names the program where it is not on the PATH.
"""

import json
import os
import pathlib
import re
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request

from kubernetes import client, config

MUSTER = os.environ.get("MUSTER", "muster")
FLAGS = ["--leader-elect=false", "--secure-port=0", "--controllers=replicaset-controller,deployment-controller"]


def main(plan, *manager):
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig = f"{folder}/kubeconfig"
        up = [MUSTER, "up", "--listen", "127.0.0.1:0", "--kubeconfig", kubeconfig, "--output", "json", "--exit-with-parent"]
        up += ["--nodes", "2", "--pod-startup", "0s", "--pod-shutdown", "0s", "--controllers", "garbage-collector-controller"]
        with subprocess.Popen(up, stdout=subprocess.PIPE) as cluster, open(f"{folder}/log", "wb") as log:
            ready = json.loads(cluster.stdout.readline())
            managing = subprocess.Popen([*manager, f"--kubeconfig={kubeconfig}", *FLAGS], stdout=log, stderr=log)
            try:
                story = Story(ready)
                # The manager is at work once this one has its pod.
                story.replicaset("first", 1)
                story.until(lambda: story.pods("first"), 60)
                file = pathlib.Path(__file__).with_name(f"{plan}.yaml")
                subprocess.run([MUSTER, "faults", "add", file, "--kubeconfig", kubeconfig], check=True, stdout=subprocess.DEVNULL)
                made = story.made()
                story.begun = time.monotonic()
                result = STORIES[plan](story)
                print(json.dumps({"plan": plan, **result, "made": story.made() - made}))
            finally:
                managing.terminate()
                managing.wait()
                cluster.terminate()


class Story:
    """What the user does, and looks at by lists alone, which no plan here strikes."""

    def __init__(self, ready):
        api = config.new_client_from_config(ready["kubeconfig"])
        self.ready, self.core, self.apps = ready, client.CoreV1Api(api), client.AppsV1Api(api)
        self.begun, self.seen = time.monotonic(), None

    def at(self):
        return round(time.monotonic() - self.begun, 1)

    def pods(self, app):
        pods = self.core.list_namespaced_pod("default", label_selector=f"app={app}").items
        names = [pod.metadata.name for pod in pods if not pod.metadata.deletion_timestamp]
        if self.seen != (app, len(names)):
            self.seen = (app, len(names))
            print(f"{self.at():6} s: {len(names)} pods of {app}", file=sys.stderr)
        return names

    def made(self):
        """How many pods have been created, by the server's own count."""
        trusted = ssl.create_default_context(cadata=self.ready["ca"])
        headers = {"Authorization": f"Bearer {self.ready['token']}"}
        request = urllib.request.Request(f"{self.ready['url']}/metrics", headers=headers)
        metrics = urllib.request.urlopen(request, context=trusted).read().decode()
        return int(re.search(r'\{verb="CREATE",resource="pods",subresource="",code="201"} (\d+)', metrics)[1])

    def until(self, so, seconds):
        """Waits until it is so, and says whether it came to that."""
        end = time.monotonic() + seconds
        while not so():
            if time.monotonic() > end:
                return False
            time.sleep(0.1)
        return True

    def workload(self, name, replicas):
        template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}}
        spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
        return {"metadata": {"name": name}, "spec": spec}

    def replicaset(self, name, replicas):
        self.apps.create_namespaced_replica_set("default", self.workload(name, replicas))

    def complete(self, seconds):
        """When all three pods of the workload `web` were there; null where they were not."""
        return {"complete": self.at() if self.until(lambda: len(self.pods("web")) == 3, seconds) else None}


def expectations_expire(story):
    story.replicaset("web", 3)
    most, touched = 0, 0

    def over():
        nonlocal most, touched
        most = max(most, len(story.pods("web")))
        # Something has it looked at again, after the 5 min for which its expectations are waited for.
        if story.at() > 310 and not touched:
            touched = story.at()
            story.apps.patch_namespaced_replica_set("web", "default", {"metadata": {"annotations": {"touched": "yes"}}})
        return story.at() > 340

    story.until(over, 400)
    return {"most": most}


def released_pod(story):
    story.replicaset("web", 3)
    story.until(lambda: len(story.pods("web")) == 3, 60)
    # The manager has to know them before one is taken away.
    story.until(lambda: story.apps.read_namespaced_replica_set("web", "default").status.ready_replicas == 3, 60)
    pod = story.pods("web")[0]
    story.core.patch_namespaced_pod(pod, "default", {"metadata": {"labels": {"app": "debug"}, "ownerReferences": None}})
    story.apps.patch_namespaced_replica_set("web", "default", {"spec": {"replicas": 0}})
    story.until(lambda: not story.apps.read_namespaced_replica_set("web", "default").status.replicas, 60)
    return {"left": len(story.pods("debug"))}


def foreground_deletion(story):
    story.replicaset("web", 5)
    story.until(lambda: len(story.pods("web")) == 5, 60)
    story.apps.delete_namespaced_replica_set("web", "default", propagation_policy="Foreground")
    story.until(lambda: not story.pods("web"), 60)
    # Its pods come once the manager has been told of what was before.
    story.replicaset("after", 1)
    story.until(lambda: story.pods("after"), 60)
    return {"left": len(story.pods("web"))}


def retries_end(story):
    story.apps.create_namespaced_deployment("default", story.workload("web", 3))
    return story.complete(600)


def quota_lifted(story):
    story.replicaset("web", 3)
    return story.complete(600)


def silent_watch(story):
    story.replicaset("web", 3)
    story.until(lambda: len(story.pods("web")) == 3, 60)
    for pod in story.pods("web")[:2]:
        story.core.delete_namespaced_pod(pod, "default")
    return story.complete(900)


STORIES = {
    "expectations-expire": expectations_expire,
    "released-pod": released_pod,
    "foreground-deletion": foreground_deletion,
    "retries-end": retries_end,
    "quota-lifted": quota_lifted,
    "silent-watch": silent_watch,
}

if __name__ == "__main__":
    main(*sys.argv[1:])
