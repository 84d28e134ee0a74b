//! From a Service to an address. The reference calls its cluster IP, behind which a proxy chooses a ready endpoint; here
//! cluster IPs lead nowhere, and the endpoint is chosen at once.

use crate::model::{Fields as _, Object, metadata};
use crate::registry::Registry;
use crate::storage::Range;

/// The label that names an EndpointSlice's Service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// A host and its port behind a Service.
///
/// # Errors
/// That there is none, in the reference's words.
pub(super) fn endpoint(registry: &Registry, namespace: &str, name: &str, port: u16) -> Result<(String, u16), String> {
    let missing = || format!("service \"{name}\" not found");
    let services = registry.find("", "v1", "services").ok_or_else(missing)?;
    let service = registry.storage.get(services.id, namespace, name).ok_or_else(missing)?.object();
    let empty = Object::new();
    let spec = service.object("spec").unwrap_or(&empty);
    match (spec.text("type"), spec.text("clusterIP")) {
        ("ClusterIP", "None") => return Err("cannot route to service with ClusterIP \"None\"".to_owned()),
        ("ClusterIP" | "LoadBalancer" | "NodePort", _) => {}
        ("ExternalName", _) => return Ok((spec.text("externalName").to_owned(), port)),
        (other, _) => return Err(format!("unsupported service type \"{other}\"")),
    }
    let Some(wanted) = spec.items("ports").find(|found| found.int("port") == i64::from(port)) else {
        return Err(format!("no service port {port} found for service \"{name}\""));
    };
    let mut slices = slices(registry, namespace, name);
    // Those of the Service's first family come first.
    let family = spec.strings("ipFamilies").next().unwrap_or_default();
    slices.sort_by_key(|slice| slice.text("addressType") != family);
    let mut ready = Vec::new();
    for slice in &slices {
        let port = slice.items("ports").find(|port| port.text("name") == wanted.text("name"));
        let Some(port) = port.and_then(|port| u16::try_from(port.maybe_int("port")?).ok()) else { continue };
        let is_ready = |endpoint: &&Object| {
            endpoint.object("conditions").and_then(|conditions| conditions.maybe_flag("ready")).unwrap_or(true)
        };
        let addresses = slice.items("endpoints").filter(is_ready).filter_map(|found| found.strings("addresses").next());
        ready.extend(addresses.map(|address| (address.to_owned(), port)));
        if !ready.is_empty() {
            break;
        }
    }
    if ready.is_empty() {
        // As a proxy does for a Service without endpoints.
        let address = spec.text("clusterIP");
        return Err(format!("dial tcp {address}:{port}: connect: connection refused"));
    }
    // Any of them.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "few")]
    let at = (registry.generator.fraction() * ready.len() as f64) as usize;
    Ok(ready.swap_remove(at.min(ready.len() - 1)))
}

fn slices(registry: &Registry, namespace: &str, name: &str) -> Vec<Object> {
    let Some(kind) = registry.find("discovery.k8s.io", "v1", "endpointslices") else { return Vec::new() };
    let range = Range { namespace, ..Range::default() };
    let listed = registry.storage.list(kind.id, &range, None).map(|listed| listed.entries).unwrap_or_default();
    let own = listed.iter().filter(|entry| entry.label(SERVICE_NAME) == Some(name)).map(|entry| entry.object());
    own.filter(|slice| !metadata(slice).contains_key("deletionTimestamp")).collect()
}
