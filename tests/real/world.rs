//! What the tests of one run have: the programs, a folder, and a control plane for all that do not disturb each other.

use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::assets::Assets;
use crate::control_plane::ControlPlane;
use crate::manager::Manager;
use crate::permissions;
use crate::workloads::Space;

/// The surroundings of every test. Everything that was started ends when it is dropped.
pub(crate) struct World {
    // In this order: who asks ends before who answers, and the folder goes last.
    shared: OnceLock<Shared>,
    runtime: Runtime,
    assets: Assets,
    folder: TempDir,
}

/// A control plane with nodes and one manager that leads.
struct Shared {
    _manager: Manager,
    plane: ControlPlane,
}

impl World {
    pub(crate) fn new(assets: Assets) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
        let folder = tempfile::Builder::new().prefix("muster-real-").tempdir().expect("a temporary folder");
        Self { shared: OnceLock::new(), runtime, assets, folder }
    }

    /// Runs a test in a namespace of its own on the shared control plane. Whatever it makes the manager do, the
    /// manager is granted.
    pub(crate) fn shared(&self, namespace: &str, test: impl FnOnce(&Space<'_>)) {
        let shared = self.shared.get_or_init(|| self.start_shared());
        let space = Space::new(&shared.plane, namespace);
        test(&space);
        permissions::nothing_was_refused(&shared.plane, namespace);
    }

    /// A control plane of the test's own, without nodes.
    pub(crate) fn plane(&self, name: &str) -> ControlPlane {
        ControlPlane::start(&self.assets, self.folder_of(name), self.runtime.handle())
    }

    /// A control plane of the test's own, with nodes.
    pub(crate) fn plane_with_nodes(&self, name: &str) -> ControlPlane {
        ControlPlane::with_nodes(&self.assets, self.folder_of(name), self.runtime.handle())
    }

    /// Leaves the folder with all logs behind and says where it is.
    pub(crate) fn keep(&mut self) -> PathBuf {
        self.folder.disable_cleanup(true);
        self.folder.path().to_owned()
    }

    fn start_shared(&self) -> Shared {
        let plane = ControlPlane::with_nodes(&self.assets, self.folder_of("shared"), self.runtime.handle());
        let kubeconfig = permissions::least(&plane);
        let mut manager = Manager::start("manager-a", &kubeconfig, plane.folder(), &[]);
        manager.says("starting workers");
        Shared { _manager: manager, plane }
    }

    fn folder_of(&self, name: &str) -> PathBuf {
        let folder = self.folder.path().join(name);
        fs::create_dir(&folder).expect("a folder of that name is not there yet");
        folder
    }
}
