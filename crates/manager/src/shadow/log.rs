//! The agreement log as it is written.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Read as _, Seek as _, SeekFrom, Write};
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
            let failed = || format!("--shadow-log {}", path.display());
            let mut file = OpenOptions::new().append(true).create(true).open(path).with_context(failed)?;
            if ends_within_a_line(path) {
                // Where the disk was full, or the process was killed: what comes next is a line of its own.
                file.write_all(b"\n").with_context(failed)?;
            }
            Box::new(file)
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

/// Whether the last line of a file has no end. What is no file, or cannot be read, is taken to have one.
fn ends_within_a_line(path: &Path) -> bool {
    let mut last = [0];
    let ends =
        |mut file: File| file.seek(SeekFrom::End(-1)).is_ok() && file.read_exact(&mut last).is_ok() && last != *b"\n";
    path.is_file() && File::open(path).is_ok_and(ends)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_appended_begins_with_a_line_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        for (before, after) in [("", ""), ("whole\n", "whole\n"), ("whole\ncu", "whole\ncu\n")] {
            let path = folder.path().join("log.jsonl");
            std::fs::write(&path, before).unwrap();
            drop(Log::open(&path).unwrap());
            assert_eq!(std::fs::read_to_string(&path).unwrap(), after);
        }
    }
}
