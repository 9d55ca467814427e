//! The Rust structs that load a file.
//!
//! ```text
//! names and infos -> tree: branches at dots -> unify: lists, and what their items share
//!                 -> structs: each one once -> titles: their names -> print: text
//! ```

mod leaf;
mod names;
mod print;
mod structs;
mod titles;
mod tree;
mod unify;

#[cfg(test)]
mod tests;

use tensorfile::TensorInfo;

pub use names::is_type_name;
pub use print::Style;

use structs::Structs;
use tree::Node;
use unify::Fields;

/// The code for tensors with names.
pub fn of_named<'a>(tensors: impl Iterator<Item = (&'a str, &'a TensorInfo)>, style: &Style<'_>) -> String {
    let mut root = Node::default();
    for (name, info) in tensors {
        root.insert(name, info);
    }
    print::print(&Structs::new(&Fields::of(root)), style)
}

/// The code for tensors without names, which are found by position.
pub fn of_nameless<'a>(infos: impl Iterator<Item = &'a TensorInfo>, style: &Style<'_>) -> String {
    let tensors: Vec<_> = infos.enumerate().map(|(at, info)| (format!("t{at}"), info)).collect();
    of_named(tensors.iter().map(|(name, info)| (name.as_str(), *info)), style)
}
