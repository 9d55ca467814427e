//! Links the crate without reading or writing a value.

fn main() {
    println!("{} formats", tensorfile::FORMATS.len());
}
