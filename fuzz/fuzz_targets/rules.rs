//! See `muster_fuzz::rules`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| muster_fuzz::rules(data));
