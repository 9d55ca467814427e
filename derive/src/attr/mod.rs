//! Parses `#[tensor(...)]`. `check` finds attributes that contradict each other.

mod item;
mod rename;
mod suggest;

use syn::{Attribute, Expr, Ident, LitStr, Path, Result};

use crate::ctxt::Ctxt;
use item::Item;
pub(crate) use rename::RenameRule;

/// The attributes of the struct.
#[derive(Default)]
pub(crate) struct Container {
    pub(crate) rename_all: Option<Given<RenameRule>>,
    pub(crate) prefix: Option<Given<LitStr>>,
    pub(crate) allow_unknown: Option<Given>,
    pub(crate) cast: Option<Given>,
    pub(crate) dequantize: Option<Given>,
    pub(crate) krate: Option<Given<Path>>,
    pub(crate) write_only: Option<Given>,
}

/// The attributes of a field.
#[derive(Default)]
pub(crate) struct Field {
    pub(crate) rename: Option<Given<LitStr>>,
    pub(crate) aliases: Vec<Given<LitStr>>,
    pub(crate) skip: Option<Given>,
    pub(crate) default: Option<Given<Fallback>>,
    pub(crate) flatten: Option<Given>,
    pub(crate) cast: Option<Given>,
    pub(crate) dequantize: Option<Given>,
    pub(crate) shape: Option<Given<Vec<Dim>>>,
    pub(crate) transpose: Option<Given>,
    pub(crate) tied: Option<Given<LitStr>>,
    pub(crate) metadata: Option<Given>,
}

/// An attribute of the user's: its name, for messages to point at, and its value.
pub(crate) struct Given<T = ()> {
    pub(crate) key: Ident,
    pub(crate) value: T,
}

/// The value of a field missing from the file.
pub(crate) enum Fallback {
    /// The value of `Default`.
    Default,
    /// The result of a function without arguments.
    Call(Path),
}

/// A dim of `shape`: a number, or `None` for `_`.
pub(crate) type Dim = Option<Expr>;

const CONTAINER: &[&str] = &["rename_all", "prefix", "allow_unknown", "cast", "dequantize", "crate", "write_only"];
const FIELD: &[&str] =
    &["rename", "alias", "skip", "default", "flatten", "cast", "dequantize", "shape", "transpose", "tied", "metadata"];

impl Container {
    pub(crate) fn parse(cx: &mut Ctxt, attributes: &[Attribute]) -> Self {
        let mut given = Self::default();
        item::each(cx, attributes, |item, key| match key {
            "rename_all" => once(&mut given.rename_all, item, Item::rename_rule),
            "prefix" => once(&mut given.prefix, item, Item::string),
            "allow_unknown" => once(&mut given.allow_unknown, item, Item::flag),
            "cast" => once(&mut given.cast, item, Item::flag),
            "dequantize" => once(&mut given.dequantize, item, Item::flag),
            "crate" => once(&mut given.krate, item, Item::path),
            "write_only" => once(&mut given.write_only, item, Item::flag),
            _ if FIELD.contains(&key) => {
                Err(item.error(format!("`{key}` is an attribute of a field, not of the struct")))
            }
            _ => Err(item.unknown(CONTAINER)),
        });
        given
    }
}

impl Field {
    pub(crate) fn parse(cx: &mut Ctxt, attributes: &[Attribute]) -> Self {
        let mut given = Self::default();
        item::each(cx, attributes, |item, key| match key {
            "rename" => once(&mut given.rename, item, Item::string),
            "alias" => item.string().map(|name| given.aliases.push(Given { key: item.key.clone(), value: name })),
            "skip" => once(&mut given.skip, item, Item::flag),
            "default" => once(&mut given.default, item, Item::fallback),
            "flatten" => once(&mut given.flatten, item, Item::flag),
            "cast" => once(&mut given.cast, item, Item::flag),
            "dequantize" => once(&mut given.dequantize, item, Item::flag),
            "shape" => once(&mut given.shape, item, Item::dims),
            "transpose" => once(&mut given.transpose, item, Item::flag),
            "tied" => once(&mut given.tied, item, Item::string),
            "metadata" => once(&mut given.metadata, item, Item::flag),
            _ if CONTAINER.contains(&key) => {
                Err(item.error(format!("`{key}` is an attribute of the struct, not of a field")))
            }
            _ => Err(item.unknown(FIELD)),
        });
        given
    }
}

/// Stores the value of an attribute, which can be given only once.
fn once<T>(given: &mut Option<Given<T>>, item: &Item, read: fn(&Item) -> Result<T>) -> Result<()> {
    match given {
        Some(_) => Err(item.error(format!("`{}` is given twice", item.key))),
        None => read(item).map(|value| *given = Some(Given { key: item.key.clone(), value })),
    }
}
