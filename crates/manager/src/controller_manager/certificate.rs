//! The certificate of the endpoint: one that is given, one that is kept in a folder, or one that nobody can verify.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use muster_apiserver::tls::Tls;

use super::flags::Flags;

/// The files in `--cert-dir`.
const CERTIFICATE: &str = "muster-controller-manager.crt";
const KEY: &str = "muster-controller-manager.key";

/// The certificate that the flags ask for (CM-06).
///
/// # Errors
/// Where a file cannot be read or written, or holds no certificate or not its key.
pub(super) fn certificate(flags: &Flags) -> Result<Tls> {
    let only_1_3 = flags.tls_min_version == "VersionTLS13";
    if let (Some(certificate), Some(key)) = (&flags.tls_cert_file, &flags.tls_private_key_file) {
        return read(("--tls-cert-file", certificate), ("--tls-private-key-file", key), only_1_3);
    }
    let Some(folder) = &flags.cert_dir else {
        return Ok(Tls::generate_speaking(&[flags.bind_address], only_1_3)?);
    };
    let named = || format!("--cert-dir {}", folder.display());
    let (certificate, key) = (folder.join(CERTIFICATE), folder.join(KEY));
    let there = || (certificate.exists(), key.exists());
    // Of several processes that begin at once, one makes them.
    let _lock = if there() == (true, true) { None } else { Some(lock(folder).with_context(named)?) };
    match there() {
        (true, true) => {}
        (false, false) => keep(flags, folder).with_context(named)?,
        // Made anew, it would take the other away from whoever put it there.
        (true, false) => bail!("--cert-dir {}: {CERTIFICATE} is there, and its key {KEY} is not", folder.display()),
        (false, true) => {
            bail!("--cert-dir {}: {KEY} is there, and its certificate {CERTIFICATE} is not", folder.display())
        }
    }
    read(("--cert-dir", &certificate), ("--cert-dir", &key), only_1_3)
}

fn read(certificate: (&str, &Path), key: (&str, &Path), only_1_3: bool) -> Result<Tls> {
    let bytes = |(flag, path): (&str, &Path)| {
        fs::read(path).with_context(|| format!("{flag} {}: cannot be read", path.display()))
    };
    let (chain, secret) = (bytes(certificate)?, bytes(key)?);
    Tls::from_pem(&chain, &secret, only_1_3)
        .with_context(|| format!("{} {}, {} {}", certificate.0, certificate.1.display(), key.0, key.1.display()))
}

/// Has other processes wait for as long as the answer is kept.
fn lock(folder: &Path) -> Result<File> {
    fs::create_dir_all(folder)?;
    let folder = File::open(folder)?;
    folder.lock()?;
    Ok(folder)
}

/// Makes a certificate and its key, which nobody else may read.
fn keep(flags: &Flags, folder: &Path) -> Result<()> {
    let (certificate, key) = Tls::generate_pem(&[flags.bind_address])?;
    // A file is there when it is whole, whenever the process is killed.
    let write = |name: &str, mode: u32, text: &str| -> Result<()> {
        let unfinished = folder.join(format!("{name}.new"));
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&unfinished);
        let written = file.and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()));
        written.with_context(|| unfinished.display().to_string())
    };
    write(KEY, 0o600, &key)?;
    write(CERTIFICATE, 0o644, &certificate)?;
    for name in [KEY, CERTIFICATE] {
        fs::rename(folder.join(format!("{name}.new")), folder.join(name)).with_context(|| name.to_owned())?;
    }
    tracing::info!(folder = %folder.display(), certificate = CERTIFICATE, "made a certificate of our own");
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use clap::Parser as _;

    use super::*;
    use crate::commands::{Cli, Command};

    fn flags(folder: &Path) -> Box<Flags> {
        let folder = folder.to_string_lossy();
        match Cli::parse_from(["muster", "controller-manager", "--cert-dir", &folder]).command {
            Command::ControllerManager(flags) => flags,
            other => panic!("{other:?}"),
        }
    }

    /// Contract: CM-06
    #[test]
    fn several_that_begin_at_once_have_one_certificate_and_its_key() {
        for _ in 0..8 {
            let parent = tempfile::tempdir().unwrap();
            let flags = flags(&parent.path().join("new"));
            let made: Vec<_> = std::thread::scope(|scope| {
                let begin = || certificate(&flags).map(|tls| tls.ca_pem().to_owned());
                let begun: Vec<_> = (0..4).map(|_| scope.spawn(begin)).collect();
                begun.into_iter().map(|begun| begun.join().unwrap().unwrap()).collect()
            });
            assert!(made.iter().all(|pem| *pem == made[0]), "{made:?}");
        }
    }

    /// Contract: CM-06
    #[test]
    fn a_certificate_is_made_once_and_kept() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("made/on/the/way");
        let flags = flags(&folder);
        let first = certificate(&flags).unwrap();
        let pem = fs::read_to_string(folder.join(CERTIFICATE)).unwrap();
        assert_eq!(pem.matches("BEGIN CERTIFICATE").count(), 2, "the certificate and its authority");
        assert_eq!(first.ca_pem(), pem);
        assert_eq!(fs::metadata(folder.join(KEY)).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(certificate(&flags).unwrap().ca_pem(), pem, "the same at the next start");

        fs::remove_file(folder.join(KEY)).unwrap();
        let said = format!("{:#}", certificate(&flags).unwrap_err());
        assert!(said.contains(CERTIFICATE) && said.contains(KEY), "{said}");
        assert_eq!(fs::read_to_string(folder.join(CERTIFICATE)).unwrap(), pem, "nothing is overwritten");
    }
}
