//! See `muster_fuzz::selectors`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| muster_fuzz::selectors(data));
