//! The certificate of the endpoint: one that is given, one that is kept in a folder, or one that nobody can verify.

use std::fs::{self, OpenOptions};
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
    let (certificate, key) = (folder.join(CERTIFICATE), folder.join(KEY));
    match (certificate.exists(), key.exists()) {
        (true, true) => {}
        (false, false) => keep(flags, folder).with_context(|| format!("--cert-dir {}", folder.display()))?,
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

/// Makes a certificate and its key, which nobody else may read.
fn keep(flags: &Flags, folder: &Path) -> Result<()> {
    let (certificate, key) = Tls::generate_pem(&[flags.bind_address])?;
    fs::create_dir_all(folder)?;
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
