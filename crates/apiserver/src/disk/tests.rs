//! The file against crashes, damage and a disk that refuses.

mod refused;

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use muster_tree::json;
use redb::StorageBackend;

use super::engine::{Contents, Engine};
use super::{DiskError, Folder};
use crate::identity::Identity;
use crate::storage::disk::{Change, Disk as _, Group, Stored};
use crate::storage::{Draft, Retention, Storage};

/// A medium in memory that knows what was synced, and refuses on command.
#[derive(Debug, Clone, Default)]
struct Memory(Arc<State>);

#[derive(Debug, Default)]
struct State {
    bytes: Mutex<Vec<u8>>,
    /// What there was at the last sync: a loss of power leaves this, and of what followed anything.
    synced: Mutex<Vec<u8>>,
    syncs: AtomicU64,
    full: AtomicBool,
    /// Syncs fail, but for so many first.
    unsynced: AtomicBool,
    synced_first: AtomicU64,
}

impl Memory {
    fn of(bytes: &[u8]) -> Self {
        let memory = Self::default();
        *memory.0.bytes.lock().unwrap() = bytes.to_vec();
        *memory.0.synced.lock().unwrap() = bytes.to_vec();
        memory
    }

    fn bytes(&self) -> Vec<u8> {
        self.0.bytes.lock().unwrap().clone()
    }

    fn medium(&self) -> Box<dyn Fn() -> io::Result<Box<dyn StorageBackend>> + Send> {
        let memory = self.clone();
        Box::new(move || Ok(Box::new(memory.clone())))
    }

    fn open(&self) -> Result<(Engine, Contents), DiskError> {
        Engine::open_on(Path::new("state"), self.medium(), true)
    }

    fn create() -> (Self, Engine) {
        let memory = Self::default();
        let engine = Engine::create_on(Path::new("state"), memory.medium(), &Contents::default(), true);
        (memory, engine.expect("nothing refuses"))
    }
}

impl StorageBackend for Memory {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.bytes.lock().unwrap().len() as u64)
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let bytes = self.0.bytes.lock().unwrap();
        let at = usize::try_from(offset).unwrap();
        let part = bytes.get(at..at + out.len()).ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
        out.copy_from_slice(part);
        Ok(())
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut bytes = self.0.bytes.lock().unwrap();
        if self.0.full.load(Ordering::Relaxed) && len > bytes.len() as u64 {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        bytes.resize(usize::try_from(len).unwrap(), 0);
        Ok(())
    }
    fn sync_data(&self) -> io::Result<()> {
        let lets = |left: u64| left.checked_sub(1);
        if self.0.unsynced.load(Ordering::Relaxed)
            && self.0.synced_first.fetch_update(Ordering::Relaxed, Ordering::Relaxed, lets).is_err()
        {
            return Err(io::Error::other("the device is gone"));
        }
        self.0.syncs.fetch_add(1, Ordering::Relaxed);
        *self.0.synced.lock().unwrap() = self.bytes();
        Ok(())
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if self.0.full.load(Ordering::Relaxed) {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        let at = usize::try_from(offset).unwrap();
        self.0.bytes.lock().unwrap()[at..at + data.len()].copy_from_slice(data);
        Ok(())
    }
}

fn draft(name: &str, text: &str) -> Draft {
    let object = json!({"kind": "K", "apiVersion": "v1", "metadata": {"name": name, "namespace": "n"}, "text": text});
    Draft::new(object.as_object().expect("an object"), String::new(), None)
}

/// A storage whose commits are written to a disk of their own.
fn storage() -> Storage {
    Storage::new(1, Retention::default())
}

fn names(contents: &Contents) -> Vec<(String, u64)> {
    contents.stored.iter().map(|stored| (format!("{}/{}", stored.table, stored.name), stored.version)).collect()
}

/// Writes objects `0..count` as one group each, and answers the engine, as a process leaves it that is killed.
fn written(count: u64) -> (Memory, Engine) {
    let (memory, mut engine) = Memory::create();
    let storage = storage();
    let table = storage.add_resource("/things", |_| None);
    for at in 0..count {
        let entry = storage.create(table, draft(&format!("o{at}"), &"x".repeat(700))).expect("a new name");
        let changes = vec![Change::Put("/things".into(), entry)];
        engine.write(&Group { version: at + 1, changes }).expect("nothing refuses");
    }
    (memory, engine)
}

/// Contract: API-24
#[test]
fn what_was_written_is_there_after_the_process_was_killed() {
    let (memory, engine) = written(40);
    let (_, contents) = Memory::of(&memory.bytes()).open().expect("a whole file");
    assert_eq!(contents.stored.len(), 40);
    assert!(contents.version > 40, "versions that others may have seen are not given again: {}", contents.version);
    let json: muster_tree::Value = serde_json::from_slice(&contents.stored[3].json).expect("JSON");
    let version = contents.stored[3].version.to_string();
    assert_eq!(
        (&json["metadata"]["resourceVersion"], json["text"].as_str()),
        (&json!(version), Some(&*"x".repeat(700)))
    );

    Box::new(engine).close();
    let (_, contents) = Memory::of(&memory.bytes()).open().expect("a whole file");
    assert_eq!((contents.stored.len(), contents.version), (40, 40), "closed in order");
}

/// Contract: API-24
#[test]
fn a_table_that_is_dropped_is_gone_and_its_neighbours_are_not() {
    let (memory, mut engine) = Memory::create();
    let storage = storage();
    let mut version = 0;
    for name in ["g/a", "g/aa", "g/b"] {
        let table = storage.add_resource(name, |_| None);
        for object in ["x", "y"] {
            let entry = storage.create(table, draft(object, "")).expect("a new name");
            version = entry.version;
            engine.write(&Group { version, changes: vec![Change::Put(name.into(), entry)] }).expect("nothing refuses");
        }
    }
    let changes = vec![Change::Drop("g/a".into()), Change::Remove("g/b".into(), "n".into(), "x".into())];
    engine.write(&Group { version: version + 1, changes }).expect("nothing refuses");
    let (_, contents) = memory.open().expect("a whole file");
    let expected = [("g/aa/x", 3), ("g/aa/y", 4), ("g/b/y", 6)].map(|(name, version)| (name.to_owned(), version));
    assert_eq!(names(&contents), expected);
}

/// Contract: API-24
#[test]
fn a_loss_of_power_in_a_write_leaves_what_was_acknowledged() {
    let (memory, mut engine) = written(10);
    let storage = storage();
    let table = storage.add_resource("/things", |_| None);
    let before = memory.bytes();
    // The eleventh does not end: of what it wrote some blocks are there, and some are not.
    memory.0.unsynced.store(true, Ordering::Relaxed);
    let entry = storage.create(table, draft("o10", &"y".repeat(3000))).expect("a new name");
    let refused = engine.write(&Group { version: 11, changes: vec![Change::Put("/things".into(), entry)] });
    assert!(refused.expect_err("it was not synced").to_string().contains("cannot write state"));
    let torn = memory.bytes();
    for seed in 0..40_usize {
        let mut bytes = torn.clone();
        for (at, block) in bytes.chunks_mut(512).enumerate() {
            if (at * 7919 + seed * 104_729) % 5 < 2 {
                let old = before.get(at * 512..at * 512 + block.len());
                block.copy_from_slice(old.unwrap_or(&vec![0; block.len()]));
            }
        }
        let (_, contents) = Memory::of(&bytes).open().expect("what was acknowledged");
        assert_eq!(contents.stored.len(), 10, "seed {seed}");
    }
}

/// Contract: API-24
#[test]
fn any_byte_that_is_flipped_is_found_or_was_not_used() {
    for killed in [true, false] {
        let (memory, engine) = written(12);
        if killed {
            std::mem::forget(engine);
        } else {
            Box::new(engine).close();
        }
        let whole = memory.bytes();
        let (_, contents) = Memory::of(&whole).open().expect("a whole file");
        let (expected, mut found) = (names(&contents), 0);
        let last = whole.iter().rposition(|byte| *byte != 0).expect("something");
        // All of the first page, where the roots are; some of every other.
        for at in (0..4096).chain((4096..=last).step_by(97)) {
            let mut bytes = whole.clone();
            // Of the byte that says which commit is the last, a bit that does; of a text, one that makes another.
            bytes[at] ^= 1;
            let flipped = Memory::of(&bytes);
            match flipped.open() {
                Ok((_, contents)) => assert_eq!(names(&contents), expected, "byte {at}, killed {killed}"),
                Err(DiskError::Corrupt { offset, .. }) => {
                    found += 1;
                    let page = offset..offset + 64 * 1024;
                    assert!(page.contains(&(at as u64)), "byte {at} is named as {offset}");
                    assert!(flipped.bytes() == bytes, "nothing is changed");
                }
                Err(other) => panic!("byte {at}: {other}"),
            }
        }
        assert!(found > 20, "{found}");
    }
}

/// Contract: API-24
#[test]
fn a_file_that_is_cut_or_empty_is_corrupt() {
    let (memory, _engine) = written(12);
    let whole = memory.bytes();
    for length in [0, 1, 100, 4096, whole.len() / 2, whole.len() - 1] {
        let error = Memory::of(&whole[..length]).open().expect_err("it is cut");
        assert!(matches!(error, DiskError::Corrupt { .. }), "{length}: {error}");
        assert!(error.to_string().contains("state is corrupt at offset"), "{error}");
    }
}

/// Contract: API-37
#[test]
fn a_folder_is_one_processs_and_says_what_is_wrong_with_it() {
    let parent = tempfile::tempdir().expect("a temporary folder");
    let path = parent.path().join("new/one");
    let (mut folder, engine, contents) = Folder::open(&path, false).expect("a new folder");
    assert_eq!((contents.version, contents.stored.len()), (0, 0));
    let address = "127.0.0.1:1234".parse().expect("an address");
    folder.set_address(address).expect("it can be written");
    let identity = folder.identity.clone();

    let in_use = Folder::open(&path, false).expect_err("it is in use");
    let said = format!("{} is in use by process {}", path.display(), std::process::id());
    assert!(in_use.to_string().starts_with(&said), "{in_use}");
    // Nor is it another one's whose lock somebody took for a leftover.
    std::fs::remove_file(path.join("lock")).expect("it is there");
    let in_use = Folder::open(&path, false).expect_err("its file is in use");
    let why = std::error::Error::source(&in_use).map(ToString::to_string);
    assert_eq!(why.as_deref(), Some("another process writes it"), "{in_use}");
    Box::new(engine).close();
    drop(folder);
    let (folder, engine, _) = Folder::open(&path, false).expect("it is there");
    assert_eq!((&folder.identity, folder.identity.address), (&identity, Some(address)));
    drop((folder, engine));

    use std::os::unix::fs::PermissionsExt as _;
    let mode = |path: &Path| path.metadata().expect("a file").permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o700);
    for file in ["lock", "format", "identity.json", "state.redb"] {
        assert_eq!(mode(&path.join(file)), 0o600, "{file}");
    }
    // A folder that was made by hand, or came out of an archive.
    let set_mode = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("it is ours");
    set_mode(0o755);
    drop(Folder::open(&path, false).expect("it is there"));
    assert_eq!(mode(&path), 0o700);
    let occupied = Folder::create(&path, identity, &Contents::default(), false).expect_err("it is not empty");
    assert!(matches!(occupied, DiskError::Occupied { .. }), "{occupied}");

    std::fs::write(path.join("format"), "muster-data 2\n").expect("a file");
    let newer = Folder::open(&path, false).expect_err("it is newer");
    assert!(newer.to_string().contains("has format 2, and this version of muster knows 1"), "{newer}");
    std::fs::write(path.join("format"), "muster-data 1\n").expect("a file");
    std::fs::remove_file(path.join("state.redb")).expect("it is there");
    let missing = Folder::open(&path, false).expect_err("a file is missing");
    assert!(missing.to_string().contains("state.redb is missing"), "{missing}");

    let foreign = parent.path().join("foreign");
    std::fs::create_dir(&foreign).expect("a folder");
    std::fs::write(foreign.join("precious.txt"), "x").expect("a file");
    let before = mode(&foreign);
    let error = Folder::open(&foreign, false).expect_err("it is somebody else's");
    assert!(error.to_string().contains("precious.txt is there"), "{error}");
    assert_eq!(mode(&foreign), before);
    let empty = Folder::read(parent.path()).expect_err("there is nothing");
    assert!(matches!(empty, DiskError::Empty { .. }), "{empty}");
}

fn text_of(snapshot: &[u8]) -> String {
    let mut text = String::new();
    io::Read::read_to_string(&mut flate2::read::GzDecoder::new(snapshot), &mut text).expect("text");
    text
}

/// Contract: API-37
#[test]
fn a_folder_whose_making_was_ended_anywhere_can_be_used() {
    let parent = tempfile::tempdir().expect("a temporary folder");
    let whole = parent.path().join("whole");
    let contents = Contents { version: 7, stored: Vec::new() };
    let identity = Identity::generate().expect("randomness");
    drop(Folder::create(&whole, identity.clone(), &contents, false).expect("a new folder"));
    // In the order in which they are made; the last is renamed from beside its place.
    let steps = ["lock", "state.redb.tmp", "identity.json", "format"];
    for made in 0..=steps.len() {
        let path = parent.path().join(format!("ended-{made}"));
        std::fs::create_dir(&path).expect("a folder");
        for name in &steps[..made] {
            std::fs::copy(whole.join(name.trim_end_matches(".tmp")), path.join(name)).expect("a file");
        }
        let (folder, engine, found) = Folder::open(&path, false).expect("nobody was told of it");
        let is_whole = made == steps.len();
        assert_eq!((folder.identity == identity, found.version >= 7), (is_whole, is_whole), "{made}");
        assert!(!path.join("state.redb.tmp").exists());
        drop((folder, engine));
    }
    // Of what may be a cluster nothing is removed.
    std::fs::remove_file(whole.join("format")).expect("a file");
    let error = Folder::open(&whole, false).expect_err("its format is not known");
    assert!(error.to_string().contains("format is not"), "{error}");
    assert!(whole.join("state.redb").exists() && whole.join("identity.json").exists());
}

/// Contract: API-37
#[test]
fn a_version_that_leaves_no_room_for_more_is_refused() {
    let stored = |version| Stored {
        table: "/things".into(),
        namespace: "n".into(),
        name: "a".into(),
        version,
        json: Bytes::from_static(b"{}"),
    };
    for (contents, said) in [
        (Contents { version: u64::MAX, stored: Vec::new() }, "its version is 18446744073709551615, expected 46116"),
        (Contents { version: 5, stored: vec![stored(6)] }, "/things/n/a has version 6, and the whole has 5"),
    ] {
        let memory = Memory::default();
        Engine::create_on(Path::new("state"), memory.medium(), &contents, true).expect("nothing refuses");
        let error = memory.open().expect_err("it is wrong");
        assert!(error.to_string().contains(said), "{error}");
    }
}

/// Contract: API-37
#[test]
fn a_snapshot_comes_back_whole_and_any_change_of_it_is_refused_with_the_line() {
    use crate::snapshot::Snapshot;
    let stored = |name: &str, version| Stored {
        table: "apps/deployments".into(),
        namespace: "n".into(),
        name: name.into(),
        version,
        json: Bytes::from(json!({"metadata": {"name": name, "namespace": "n"}}).to_string()),
    };
    let identity = Identity::generate().expect("randomness");
    // Where a server listens is not for a file to say.
    let mut elsewhere = identity.clone();
    elsewhere.address = "203.0.113.1:80".parse().ok();
    let file =
        Snapshot { identity: elsewhere.clone(), version: 9, stored: Vec::new() }.write().flatten().collect::<Vec<u8>>();
    assert!(!text_of(&file).contains("203.0.113.1"));
    let snapshot = Snapshot { identity, version: 9, stored: vec![stored("a", 3), stored("b", 9)] };
    let file: Vec<u8> = snapshot.write().flatten().collect();
    let read = Snapshot::read(&file[..]).expect("what was written");
    assert_eq!((read.version, read.identity, read.stored), (9, snapshot.identity.clone(), snapshot.stored.clone()));

    for length in 0..file.len() {
        let error = Snapshot::read(&file[..length]).expect_err("it is cut");
        assert!(error.to_string().starts_with("line "), "{error}");
    }
    // The head of gzip has bytes that mean nothing.
    for at in 10..file.len() {
        let mut changed = file.clone();
        changed[at] ^= 0x10;
        if let Ok(read) = Snapshot::read(&changed[..]) {
            // Some bits of compressed data mean nothing.
            assert_eq!((read.version, &read.identity, &read.stored), (9, &snapshot.identity, &snapshot.stored), "{at}");
        }
    }
    let twice = [&file[..], &file[..]].concat();
    assert!(Snapshot::read(&twice[..]).is_err_and(|error| error.to_string().contains("something follows on the end")));
    let repacked = |text: &str| {
        use std::io::Write as _;
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        out.write_all(text.as_bytes()).expect("memory");
        Snapshot::read(&out.finish().expect("memory")[..]).map(|read| read.identity).map_err(|error| error.to_string())
    };
    let text = text_of(&file);
    assert_eq!(repacked(&text), Ok(snapshot.identity.clone()));
    let addressed = text.replacen(&snapshot.identity.to_json(), &elsewhere.to_json(), 1);
    let (lines, end) = addressed.split_at(addressed.find("{\"objects\"").expect("the end"));
    assert_ne!(addressed, text);
    let mut sum = flate2::Crc::new();
    sum.update(lines.as_bytes());
    let sealed = format!("{lines}{}{:08x}\"}}\n", &end[..end.len() - 11], sum.sum());
    assert_eq!(repacked(&sealed), Ok(snapshot.identity.clone()));
    for (from, to, said) in [
        ("muster-snapshot", "something", "line 1: the format is \"something\", expected \"muster-snapshot\""),
        ("\"version\":1}", "\"version\":2}", "line 1: the format has version 2, and this version of muster knows 1"),
        (
            "\"resourceVersion\":9,\"identity\"",
            "\"resourceVersion\":18446744073709551615,\"identity\"",
            "line 2: resourceVersion: found 18446744073709551615, expected 4611686018427387903 at most",
        ),
        ("\"name\":\"a\"", "\"name\":\"c\"", "line 5: the checksum of all lines is "),
        ("\"objects\":2", "\"objects\":3", "line 5: 3 objects were written, and 2 are here"),
        (
            "\"resourceVersion\":3,",
            "\"resourceVersion\":10,",
            "line 3: apps/deployments n/a has version 10, and the whole has 9",
        ),
    ] {
        assert!(text.contains(from), "{from} in {text}");
        let error = repacked(&text.replacen(from, to, 1)).expect_err("it was changed");
        assert!(error.starts_with(said), "{error}");
    }
}
