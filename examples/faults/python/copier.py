"""Keeps a copy of each ConfigMap with the label copy=yes: `NAME-copy`, with the same data."""

import sys
import time

import urllib3
from kubernetes import client, config, watch


def reconcile(core, namespace, source):
    name = f"{source.metadata.name}-copy"
    try:
        copy = core.read_namespaced_config_map(name, namespace)
    except client.ApiException as error:
        if error.status != 404:
            raise
        metadata = client.V1ObjectMeta(name=name)
        core.create_namespaced_config_map(namespace, client.V1ConfigMap(metadata=metadata, data=source.data))
        return
    if copy.data != source.data:
        copy.data = source.data
        core.replace_namespaced_config_map(name, namespace, copy)


def run(core, namespace):
    """Whatever fails, it begins again with a list: what a watch did not tell is in there."""
    list_sources, labels = core.list_namespaced_config_map, "copy=yes"
    while True:
        try:
            sources = list_sources(namespace, label_selector=labels)
            for source in sources.items:
                reconcile(core, namespace, source)
            version = sources.metadata.resource_version
            for event in watch.Watch().stream(list_sources, namespace, label_selector=labels, resource_version=version):
                if event["type"] in ("ADDED", "MODIFIED"):
                    reconcile(core, namespace, event["object"])
        except (client.ApiException, urllib3.exceptions.HTTPError, ValueError) as error:
            print(f"again from the list: {error}", file=sys.stderr)
            time.sleep(0.2)


if __name__ == "__main__":
    api = config.new_client_from_config()
    api.user_agent = "copier"
    run(client.CoreV1Api(api), "default")
