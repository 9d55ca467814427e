//! The argument that decodes quantized weights.

use tensorfile::{Dequantize, Dtype};

use super::Glob;
use super::opening::set_dequantize;

/// The argument that decodes quantized weights.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Decoding {
    /// Decode quantized weights to f32; with `=GLOB`, only those whose names match
    ///
    /// A weight takes the place of its codes, and its scales are gone. `ls --logical` lists what is recognized. Weights that
    /// fit no layout for certain stay as they are stored, and a scheme that is recognized but not decoded is an error.
    #[arg(long, value_name = "GLOB", num_args = 0..=1, require_equals = true, default_missing_value = "*")]
    dequantize: Vec<Glob>,
}

impl Decoding {
    /// Decodes the weights of all files opened from now on.
    pub fn apply(&self) {
        let globs = self.dequantize.clone();
        let all = globs.iter().any(|glob| glob.matches("*"));
        let to_f32 = Dequantize::to(Dtype::F32);
        set_dequantize(match (globs.is_empty(), all) {
            (true, _) => None,
            (_, true) => Some(to_f32),
            _ => Some(to_f32.only(move |name| globs.iter().any(|glob| glob.matches(name)))),
        });
    }

    /// Returns whether weights are decoded.
    pub fn is_given(&self) -> bool {
        !self.dequantize.is_empty()
    }
}
