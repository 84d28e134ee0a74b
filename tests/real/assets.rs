//! The programs of a real control plane, where `KUBEBUILDER_ASSETS` says.

use std::env;
use std::path::{Path, PathBuf};

/// The variable by which the tests of Kubernetes controllers are told.
const VARIABLE: &str = "KUBEBUILDER_ASSETS";

/// Where the programs are.
pub(crate) struct Assets {
    pub(crate) etcd: PathBuf,
    pub(crate) kube_apiserver: PathBuf,
}

impl Assets {
    /// The programs, or nothing where the variable is not set or empty. An error where it names a folder that lacks one
    /// of them: somebody wants these tests and would not get them.
    pub(crate) fn find() -> Result<Option<Self>, String> {
        let Some(folder) = env::var_os(VARIABLE).filter(|folder| !folder.is_empty()) else { return Ok(None) };
        let program = |name: &str| {
            let path = Path::new(&folder).join(name);
            let found = path.is_file().then_some(path);
            found.ok_or_else(|| format!("{VARIABLE} names {}, and there is no file {name} in it", folder.display()))
        };
        Ok(Some(Self { etcd: program("etcd")?, kube_apiserver: program("kube-apiserver")? }))
    }
}
