"""Measures how late a watch tells: of ten changes, the seconds from the write and from its answer to the event."""

import json
import time

from kubernetes import client, config, watch

core = client.CoreV1Api(config.new_client_from_config())
measured = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="python"))
version = core.create_namespaced_config_map("default", measured).metadata.resource_version
events = watch.Watch().stream(
    core.list_namespaced_config_map, "default", field_selector="metadata.name=python", resource_version=version
)
for number in range(10):
    written = time.monotonic()
    core.patch_namespaced_config_map("python", "default", {"data": {"number": str(number)}})
    answered = time.monotonic()
    event = next(events)
    told = time.monotonic()
    assert event["object"].data == {"number": str(number)}, event
    print(json.dumps([told - written, told - answered]))
