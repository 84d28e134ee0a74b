//! See `muster_fuzz::tokens`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| muster_fuzz::tokens(data));
