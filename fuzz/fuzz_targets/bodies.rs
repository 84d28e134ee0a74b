//! See `muster_fuzz::bodies`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| muster_fuzz::bodies(data));
