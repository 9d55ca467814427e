//! Runs `codegen` on arbitrary files; its output must be valid Rust.

use std::ffi::OsStr;

use syn::punctuated::Punctuated;
use syn::{Item, Meta, Token};

use crate::budget::bounded;
use crate::input::Input;
use crate::read::write;
use crate::rows::{choose, number};
use crate::samples;

const OPTIONS: &[&[&str]] = &[
    &[],
    &["--shapes"],
    &["--views", "--shapes"],
    &["--cast", "f32", "--shapes"],
    &["--cast", "bf16", "--views"],
    &["--filter", "*0*", "--filter", "!*.bias"],
];

pub fn run(input: &[u8]) {
    let mut input = Input(input);
    let Some(format) = choose(&mut input) else { return };
    let options = OPTIONS[input.below(OPTIONS.len())];
    let path = write(&format!("model.{}", format.extensions[0]), input.0);
    let mut args: Vec<&OsStr> = ["tensorfile", "codegen", "--from", format.name].map(OsStr::new).to_vec();
    args.push(path.as_os_str());
    args.extend(options.iter().map(OsStr::new));
    let len = input.0.len();
    let Ok(code) = bounded("codegen", 16 * len + (1 << 16), || tensorfile_cli::run(&args).into_output()) else {
        return;
    };
    let code = String::from_utf8(code).unwrap();
    let file = syn::parse_file(&code).unwrap_or_else(|error| panic!("{error}:\n{code}"));
    for item in file.items {
        let Item::Struct(item) = item else {
            assert!(matches!(item, Item::Use(_)), "something else than structs:\n{code}");
            continue;
        };
        for attribute in item.fields.iter().flat_map(|field| &field.attrs).chain(&item.attrs) {
            if attribute.path().is_ident("tensor") {
                let parsed = attribute.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated);
                assert!(parsed.is_ok(), "an attribute that is none:\n{code}");
            }
        }
    }
}

/// A row, options, and a file.
pub fn seeds() -> Vec<Vec<u8>> {
    let files = samples::files().into_iter().enumerate();
    let mut seeds: Vec<Vec<u8>> = files
        .map(|(at, file)| {
            let (row, file) = file.split_first().unwrap();
            [&[*row, (at % OPTIONS.len()) as u8], file].concat()
        })
        .collect();
    // Names that are long enough for attributes over several lines.
    let format = tensorfile::FORMATS.iter().copied().find(|format| format.name == "safetensors").unwrap();
    let name = "lora_te_text_model_encoder_layers_0_mlp_fc1_lora_up_weight_of_the_first_block";
    let map: tensorfile::TensorMap =
        [(name, tensorfile::Tensor::from_slice(&[1.0_f32], [1]).unwrap())].into_iter().collect();
    let file = format.to_vec(&map, &tensorfile::WriteOptions::new()).unwrap();
    seeds.extend((0..OPTIONS.len()).map(|at| [&[number(format), at as u8], &file[..]].concat()));
    seeds
}
