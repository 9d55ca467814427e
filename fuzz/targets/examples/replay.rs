//! Runs a target on files: `cargo run -p tensorfile-fuzz-targets --example replay -- TARGET FILE…`.

use tensorfile_fuzz_targets::Target;

fn main() -> std::io::Result<()> {
    let mut args = std::env::args();
    let target = Target::named(&args.nth(1).unwrap_or_default());
    args.try_for_each(|path| {
        println!("{path}");
        std::fs::read(path).map(|input| target.run(&input))
    })
}
