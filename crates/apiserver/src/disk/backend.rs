//! What redb reads and writes through: it knows where the last read was, holds writes back until the file is known to be
//! whole, leaves out the syncs that are not wanted, and seals the head.
//!
//! The head is the first bytes of the file: which of two commits is the last one, and where they are. redb has checksums of
//! everything but of which one it is. So behind the head, in the same sector, follows one of all of it.

use std::borrow::Cow;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flate2::Crc;
use redb::StorageBackend;

/// How many bytes redb's head has; it is always written whole.
const HEAD: usize = 320;
const SUM: usize = 4;

/// A medium, seen through this.
#[derive(Debug, Clone)]
pub(super) struct Backend(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    medium: Box<dyn StorageBackend>,
    syncs: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// What is held back, in order; `None` once nothing is.
    held: Option<Vec<Step>>,
    last_read: u64,
}

#[derive(Debug)]
enum Step {
    Write(u64, Vec<u8>),
    SetLen(u64),
    Sync,
}

impl Backend {
    /// A backend that holds back all writes.
    pub(super) fn holding(medium: Box<dyn StorageBackend>, syncs: bool) -> Self {
        let state = Mutex::new(State { held: Some(Vec::new()), last_read: 0 });
        Self(Arc::new(Inner { medium, syncs, state }))
    }

    /// Where the last read began.
    pub(super) fn last_read(&self) -> u64 {
        self.state().last_read
    }

    /// Writes what was held back, and holds nothing back any more.
    pub(super) fn release(&self) -> io::Result<()> {
        let held = self.state().held.take().unwrap_or_default();
        for step in held {
            match step {
                Step::Write(offset, data) => self.0.medium.write(offset, &data)?,
                Step::SetLen(len) => self.0.medium.set_len(len)?,
                Step::Sync => self.sync_data()?,
            }
        }
        Ok(())
    }

    /// Whether the head is what was written.
    ///
    /// # Errors
    /// Where it cannot be read.
    pub(super) fn is_sealed(&self) -> io::Result<bool> {
        let mut found = [0; HEAD + SUM];
        self.read(0, &mut found)?;
        Ok(*sealed(0, &found[..HEAD]) == found[..])
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic under this lock leaves nothing half done.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        let state = self.state();
        let held = state.held.iter().flatten().rev().find_map(|step| match step {
            Step::SetLen(len) => Some(*len),
            _ => None,
        });
        held.map_or_else(|| self.0.medium.len(), Ok)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut state = self.state();
        state.last_read = offset;
        let Some(held) = &state.held else {
            drop(state);
            return self.0.medium.read(offset, out);
        };
        // What the file does not have yet is zero.
        let there = usize::try_from(self.0.medium.len()?.saturating_sub(offset)).unwrap_or(usize::MAX).min(out.len());
        self.0.medium.read(offset, &mut out[..there])?;
        out[there..].fill(0);
        let end = offset + out.len() as u64;
        for step in held {
            let Step::Write(at, data) = step else { continue };
            let (from, to) = (offset.max(*at), end.min(at + data.len() as u64));
            if from < to {
                let [from_out, to_out, from_data, to_data] = [from - offset, to - offset, from - at, to - at]
                    .map(|at| usize::try_from(at).unwrap_or(usize::MAX));
                out[from_out..to_out].copy_from_slice(&data[from_data..to_data]);
            }
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        match &mut self.state().held {
            Some(held) => held.push(Step::SetLen(len)),
            None => return self.0.medium.set_len(len),
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        if let Some(held) = &mut self.state().held {
            held.push(Step::Sync);
            return Ok(());
        }
        if self.0.syncs { self.0.medium.sync_data() } else { Ok(()) }
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let data = sealed(offset, data);
        match &mut self.state().held {
            Some(held) => held.push(Step::Write(offset, data.into_owned())),
            None => return self.0.medium.write(offset, &data),
        }
        Ok(())
    }
}

/// A head with its checksum; anything else as it is.
fn sealed(offset: u64, data: &[u8]) -> Cow<'_, [u8]> {
    if offset != 0 || data.len() != HEAD {
        return Cow::Borrowed(data);
    }
    let mut sum = Crc::new();
    sum.update(data);
    Cow::Owned([data, &sum.sum().to_le_bytes()].concat())
}
