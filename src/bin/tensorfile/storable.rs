//! Whether a format could store what a file has.

use tensorfile::{Collection, File, Format, Result, TensorInfo, WriteOptions};

use crate::size::counted;

/// What stands against storing a file in a format.
#[derive(Debug, Default)]
pub struct Obstacles {
    /// What cannot be stored, each a sentence.
    pub problems: Vec<String>,
    /// What would be lost or stored in another way.
    pub warnings: Vec<String>,
}

/// Asks tensor by tensor, so that not only the first is told, and then for all together.
pub fn obstacles(file: &File, format: &Format) -> Obstacles {
    let mut found = Obstacles::default();
    let mut homeless = 0;
    for (at, tensor) in file.tensors().enumerate() {
        let has_room = !tensor.has_name() || has_room(format, at, tensor.name());
        homeless += u64::from(!has_room);
        // Without names, the only tensor of a file is called 0.
        let name = if has_room && format.max_name != Some(0) { tensor.name() } else { "0" };
        if let Err(error) = fits(format, &One { file, at, name }, false) {
            found.problems.push(format!("tensor `{}`: {}", tensor.name(), error.kind()));
        }
    }
    if let Some(tensors) = format.max_tensors.filter(|tensors| *tensors != file.len()) {
        let tensors = counted(tensors as u64, "tensor");
        found.problems.push(format!("{} has {tensors} in a file, not {}", format.name, file.len()));
    }
    // Names are embedded as one more tensor.
    let embeds = homeless > 0 && format.max_tensors.is_none();
    if homeless > 0 {
        let instead = if embeds { "they have to be embedded" } else { "they would be lost" };
        let tensors = counted(homeless, "tensor");
        found.warnings.push(format!("{} has no place for the names of {tensors}; {instead}", format.name));
    }
    if found.problems.is_empty()
        && let Err(error) = fits(format, file, embeds)
    {
        found.problems.push(error.to_string());
    }
    found
}

/// Whether the format has a place for the name of the tensor at a position.
fn has_room(format: &Format, at: usize, name: &str) -> bool {
    name == at.to_string() || format.max_name.is_none_or(|most| (1..=most).contains(&name.len()))
}

fn fits(format: &Format, collection: &dyn Collection, embed_names: bool) -> Result<()> {
    format.file_bytes(collection, &WriteOptions::new().embed_names(embed_names)).map(drop)
}

/// One tensor of a file, under any name.
struct One<'f> {
    file: &'f File,
    at: usize,
    name: &'f str,
}

impl Collection for One<'_> {
    fn len(&self) -> usize {
        1
    }

    fn name(&self, _: usize) -> &str {
        self.name
    }

    fn info(&self, _: usize) -> &TensorInfo {
        Collection::info(self.file, self.at)
    }

    fn pour(&self, _: usize, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        Collection::pour(self.file, self.at, take)
    }
}
