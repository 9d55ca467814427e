//! A derived type is compiled once for all formats, and for all ways to access a file.
//!
//! This program goes through every format with two derived types, and then counts functions in its own symbol table.

// With MSVC the symbols are in another file.
#![cfg(not(target_env = "msvc"))]

use std::{env, fs, io};

use ndarray::{Array1, Array2, array};
use object::{Object, ObjectSymbol};
use tensorfile::{
    FORMATS, File, Result, TensorFile, btf, gguf, npy, npz, ptd, pytorch, safetensors, ten, tensorbuffers,
};

#[derive(TensorFile, Debug, PartialEq)]
struct Model {
    embed: Linear,
    list: Vec<Linear>,
    bias: Option<Array1<f32>>,
}

#[derive(TensorFile, Debug, PartialEq)]
struct Linear {
    w: Array2<f32>,
}

#[test]
fn derived_types_are_compiled_once() -> Result<()> {
    use_every_format()?;

    let program = fs::read(env::current_exe()?)?;
    let program = object::File::parse(&*program).expect("the format of programs of this platform");
    let names: Vec<String> = program
        .symbols()
        .filter_map(|symbol| symbol.name().ok())
        .map(|name| format!("{:#}", rustc_demangle::demangle(name)))
        .collect();

    // Formats reach the outer type alone through serde, and all of them with one serializer and one deserializer.
    for (implementor, its_trait, method) in [
        ("Model", "Store", "store"),
        ("Linear", "Store", "store"),
        ("Model", "FromTensors", "load"),
        ("Linear", "FromTensors", "load"),
        ("Model", "Serialize", "serialize"),
        ("Model", "Deserialize", "deserialize"),
    ] {
        let implementor = format!("{}::{implementor}", module_path!());
        let count = names.iter().filter(|name| is_method(name, &implementor, its_trait, method)).count();
        assert_eq!(count, 1, "copies of <{implementor} as {its_trait}>::{method}");
    }
    Ok(())
}

/// Does everything with a value that could compile its type once more.
fn use_every_format() -> Result<()> {
    let linear = |weight| Linear { w: array![[weight]] };
    let model = Model { embed: linear(1.0), list: vec![linear(2.0), linear(3.0)], bias: Some(array![4.0]) };
    let folder = tempfile::tempdir()?;

    let mut used = vec!["npy"];
    macro_rules! round_trips {
        ($($format:ident),*) => {$({
            used.push(stringify!($format));
            let mut file = Vec::new();
            $format::to_writer(&mut file, &model)?;
            assert_eq!($format::from_slice::<Model>(&file)?, model);
            assert_eq!($format::from_reader::<Model>(&file[..])?, model);

            let path = folder.path().join("model").with_extension(stringify!($format));
            fs::write(&path, $format::to_vec(&model)?)?;
            assert_eq!(File::open(&path)?.load::<Model>()?, model);
        })*};
    }
    round_trips!(btf, ten, ptd, tensorbuffers, safetensors, npz, pytorch, gguf);

    // This one has room for one tensor.
    npy::to_writer(io::sink(), &model).unwrap_err();
    npy::to_vec(&model).unwrap_err();
    npy::from_slice::<Model>(&[]).unwrap_err();
    npy::from_reader::<Model>(io::empty()).unwrap_err();

    for format in FORMATS {
        assert!(used.contains(&format.name), "{} is not used here", format.name);
    }

    let path = folder.path().join("model.ptd");
    tensorfile::save(&path, &model)?;
    assert_eq!(tensorfile::load::<Model>(&path)?, model);
    Ok(())
}

/// Tests if a symbol is `<implementor as path::its_trait>::method` or, as the older mangling has it for an
/// implementation inside of a block, `path::<impl path::its_trait for implementor>::method`.
fn is_method(symbol: &str, implementor: &str, its_trait: &str, method: &str) -> bool {
    let Some((block, arguments)) = symbol.split_once(&format!(">::{method}")) else {
        return false;
    };
    // Not a closure or another item in the method.
    let whole = arguments.is_empty() || arguments.starts_with("::<") && arguments.ends_with('>');
    let path = block
        .strip_prefix(&format!("<{implementor} as "))
        .or_else(|| Some(block.strip_suffix(&format!(" for {implementor}"))?.rsplit_once("<impl ")?.1));
    let name = path.and_then(|path| path.split('<').next()?.rsplit("::").next());
    whole && name == Some(its_trait)
}
