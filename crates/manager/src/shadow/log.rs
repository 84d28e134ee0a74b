//! The agreement log as it is written.

use std::fs::OpenOptions;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use muster_inspect::shadow::Line;

/// Where the lines go.
pub(super) struct Log {
    path: PathBuf,
    writer: BufWriter<Box<dyn Write + Send>>,
}

impl Log {
    /// Appends to a file, or writes to standard output.
    ///
    /// # Errors
    /// Where the file cannot be opened.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let writer: Box<dyn Write + Send> = if path.as_os_str() == "-" {
            Box::new(io::stdout())
        } else {
            let file = OpenOptions::new().append(true).create(true).open(path);
            Box::new(file.with_context(|| format!("--shadow-log {}", path.display()))?)
        };
        Ok(Self { path: path.to_owned(), writer: BufWriter::new(writer) })
    }

    /// Writes lines, each whole.
    ///
    /// # Errors
    /// Where they cannot be written.
    pub(super) fn write(&mut self, lines: &[Line]) -> Result<()> {
        self.put(lines).with_context(|| format!("--shadow-log {}", self.path.display()))
    }

    fn put(&mut self, lines: &[Line]) -> io::Result<()> {
        for line in lines {
            serde_json::to_writer(&mut self.writer, line)?;
            self.writer.write_all(b"\n")?;
        }
        self.writer.flush()
    }
}
