//! CSINode, CSIDriver, CSIStorageCapacity and VolumeAttachment: what drivers of volumes keep in the API.

use muster_tree::json;

use super::{AGE_COLUMN, Column, NAME_COLUMN, Part, Resource, Row, Subresource, defaults, keep_metadata};
use crate::model::fields::set_generation;
use crate::model::{CREATED_AT_COLUMN, Cell, Fields as _, Name, metadata};
use crate::validation::csi;
use crate::validation::meta::Look;

/// Which drivers a node has.
pub(super) fn node() -> Row {
    Row {
        metadata: Look::WHOLE,
        validate: csi::validate_node,
        columns: &NODE_COLUMNS,
        ..Row::new(
            Resource::cluster("storage.k8s.io", "v1", "CSINode", "csinodes").conditional_update().returns_deleted(),
        )
    }
}

static NODE_COLUMNS: [Column; 3] = [
    NAME_COLUMN,
    Column::number("Drivers", "Drivers indicates the number of CSI drivers registered on the node")
        .count("/spec/drivers"),
    AGE_COLUMN,
];

/// How a driver is to be used.
pub(super) fn driver() -> Row {
    Row {
        default: |driver| {
            let spec = driver.object_or_new("spec");
            spec.set_if_absent("attachRequired", true);
            spec.set_if_absent("podInfoOnMount", false);
            spec.set_if_absent("storageCapacity", false);
            spec.set_if_absent("fsGroupPolicy", "ReadWriteOnceWithFSType");
            if spec.list("volumeLifecycleModes").is_empty() {
                spec.insert("volumeLifecycleModes", json!(["Persistent"]));
            }
            spec.set_if_absent("requiresRepublish", false);
            spec.set_if_absent("seLinuxMount", false);
        },
        prepare: |_, driver, old| {
            let was = old.and_then(|old| old.object("spec"));
            // Behind a feature that is off by default.
            if !was.is_some_and(|spec| spec.contains_key("preventPodSchedulingIfMissing")) {
                driver.object_or_new("spec").remove("preventPodSchedulingIfMissing");
            }
            // A new one has no generation; a changed one has.
            if let Some(old) = old.filter(|old| old.get("spec") != driver.get("spec")) {
                set_generation(driver, metadata(old).int("generation") + 1);
            }
        },
        validate: csi::validate_driver,
        warnings: |driver, old| {
            const TOKENS: &str = "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes";
            let Some(spec) = driver.object("spec") else { return Vec::new() };
            let was = old.and_then(|old| old.object("spec")).and_then(|spec| spec.get("tokenRequests"));
            let new = old.is_none() || was != spec.get("tokenRequests");
            let unset = spec.maybe_flag("serviceAccountTokenInSecrets").is_none();
            if new && unset && !spec.list("tokenRequests").is_empty() { vec![TOKENS.to_owned()] } else { Vec::new() }
        },
        columns: &DRIVER_COLUMNS,
        ..Row::new(
            Resource::cluster("storage.k8s.io", "v1", "CSIDriver", "csidrivers").conditional_update().returns_deleted(),
        )
    }
}

static DRIVER_COLUMNS: [Column; 8] = [
    NAME_COLUMN,
    Column::flag("AttachRequired", "attachRequired indicates this CSI volume driver requires an attach operation (because it implements the CSI ControllerPublishVolume() method), and that the Kubernetes attach detach controller should call the attach volume interface which checks the volumeattachment status and waits until the volume is attached before proceeding to mounting. The CSI external-attacher coordinates with CSI volume driver and updates the volumeattachment status when the attach operation is complete. If the value is specified to false, the attach operation will be skipped. Otherwise the attach operation will be called.\n\nThis field is immutable.")
        .by(|driver, _| driver.object("spec").and_then(|s| s.maybe_flag("attachRequired")).unwrap_or(true).into()),
    Column::flag("PodInfoOnMount", "podInfoOnMount indicates this CSI volume driver requires additional pod information (like podName, podUID, etc.) during mount operations, if set to true. If set to false, pod information will not be passed on mount. Default is false.\n\nThe CSI driver specifies podInfoOnMount as part of driver deployment. If true, Kubelet will pass pod information as VolumeContext in the CSI NodePublishVolume() calls. The CSI driver is responsible for parsing and validating the information passed in as VolumeContext.\n\nThe following VolumeContext will be passed if podInfoOnMount is set to true. This list might grow, but the prefix will be used. \"csi.storage.k8s.io/pod.name\": pod.Name \"csi.storage.k8s.io/pod.namespace\": pod.Namespace \"csi.storage.k8s.io/pod.uid\": string(pod.UID) \"csi.storage.k8s.io/ephemeral\": \"true\" if the volume is an ephemeral inline volume\n                                defined by a CSIVolumeSource, otherwise \"false\"\n\n\"csi.storage.k8s.io/ephemeral\" is a new feature in Kubernetes 1.16. It is only required for drivers which support both the \"Persistent\" and \"Ephemeral\" VolumeLifecycleMode. Other drivers can leave pod info disabled and/or ignore this field. As Kubernetes 1.15 doesn't support this field, drivers can only support one mode when deployed on such a cluster and the deployment determines which mode that is, for example via a command line parameter of the driver.\n\nThis field was immutable in Kubernetes < 1.29 and now is mutable.")
        .by(|driver, _| driver.object("spec").is_some_and(|s| s.flag("podInfoOnMount")).into()),
    Column::flag("StorageCapacity", "storageCapacity indicates that the CSI volume driver wants pod scheduling to consider the storage capacity that the driver deployment will report by creating CSIStorageCapacity objects with capacity information, if set to true.\n\nThe check can be enabled immediately when deploying a driver. In that case, provisioning new volumes with late binding will pause until the driver deployment has published some suitable CSIStorageCapacity object.\n\nAlternatively, the driver can be deployed with the field unset or false and it can be flipped later when storage capacity information has been published.\n\nThis field was immutable in Kubernetes <= 1.22 and now is mutable.")
        .by(|driver, _| driver.object("spec").is_some_and(|s| s.flag("storageCapacity")).into()),
    Column::text("TokenRequests", "tokenRequests indicates the CSI driver needs pods' service account tokens it is mounting volume for to do necessary authentication. Kubelet will pass the tokens in VolumeContext in the CSI NodePublishVolume calls. The CSI driver should parse and validate the following VolumeContext: \"csi.storage.k8s.io/serviceAccount.tokens\": {\n  \"<audience>\": {\n    \"token\": <token>,\n    \"expirationTimestamp\": <expiration timestamp in RFC3339>,\n  },\n  ...\n}\n\nNote: Audience in each TokenRequest should be different and at most one token is empty string. To receive a new token after expiry, RequiresRepublish can be used to trigger NodePublishVolume periodically.")
        .by(|driver, _| {
            let Some(spec) = driver.object("spec").filter(|s| s.contains_key("tokenRequests")) else { return "<unset>".into() };
            let each: Vec<&str> = spec.items("tokenRequests").map(|r| r.text("audience")).collect();
            each.join(",").into()
        }),
    Column::flag("RequiresRepublish", "requiresRepublish indicates the CSI driver wants `NodePublishVolume` being periodically called to reflect any possible change in the mounted volume. This field defaults to false.\n\nNote: After a successful initial NodePublishVolume call, subsequent calls to NodePublishVolume should only update the contents of the volume. New mount points will not be seen by a running container.")
        .by(|driver, _| driver.object("spec").is_some_and(|s| s.flag("requiresRepublish")).into()),
    Column::text("Modes", "volumeLifecycleModes defines what kind of volumes this CSI volume driver supports. The default if the list is empty is \"Persistent\", which is the usage defined by the CSI specification and implemented in Kubernetes via the usual PV/PVC mechanism.\n\nThe other mode is \"Ephemeral\". In this mode, volumes are defined inline inside the pod spec with CSIVolumeSource and their lifecycle is tied to the lifecycle of that pod. A driver has to be aware of this because it is only going to get a NodePublishVolume call for such a volume.\n\nFor more information about implementing this mode, see https://kubernetes-csi.github.io/docs/ephemeral-local-volumes.html A driver can support one or more of these modes and more modes may be added in the future.\n\nThis field is beta. This field is immutable.")
        .by(|driver, _| {
            let each: Vec<&str> = driver.object("spec").map(|s| s.strings("volumeLifecycleModes").collect()).unwrap_or_default();
            if each.is_empty() { "<none>".into() } else { each.join(",").into() }
        }),
    AGE_COLUMN,
];

/// How much room a class has in some part of the cluster.
pub(super) fn capacity() -> Row {
    Row {
        metadata: Look::BOTH,
        default: |capacity| {
            defaults::quantity(capacity, "capacity");
            defaults::quantity(capacity, "maximumVolumeSize");
        },
        validate: csi::validate_capacity,
        warnings: |capacity, _| csi::capacity_warnings(capacity),
        columns: &CAPACITY_COLUMNS,
        ..Row::new(
            Resource::namespaced("storage.k8s.io", "v1", "CSIStorageCapacity", "csistoragecapacities")
                .conditional_update(),
        )
    }
}

static CAPACITY_COLUMNS: [Column; 2] = [NAME_COLUMN, CREATED_AT_COLUMN];

/// That a volume is to be attached to a node.
pub(super) fn attachment() -> Row {
    Row {
        metadata: Look::WHOLE,
        default: |attachment| {
            let source = attachment.object_mut("spec").and_then(|spec| spec.object_mut("source"));
            if let Some(inline) = source.and_then(|source| source.object_mut("inlineVolumeSpec")) {
                defaults::resource_list(inline, "capacity");
                defaults::sources(inline);
            }
        },
        prepare: |part, attachment, old| match (part, old) {
            (Part::Main, None) => {
                attachment.insert("status", json!({"attached": false}));
            }
            (Part::Main, Some(_)) => {}
            (_, old) => old.into_iter().for_each(|old| keep_metadata(attachment, old)),
        },
        validate: csi::validate_attachment,
        validate_part: |_, attachment, old, errors| csi::validate_attachment(attachment, Some(old), errors),
        columns: &ATTACHMENT_COLUMNS,
        ..Row::new(
            Resource::cluster("storage.k8s.io", "v1", "VolumeAttachment", "volumeattachments")
                .parts(&[Subresource::Status])
                .conditional_update()
                .returns_deleted(),
        )
    }
}

static ATTACHMENT_COLUMNS: [Column; 6] = [
    NAME_COLUMN,
    Column {
        name: Name::Borrowed("Attacher"),
        description: Name::Borrowed(
            "attacher indicates the name of the volume driver that MUST handle this request. This is the name returned by GetPluginName().",
        ),
        cell: Cell::Text("/spec/attacher"),
        ..NAME_COLUMN
    },
    Column::text("PV", "persistentVolumeName represents the name of the persistent volume to attach.")
        .at("/spec/source/persistentVolumeName"),
    Column::text("Node", "nodeName represents the node that the volume should be attached to.").at("/spec/nodeName"),
    Column::flag("Attached", "attached indicates the volume is successfully attached. This field must only be set by the entity completing the attach operation, i.e. the external-attacher.")
        .by(|attachment, _| attachment.object("status").is_some_and(|s| s.flag("attached")).into()),
    AGE_COLUMN,
];
