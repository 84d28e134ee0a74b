//! An embedded Kubernetes API server.
//!
//! ```text
//!   socket (serve, tls) --\
//!                          +--> http --> registry --> storage
//!   same process (tower) -/       |          |
//!                                 |          +-- kinds, validation, admission: what a write may be
//!                                 +-- schema: bodies to objects, patches, managed fields, OpenAPI
//! ```
//!
//! [`ApiServer`] is one server with its storage. [`ApiServer::service`] answers requests with no socket, for clients in
//! the same process; [`serve::serve`] answers them on a listener. It knows nothing of controllers: to it they are clients.
//!
//! Time comes from a [`clock::Clock`], uids and generated names from a [`generator::Generator`]: given both, the same
//! requests give the same answers.
//!
//! Codes such as `RS-07` or `B-02` are rows of the contract: `docs/contract/` in the repository says what each asks for.

pub mod access;
pub mod admission;
pub mod cel;
pub mod certificates;
pub mod clock;
pub mod codec;
pub mod custom;
#[cfg(feature = "disk")]
pub mod disk;
pub mod field;
pub mod generator;
pub mod http;
pub mod identity;
pub mod kinds;
pub mod model;
pub mod quota;
pub mod registry;
pub mod schema;
pub mod serve;
pub mod snapshot;
pub mod status;
pub mod storage;
pub mod tls;
pub mod validation;
pub mod version;
pub mod webhook;
pub mod yaml;

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, MutexGuard, PoisonError};

use muster_objects::time::Timestamp;
use tokio::sync::watch::Sender;

use crate::access::authentication::{Anonymous, Authenticator, with_group};
use crate::access::tokens::{self, Issuer};
use crate::access::{User, authorizer};
use crate::clock::Clock;
use crate::generator::Generator;
use crate::http::in_flight::InFlight;
use crate::http::muster::Extension;
use crate::http::{Service, Shared};
use crate::identity::Identity;
use crate::kinds::Kind;
use crate::registry::Registry;
use crate::registry::settings::Settings;
use crate::storage::disk::{Disk, Keeper, Stored, WriteError};
use crate::storage::{Retention, Storage};

pub use crate::registry::first::NAMESPACES as FIRST_NAMESPACES;

/// How a server is made.
#[derive(Debug)]
pub struct Options {
    /// The time.
    pub clock: Clock,
    /// Uids and generated names.
    pub generator: Generator,
    /// How much history watches and older lists can see.
    pub retention: Retention,
    /// How many requests may be handled at once, watches not counted, before others are answered 429.
    pub most_in_flight: usize,
    /// How many bytes of bodies and unsent answers there may be at once before others are answered 429.
    pub most_bytes_in_flight: usize,
    /// The bearer token that grants everything.
    pub token: String,
    /// Whose other bearer tokens are accepted ([`access::authentication::token_file::read`]).
    pub tokens: HashMap<String, Arc<User>>,
    /// Which requests are allowed.
    pub authorization: authorizer::Mode,
    /// Which requests without a credential are handled, as those of nobody; where it does not say, all, unless everybody
    /// may do anything.
    pub anonymous: Option<Anonymous>,
    /// What it is told of its cluster.
    pub settings: Settings,
    /// How tokens of service accounts are issued and accepted.
    pub service_account_tokens: tokens::Options,
}

impl Options {
    /// The machine's time and randomness.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn system() -> io::Result<Self> {
        Ok(Self {
            clock: Clock::system(),
            generator: Generator::random()?,
            retention: Retention::default(),
            most_in_flight: MOST_IN_FLIGHT,
            most_bytes_in_flight: MOST_BYTES_IN_FLIGHT,
            token: identity::random_token()?,
            tokens: HashMap::new(),
            authorization: authorizer::Mode::default(),
            anonymous: None,
            settings: Settings::default(),
            service_account_tokens: tokens::Options::default(),
        })
    }

    /// A fixed time, which moves with tokio's, and everything random from a seed: the same requests get the same
    /// answers, byte for byte, but for the signatures of tokens.
    #[must_use]
    pub fn seeded(seed: u64, start: Timestamp) -> Self {
        Self {
            clock: Clock::starting_at(start.as_nanos()),
            generator: Generator::seeded(seed),
            retention: Retention::default(),
            most_in_flight: MOST_IN_FLIGHT,
            most_bytes_in_flight: MOST_BYTES_IN_FLIGHT,
            token: format!("seed-{seed}"),
            tokens: HashMap::new(),
            authorization: authorizer::Mode::default(),
            anonymous: None,
            settings: Settings::default(),
            service_account_tokens: tokens::Options::default(),
        }
    }
}

/// What a server goes on with.
#[derive(Debug, Default)]
pub struct Kept {
    /// The version of the last commit.
    pub version: u64,
    /// All objects.
    pub stored: Vec<Stored>,
    /// Who the cluster is: its token and its key for tokens are in the place of those of the options.
    pub identity: Option<Identity>,
    /// Where the objects to come are kept; `None` is in memory alone.
    pub disk: Option<Box<dyn Disk>>,
    /// Whether nothing is written to it before [`ApiServer::write_to_disk`].
    pub held: bool,
}

/// Requests at once, watches not counted, where the options do not say.
const MOST_IN_FLIGHT: usize = 4096;

/// Bytes of bodies and unsent answers at once where the options do not say.
const MOST_BYTES_IN_FLIGHT: usize = 256 << 20;

/// A server with its storage. Cheap to clone; clones are the same server.
#[derive(Debug, Clone)]
pub struct ApiServer {
    shared: Arc<Shared>,
}

impl ApiServer {
    /// A server of all kinds, with the first namespaces in it.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let storage = Arc::new(Storage::new(1, options.retention));
        Self::over(storage, kinds::all(), options, None).begin(Registry::copy_first_objects)
    }

    /// A server of some kinds.
    #[must_use]
    pub fn with_kinds(kinds: Vec<Arc<dyn Kind>>, options: Options) -> Self {
        let storage = Arc::new(Storage::new(1, options.retention));
        Self::over(storage, kinds, options, None).begin(Registry::create_first_objects)
    }

    /// A server of all kinds that goes on with what was kept, and keeps what comes.
    ///
    /// # Errors
    /// When a key or an object is none, with nothing written, or the system gives no thread for the disk.
    pub fn resume(mut options: Options, kept: Kept) -> io::Result<Self> {
        let Kept { version, stored, identity, disk, held } = kept;
        if let Some(identity) = &identity {
            options.token.clone_from(&identity.token);
            options.service_account_tokens.signing = Some(identity.service_account_key()?);
        }
        let storage = Arc::new(Storage::new(1, options.retention));
        storage.load(version, stored);
        let keeper = disk.map(|disk| Keeper::hold(&storage, disk)).transpose()?;
        let server = Self::over(storage, kinds::all(), options, identity);
        *server.keeper() = keeper;
        server.registry().resume();
        let unreadable = server.registry().storage.unreadable();
        if !unreadable.is_empty() {
            let what = format!("what is kept as {} is no object", unreadable.join(", "));
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        let server = server.begin(Registry::copy_first_objects).begin(Registry::repair_kept_addresses);
        if !held {
            server.keeper().iter().for_each(Keeper::begin);
        }
        Ok(server)
    }

    fn over(storage: Arc<Storage>, kinds: Vec<Arc<dyn Kind>>, options: Options, identity: Option<Identity>) -> Self {
        let generator = options.generator.going_on(storage.version());
        let registry = Registry::new(kinds, options.clock, generator, storage, options.authorization, options.settings);
        let in_flight = InFlight::new(options.most_in_flight, options.most_bytes_in_flight);
        let issuer = Issuer::new(options.service_account_tokens);
        // Where everybody may do anything, nobody is let in without a name.
        let anonymous = options.anonymous.unwrap_or(match options.authorization {
            authorizer::Mode::AlwaysAllow => Anonymous::Refused,
            _ => Anonymous::Allowed,
        });
        let authenticator = Authenticator::new(options.token, options.tokens, issuer, anonymous);
        Self { shared: Arc::new(Shared::new(registry, authenticator, in_flight, identity)) }
    }

    fn begin(self, create_first: fn(&Registry)) -> Self {
        create_first(self.registry());
        self
    }

    fn keeper(&self) -> MutexGuard<'_, Option<Keeper>> {
        self.shared.keeper.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers requests of clients in the same process, who need no credential.
    #[must_use]
    pub fn service(&self) -> Service {
        Service::new(Arc::clone(&self.shared), Some(self.shared.authenticator.administrator()))
    }

    /// Answers requests of whoever their credentials say.
    #[must_use]
    pub fn guarded_service(&self) -> Service {
        Service::new(Arc::clone(&self.shared), None)
    }

    /// Answers requests of a client in the same process, who needs no credential to be this user, and is in the group of
    /// all who have a name.
    #[must_use]
    pub fn service_as(&self, user: User) -> Service {
        Service::new(Arc::clone(&self.shared), Some(Arc::new(with_group(user))))
    }

    /// The bearer token that grants everything.
    #[must_use]
    pub fn token(&self) -> &str {
        self.shared.authenticator.token()
    }

    /// A token of a service account, by name and uid, to be kept in a Secret; `None` where the system gives no
    /// randomness.
    #[must_use]
    pub fn token_for_secret(&self, namespace: &str, account: (&str, &str), secret: &str) -> Option<String> {
        self.shared.authenticator.issuer.issue_for_secret(namespace, account, secret)
    }

    /// The kinds and their objects.
    #[must_use]
    pub fn registry(&self) -> &Registry {
        &self.shared.registry
    }

    /// Has an extension answer `/muster/NAME` and the paths below it, in place of an earlier one of that name. It may hold
    /// what holds this server: [`ApiServer::stop`] lets go of it.
    pub fn extend(&self, name: &'static str, extension: Arc<dyn Extension>) {
        self.shared.extensions.add(name, extension);
    }

    /// Ends all watches and forgets the extensions, for good.
    pub fn stop(&self) {
        self.shared.extensions.clear();
        self.shared.stopping.send_replace(true);
    }

    /// Writes to the disk what was held back, where there is one, and from now on whatever comes.
    ///
    /// # Errors
    /// What the disk has against it; then nothing was written.
    pub async fn write_to_disk(&self) -> Result<(), WriteError> {
        let storage = &self.registry().storage;
        let (undone, version) = (storage.undone(), storage.version());
        self.keeper().iter().for_each(Keeper::begin);
        storage.settled(undone, version).await
    }

    /// Writes to the disk what is still to be written, where there is one, and lets go of it: later commits are refused, and
    /// what is still held back is dropped.
    pub fn let_go_of_disk(&self) {
        let keeper = self.keeper().take();
        drop(keeper);
    }

    /// Turns true when watches are to end: for who serves [`Self::guarded_service`] in a way of its own.
    #[must_use]
    pub fn stopping(&self) -> Sender<bool> {
        self.shared.stopping.clone()
    }
}
