//! What another process has used, as Linux counts it in `/proc`.

use std::fs;

use anyhow::{Context as _, Result, bail};

/// In how many parts `/proc` divides a second: USER_HZ, which is the same on every machine that Linux runs on today.
const TICKS_PER_SECOND: f64 = 100.0;
/// `/proc` writes kB and means KiB.
const KIB_PER_MIB: f64 = 1024.0;

/// What a process has used.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::bench) struct Usage {
    /// CPU seconds, user and system, of all its threads since it started.
    pub(in crate::bench) cpu_seconds: f64,
    /// The memory, in MiB, that is resident now.
    pub(in crate::bench) resident_mib: f64,
    /// The most, in MiB, that was resident at once.
    pub(in crate::bench) peak_mib: f64,
}

impl Usage {
    /// What process `id` has used.
    ///
    /// # Errors
    /// Where there is no such process, or no `/proc`.
    pub(in crate::bench) fn of(id: u32) -> Result<Self> {
        let read = |file: &str| {
            let path = format!("/proc/{id}/{file}");
            fs::read_to_string(&path)
                .with_context(|| format!("{path} cannot be read: the process has ended, or this is not Linux"))
        };
        Self::parse(&read("stat")?, &read("status")?).with_context(|| format!("/proc/{id}"))
    }

    fn parse(stat: &str, status: &str) -> Result<Self> {
        // The second field is the program's name in parentheses, and may have anything in it.
        let behind = stat.rsplit_once(')').map_or("", |(_, behind)| behind);
        let fields: Vec<&str> = behind.split_whitespace().collect();
        let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok());
        // Fields 14 and 15 of the whole; the first one here is number 3.
        let (Some(user), Some(system)) = (ticks(11), ticks(12)) else { bail!("stat has no times: {stat:?}") };
        let mib = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
            kib.map(|kib| kib / KIB_PER_MIB).with_context(|| format!("status has no {name}: the process has ended"))
        };
        Ok(Self {
            cpu_seconds: (user + system) / TICKS_PER_SECOND,
            resident_mib: mib("VmRSS")?,
            peak_mib: mib("VmHWM")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_memory_are_found_behind_any_name() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 100 0 0 0 250 75 0 0 20 0 5 0 1 2 3";
        let status = "Name:\ta) b\nVmHWM:\t   20480 kB\nVmRSS:\t   10240 kB\n";
        let usage = Usage::parse(stat, status).unwrap();
        assert_eq!(usage, Usage { cpu_seconds: 3.25, resident_mib: 10.0, peak_mib: 20.0 });
        // A process that has ended and was not waited for has a stat and no memory.
        let said = format!("{:#}", Usage::parse(stat, "Name:\ta\nState:\tZ (zombie)\n").unwrap_err());
        assert!(said.contains("VmRSS") && said.contains("ended"), "{said}");
        assert!(Usage::parse("", status).is_err());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_has_used_something() {
        let usage = Usage::of(std::process::id()).unwrap();
        assert!(usage.resident_mib > 0.5 && usage.peak_mib >= usage.resident_mib, "{usage:?}");
    }
}
