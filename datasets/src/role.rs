//! Kinds of the files of a sample, and their names in a struct. Both follow from the extensions.

use std::ops::Range;

use hashbrown::HashMap;
use tensorfile::{ErrorKind, FORMATS, Format};

/// The kind of a file, by its extension.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Tensors(&'static Format),
    Number,
    Text,
    Blob,
}

/// The kind of a file, and its name unless another file of the sample has that name.
#[derive(Debug)]
pub(crate) struct Role<'e> {
    pub(crate) kind: Kind,
    pub(crate) name: &'e str,
    /// Whether the file is compressed with gzip.
    pub(crate) is_gzip: bool,
}

impl<'e> Role<'e> {
    pub(crate) fn of(extension: &'e str) -> Self {
        if let Some(inner) = extension.strip_suffix(".gz") {
            let role = Self::plain(inner);
            if !matches!(role.kind, Kind::Blob) {
                return Self { is_gzip: true, ..role };
            }
        }
        Self::plain(extension)
    }

    fn plain(extension: &'e str) -> Self {
        let (name, last) = extension.rsplit_once('.').unwrap_or((extension, extension));
        let kind = match last {
            "tb" | "tenbin" => "ten",
            last => last,
        };
        let kind = match kind {
            "cls" | "cls2" | "index" | "inx" | "id" => Kind::Number,
            "txt" | "text" | "transcript" | "json" | "jsn" => Kind::Text,
            kind => match FORMATS.iter().find(|format| format.extensions.contains(&kind)) {
                Some(format) => Kind::Tensors(format),
                None => return Self { kind: Kind::Blob, name: extension, is_gzip: false },
            },
        };
        Self { kind, name, is_gzip: false }
    }
}

/// A file of a [`Sample`](crate::Sample).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Member {
    /// The extension, in lower case.
    pub extension: String,
    /// The range of its bytes in the shard, uncompressed.
    pub range: Range<u64>,
    /// The length of the name, which is the beginning of the extension.
    name_len: usize,
}

impl Member {
    pub(crate) fn new(extension: String, range: Range<u64>) -> Self {
        let name_len = Role::of(&extension).name.len();
        Self { extension, range, name_len }
    }

    /// Returns the [name](crate::Sample#names) in a struct. In a file with several tensors, it is the prefix of their
    /// names.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.extension[..self.name_len]
    }

    /// Returns whether the file is JSON, by its extension.
    #[must_use]
    pub fn is_json(&self) -> bool {
        let extension = self.extension.strip_suffix(".gz").unwrap_or(&self.extension);
        matches!(extension.rsplit('.').next(), Some("json" | "jsn"))
    }

    pub(crate) fn kind(&self) -> Kind {
        Role::of(&self.extension).kind
    }

    pub(crate) fn is_gzip(&self) -> bool {
        self.extension.ends_with(".gz") && Role::of(&self.extension).is_gzip
    }
}

/// Names reserved for facts about a sample. No file can have them.
pub(crate) const RESERVED: &[&str] = &["__key__", "__url__", "__split__"];

/// Names the files of a sample. If another file has the same name, or has it as its extension, the name becomes the
/// whole extension.
///
/// # Errors
///
/// The reason why the files cannot be named.
pub(crate) fn name_members(members: &mut [Member]) -> Result<(), String> {
    let shared = shared_names(members);
    for (member, is_shared) in members.iter_mut().zip(shared) {
        if is_shared {
            member.name_len = member.extension.len();
        }
        if RESERVED.contains(&member.name()) {
            return Err(format!("a file is called `{}`, which is the name of something else", member.extension));
        }
    }
    Ok(())
}

/// Returns for each file whether its name is reserved or belongs to another file too.
fn shared_names(members: &[Member]) -> Vec<bool> {
    /// Up to this many names, comparing is faster than hashing.
    const FEW: usize = 16;

    let is_reserved = |member: &Member| RESERVED.contains(&member.name());
    if members.len() <= FEW {
        let is_shared = |(i, member): (usize, &Member)| {
            let name = member.name();
            let mut others = members.iter().enumerate().filter(|(j, _)| *j != i);
            is_reserved(member) || others.any(|(_, other)| other.name() == name || other.extension == name)
        };
        return members.iter().enumerate().map(is_shared).collect();
    }
    let mut files: HashMap<&str, usize> = HashMap::with_capacity(2 * members.len());
    for member in members {
        *files.entry(member.name()).or_default() += 1;
        if member.extension != member.name() {
            *files.entry(&member.extension).or_default() += 1;
        }
    }
    members.iter().map(|member| is_reserved(member) || files[member.name()] > 1).collect()
}

/// Returns whether a tensor of a file may have the name of another file, or of a tensor in it.
pub(crate) fn may_clash(members: &[Member]) -> bool {
    /// With more tensors than this, the names are read and compared.
    const MANY: usize = 64;

    let is_below =
        |other: &Member, name: &str| other.name().strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
    let has_others_below = |file: &Member| members.iter().any(|other| is_below(other, file.name()));
    members.len() > MANY || members.iter().any(|file| has_others_below(file) && matches!(file.kind(), Kind::Tensors(_)))
}

/// Returns the name of a tensor in a file with `count` tensors. With `is_full`, the prefix is the whole extension.
pub(crate) fn tensor_name(member: &Member, is_full: bool, format: &Format, count: usize, inner: &str) -> String {
    /// Files of these formats usually have one tensor.
    const SINGLE: &[&str] = &["btf", "npy", "ten"];

    if count == 1 && SINGLE.contains(&format.name) {
        return member.name().to_owned();
    }
    format!("{}.{inner}", if is_full { &member.extension } else { member.name() })
}

/// Returns a name that occurs twice.
pub(crate) fn repeated(mut names: Vec<&str>) -> Option<&str> {
    names.sort_unstable();
    names.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}

/// Copies text, and checks it.
pub(crate) fn text(name: &str, bytes: &[u8]) -> tensorfile::Result<String> {
    String::from_utf8(bytes.to_vec()).map_err(|error| {
        let what = format!(
            "`{name}` is not UTF-8: it has `{}`",
            error.as_bytes()[..error.as_bytes().len().min(32)].escape_ascii()
        );
        ErrorKind::Malformed { what }.into()
    })
}
