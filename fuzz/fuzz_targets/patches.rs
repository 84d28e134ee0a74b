//! See `muster_fuzz::patches`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| muster_fuzz::patches(data));
