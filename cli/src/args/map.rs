//! The arguments that read files in another layout.

use std::path::Path;

use tensorfile::LayoutMap;

use super::opening::set_map;
use crate::exit::{At, Failure, Outcome};

/// The arguments that read files in another layout.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct MapArgs {
    /// Read the tensors in another layout: by a map that comes with the program (fused, llama-gguf or qwen3-moe), or by the
    /// equations in a file, such as x.map or ./x
    ///
    /// A map is a list of equations between the tensors of two layouts; the guide explains the language. Numbers such as
    /// `config.num_experts` come from the `config.json` beside the input, or from --config. It is an error if a tensor is
    /// missing, not used by any line, or made twice. --filter, --rename and --dtype come after the map, --dequantize before
    /// it. Of two files, the first is mapped.
    #[arg(long, value_name = "MAP")]
    map: Option<String>,
    /// Read the equations of the map from right to left
    #[arg(long, requires = "map")]
    invert: bool,
    /// Set a number of the map, instead of its `let`
    #[arg(long, value_name = "NAME=N", requires = "map", value_parser = parse_set)]
    set: Vec<(String, u64)>,
}

impl MapArgs {
    /// Maps all files opened from now on. With `lossy`, padding may have any elements. Returns the map.
    pub fn apply(&self, lossy: bool) -> Outcome<Option<LayoutMap>> {
        let map = self.map.as_deref().map(|map| self.read(map, lossy)).transpose()?;
        set_map(map.clone());
        Ok(map)
    }

    /// Opens the next files as they are.
    pub fn end(&self) {
        set_map(None);
    }

    fn read(&self, map: &str, lossy: bool) -> Outcome<LayoutMap> {
        let path = Path::new(map);
        let map = match LayoutMap::named(map) {
            Some(map) => map,
            None if path.extension().is_some() || path.components().count() > 1 || path.is_file() => {
                LayoutMap::open(path).at(path)?
            }
            None => {
                let names: Vec<&str> = LayoutMap::names().collect();
                let names = names.join(", ");
                return Err(Failure::usage(format_args!(
                    "there is no map `{map}`; the maps are {names}, and a file is x.map or ./x"
                )));
            }
        };
        let map = self.set.iter().fold(map, |map, (name, number)| map.set(name, *number));
        let map = if self.invert { map.inverted() } else { map };
        Ok(if lossy { map.lossy() } else { map })
    }
}

fn parse_set(text: &str) -> Result<(String, u64), String> {
    let (name, number) = text.split_once('=').ok_or("expected NAME=N, such as e=128")?;
    let number = number.parse().map_err(|_| format!("`{number}` is not a whole number"))?;
    Ok((name.to_owned(), number))
}
