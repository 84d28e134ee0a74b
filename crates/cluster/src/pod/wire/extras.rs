//! What most pods do not have, out of their JSON: names, claims, and the ConfigMaps and Secrets that they need.

use std::fmt::Write as _;
use std::sync::Arc;

use muster_objects::Interner;
use serde::Deserialize;

use super::terms::terms;
use super::{WireContainer, WireSpec};
use crate::json::{Text, list, push_string};
use crate::pod::{ClaimVolume, NamedPort, Need, NeedKind, NeededBy, PodExtras};
use crate::resources::WireResources;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WireVolume<'a> {
    #[serde(borrow, default)]
    name: Text<'a>,
    #[serde(borrow)]
    persistent_volume_claim: Option<WireClaim<'a>>,
    ephemeral: Option<serde::de::IgnoredAny>,
    #[serde(borrow)]
    config_map: Option<WireSource<'a>>,
    #[serde(borrow)]
    secret: Option<WireSecretVolume<'a>>,
    #[serde(borrow)]
    projected: Option<WireProjected<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireClaim<'a> {
    #[serde(borrow, default)]
    claim_name: Text<'a>,
}

/// A ConfigMap or Secret by its name, some of its keys or one.
#[derive(Deserialize)]
struct WireSource<'a> {
    #[serde(borrow, default)]
    name: Text<'a>,
    #[serde(borrow)]
    key: Option<Text<'a>>,
    #[serde(borrow, default, deserialize_with = "list")]
    items: Vec<WireItem<'a>>,
    optional: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireSecretVolume<'a> {
    #[serde(borrow, default)]
    secret_name: Text<'a>,
    #[serde(borrow, default, deserialize_with = "list")]
    items: Vec<WireItem<'a>>,
    optional: Option<bool>,
}

#[derive(Deserialize)]
struct WireItem<'a> {
    #[serde(borrow, default)]
    key: Text<'a>,
}

#[derive(Deserialize)]
struct WireProjected<'a> {
    #[serde(borrow, default, deserialize_with = "list")]
    sources: Vec<WireProjection<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireProjection<'a> {
    #[serde(borrow)]
    config_map: Option<WireSource<'a>>,
    #[serde(borrow)]
    secret: Option<WireSource<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WireEnv<'a> {
    #[serde(borrow)]
    value_from: Option<WireValueFrom<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireValueFrom<'a> {
    #[serde(borrow)]
    config_map_key_ref: Option<WireSource<'a>>,
    #[serde(borrow)]
    secret_key_ref: Option<WireSource<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WireEnvFrom<'a> {
    #[serde(borrow)]
    config_map_ref: Option<WireSource<'a>>,
    #[serde(borrow)]
    secret_ref: Option<WireSource<'a>>,
}

/// What the pod of that name has of these; none for most pods.
pub(super) fn extras(pod: &str, spec: &WireSpec<'_>, interner: &mut Interner) -> Option<PodExtras> {
    let sidecars = spec.init_containers.iter().filter(|c| c.restart_policy.as_deref() == Some("Always"));
    let ports = spec.containers.iter().chain(sidecars).flat_map(|container| &container.ports);
    let ports = ports.filter_map(|port| {
        let name = port.name.as_deref().filter(|name| !name.is_empty())?;
        Some(NamedPort { name: name.into(), number: port.container_port.unwrap_or(0), protocol: port.protocol() })
    });
    let claims = spec.volumes.iter().filter_map(|volume| {
        let (claim, ephemeral) = match (&volume.persistent_volume_claim, &volume.ephemeral) {
            (Some(claim), _) => (Arc::from(&*claim.claim_name), false),
            (None, Some(_)) => (Arc::from(format!("{pod}-{}", &*volume.name)), true),
            (None, None) => return None,
        };
        Some(ClaimVolume { volume: volume.name.as_box(), claim, ephemeral })
    });
    let mut needs = Vec::new();
    spec.volumes.iter().for_each(|volume| volume.read(&mut needs));
    for container in spec.init_containers.iter().chain(&spec.containers) {
        container.read_needs(interner, &mut needs);
    }
    let containers = spec.init_containers.iter().chain(&spec.containers);
    let resources = containers.filter(|container| container.lists().any(|(_, list)| !list.is_empty()));
    let resources = resources.map(|c| (interner.text(&c.name), interner.text(&c.told_resources()))).collect();
    let extras = PodExtras {
        hostname: spec.hostname.as_ref().map(Text::as_box).unwrap_or_default(),
        subdomain: spec.subdomain.as_ref().map(Text::as_box).unwrap_or_default(),
        ports: ports.collect(),
        claims: claims.collect(),
        needs: needs.into(),
        terms: terms(spec, interner).map(Arc::new),
        ephemeral_containers: spec.ephemeral_containers.iter().map(|c| c.read(interner, false)).collect(),
        resources,
    };
    (extras != PodExtras::default()).then_some(extras)
}

impl WireVolume<'_> {
    fn read(&self, needs: &mut Vec<Need>) {
        let by = || NeededBy::Volume(self.name.as_box());
        if let Some(map) = &self.config_map {
            map.read(&by, NeedKind::ConfigMap, needs);
        }
        if let Some(secret) = &self.secret
            && secret.optional != Some(true)
        {
            push(&by, NeedKind::Secret, &secret.secret_name, &secret.items, needs);
        }
        for source in self.projected.iter().flat_map(|projected| &projected.sources) {
            if let Some(map) = &source.config_map {
                map.read(&by, NeedKind::ConfigMap, needs);
            }
            if let Some(secret) = &source.secret {
                secret.read(&by, NeedKind::Secret, needs);
            }
        }
    }
}

impl<'a> WireContainer<'a> {
    /// What it may take, and what it asks for.
    fn lists(&self) -> impl Iterator<Item = (&'static str, &WireResources<'a>)> {
        let resources = self.resources.as_ref();
        let limits = resources.and_then(|resources| resources.limits.as_ref()).map(|list| ("limits", list));
        let requests = resources.and_then(|resources| resources.requests.as_ref()).map(|list| ("requests", list));
        limits.into_iter().chain(requests)
    }

    /// What a kubelet tells of that.
    fn told_resources(&self) -> String {
        let (mut told, mut allocated) = (r#","resources":{"#.to_owned(), String::new());
        for (at, (name, list)) in self.lists().enumerate() {
            let list = to_json(list);
            let _ = write!(told, r#"{}"{name}":{list}"#, if at == 0 { "" } else { "," });
            if name == "requests" {
                allocated = format!(r#","allocatedResources":{list}"#);
            }
        }
        told + "}" + &allocated
    }

    fn read_needs(&self, interner: &mut Interner, needs: &mut Vec<Need>) {
        if self.env.is_empty() && self.env_from.is_empty() {
            return;
        }
        let name = interner.text(&self.name);
        let by = || NeededBy::Container(Arc::clone(&name));
        let from = self.env_from.iter().map(|from| (&from.config_map_ref, &from.secret_ref));
        let values = self.env.iter().filter_map(|env| env.value_from.as_ref());
        let values = values.map(|from| (&from.config_map_key_ref, &from.secret_key_ref));
        for (map, secret) in from.chain(values) {
            if let Some(map) = map {
                map.read(&by, NeedKind::ConfigMap, needs);
            }
            if let Some(secret) = secret {
                secret.read(&by, NeedKind::Secret, needs);
            }
        }
    }
}

impl WireSource<'_> {
    fn read(&self, by: &dyn Fn() -> NeededBy, kind: NeedKind, needs: &mut Vec<Need>) {
        if self.optional == Some(true) {
            return;
        }
        match &self.key {
            Some(key) => needs.push(Need { by: by(), kind, name: self.name.as_box(), key: Some(key.as_box()) }),
            None => push(by, kind, &self.name, &self.items, needs),
        }
    }
}

fn push(by: &dyn Fn() -> NeededBy, kind: NeedKind, name: &Text<'_>, items: &[WireItem<'_>], needs: &mut Vec<Need>) {
    if items.is_empty() {
        needs.push(Need { by: by(), kind, name: name.as_box(), key: None });
    }
    for item in items {
        needs.push(Need { by: by(), kind, name: name.as_box(), key: Some(item.key.as_box()) });
    }
}

fn to_json(list: &WireResources<'_>) -> String {
    let mut out = String::from("{");
    for (name, quantity) in list {
        if out.len() > 1 {
            out.push(',');
        }
        push_string(&mut out, name);
        out.push(':');
        push_string(&mut out, &quantity.text());
    }
    out + "}"
}
