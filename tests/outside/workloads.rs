//! What tests give controllers to do.

/// A ReplicaSet of three pods.
pub const SET: &str = "\
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: web, namespace: default}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: nginx}]}
";

/// A Deployment of three pods and a ReplicationController of two.
pub const WORKLOADS: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: site, namespace: default}
spec:
  replicas: 3
  selector: {matchLabels: {app: site}}
  template:
    metadata: {labels: {app: site}}
    spec: {containers: [{name: c, image: nginx}]}
---
apiVersion: v1
kind: ReplicationController
metadata: {name: classic, namespace: default}
spec:
  replicas: 2
  selector: {app: classic}
  template:
    metadata: {labels: {app: classic}}
    spec: {containers: [{name: c, image: httpd}]}
";
