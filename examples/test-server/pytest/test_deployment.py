"""A Deployment comes up, and its pods go with it."""

from kubernetes import client, watch


def web(replicas):
    labels = {"app": "web"}
    container = client.V1Container(name="web", image="nginx")
    template = client.V1PodTemplateSpec(
        metadata=client.V1ObjectMeta(labels=labels), spec=client.V1PodSpec(containers=[container])
    )
    spec = client.V1DeploymentSpec(
        replicas=replicas, selector=client.V1LabelSelector(match_labels=labels), template=template
    )
    return client.V1Deployment(metadata=client.V1ObjectMeta(name="web"), spec=spec)


def test_a_deployment_comes_up_and_goes(api_client, namespace):
    apps = client.AppsV1Api(api_client)
    apps.create_namespaced_deployment(namespace, web(3))
    for event in watch.Watch().stream(apps.list_namespaced_deployment, namespace, timeout_seconds=60):
        if event["object"].status.available_replicas == 3:
            break
    else:
        raise AssertionError("it was not available within a minute")

    core = client.CoreV1Api(api_client)
    pods = core.list_namespaced_pod(namespace)
    left = {pod.metadata.name for pod in pods.items}
    assert len(left) == 3
    apps.delete_namespaced_deployment("web", namespace)
    stream = watch.Watch().stream(
        core.list_namespaced_pod, namespace, resource_version=pods.metadata.resource_version, timeout_seconds=60
    )
    for event in stream:
        if event["type"] == "DELETED":
            left.discard(event["object"].metadata.name)
        if not left:
            break
    assert not left


def test_what_is_not_valid_is_refused(api_client, namespace):
    apps = client.AppsV1Api(api_client)
    try:
        apps.create_namespaced_deployment(namespace, web(-1))
    except client.ApiException as refused:
        assert refused.status == 422 and "spec.replicas" in refused.body
    else:
        raise AssertionError("it was taken")
