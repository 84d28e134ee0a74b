//! See `muster_fuzz::schemas`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| muster_fuzz::schemas(data));
