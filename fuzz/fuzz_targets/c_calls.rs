#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tensorfile_fuzz_targets::Target::named("c_calls").run(input));
