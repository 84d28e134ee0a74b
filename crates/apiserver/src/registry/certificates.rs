//! What a certificate signing request gets from the server: who asks.

use muster_tree::Value;

use super::{Registry, Served};
use crate::access::User;
use crate::model::{Fields as _, Object};

impl Registry {
    /// Puts down who asks for a certificate, whatever the request says.
    pub(super) fn note_requester(&self, served: &Served, object: &mut Object, user: &User) {
        let resource = served.resource();
        if resource.group != "certificates.k8s.io" || resource.plural != "certificatesigningrequests" {
            return;
        }
        let spec = object.object_or_new("spec");
        for field in ["username", "uid", "groups", "extra"] {
            spec.remove(field);
        }
        if let Value::Object(info) = user.info() {
            spec.extend(info);
        }
    }
}
