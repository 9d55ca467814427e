//! Links the crate and uses none of its formats on a value.

fn main() {
    println!("{} formats", tensorfile::FORMATS.len());
}
