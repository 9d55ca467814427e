//! Implements a file format outside the library: named vectors and matrices of `f32`, one after the other.
//!
//! ```text
//! file   = "TINY\0\0\0\0" | tensor…
//! tensor = name: u8 × 32 | rank: u64 | dim: u64 × rank | f32… | 0 up to a multiple of 8
//! ```
//!
//! A [`Format`] has two parts: an [`IndexReader`] finds the tensors in a file, and an [`Encode`] lays out a new file.
//! The library does the rest: structs, maps and views, streams and mapped files, checks of dtypes, ranks and names.

use std::collections::BTreeMap;
use std::sync::Arc;

use ndarray::{Array2, array};
use tensorfile::format::{
    Cursor, Encode, FileLayout, Format, FormatSpec, Index, IndexReader, Magic, NamePolicy, PlannedTensors, ReadAt,
};
use tensorfile::{Category, Dtype, ErrorKind, Limits, OpenOptions, Result, SaveOptions, Shape, TensorFile, TensorInfo};

const MAGIC: [u8; 8] = *b"TINY\0\0\0\0";
const NAME: usize = 32;

static TINY: Format = {
    let mut spec = FormatSpec::new("tiny", &[Dtype::F32]);
    spec.extensions = &["tiny"];
    spec.magics = &[Magic { offset: 0, bytes: &MAGIC }];
    spec.max_rank = Some(2);
    spec.max_name = Some(NAME);
    Format::new(
        spec,
        || Box::new(Reader { offset: MAGIC.len() as u64 }),
        |options| {
            options.only_alignment(&TINY, 8)?.only_metadata(&TINY)?;
            Ok(Arc::new(Writer))
        },
    )
};

/// Reads the headers one after the other.
struct Reader {
    /// The offset of the next tensor.
    offset: u64,
}

impl IndexReader for Reader {
    fn read_on(&mut self, file: &mut dyn ReadAt, _: &Limits, index: &mut Index) -> Result<bool> {
        if file.ends_at(self.offset)? {
            return Ok(false);
        }
        let mut cursor = Cursor::new(file, self.offset);
        let name = cursor.array::<NAME>()?;
        let name = String::from_utf8_lossy(&name);
        let rank = cursor.u64()?;
        if rank > 2 {
            return Err(ErrorKind::BadNumber { what: "rank", found: rank.into(), expected: "at most 2".into() }.into());
        }
        let dims = cursor.u64s(rank)?.into_iter().map(|dim| usize::try_from(dim).unwrap_or(usize::MAX));
        let info = TensorInfo::new(Dtype::F32, dims.collect::<Shape>());
        // Checks that the file has as many bytes left.
        let payload = cursor.payload(&info)?;
        self.offset = payload.end.next_multiple_of(8);
        let name = name.trim_end_matches('\0');
        // A tensor that is called by its position is stored without a name.
        index.push((!name.is_empty()).then_some(name), info, payload)?;
        Ok(true)
    }
}

/// Lays out a file.
#[derive(Debug)]
struct Writer;

impl Encode for Writer {
    fn spec(&self) -> &'static FormatSpec {
        TINY.spec()
    }

    fn names(&self) -> NamePolicy {
        NamePolicy::Stored
    }

    fn lay_out(&self, plan: &PlannedTensors) -> Result<FileLayout> {
        let mut layout = plan.stack(MAGIC.len() as u64, 8, &mut |name, info, out| {
            let mut name = name.as_bytes().to_vec();
            name.resize(NAME, 0);
            out.extend(name);
            let dims = info.shape.dims();
            out.extend((dims.len() as u64).to_le_bytes());
            out.extend(dims.iter().flat_map(|dim| (*dim as u64).to_le_bytes()));
        })?;
        layout.begin = MAGIC.to_vec();
        Ok(layout)
    }
}

#[derive(TensorFile, Debug, PartialEq)]
struct Model {
    layers: BTreeMap<String, Array2<f32>>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let layers = BTreeMap::from([("first".to_owned(), array![[1.0, 2.0]]), ("last".to_owned(), array![[3.0]])]);
    let model = Model { layers };

    let folder = tempfile::tempdir()?;
    let path = folder.path().join("model.tiny");
    SaveOptions::new().format(&TINY).save(&path, &model)?;
    let read: Model = OpenOptions::new().format(&TINY).open(&path)?.load()?;
    assert_eq!(read, model);

    for tensor in OpenOptions::new().format(&TINY).open(&path)?.tensors() {
        println!("{} {} at bytes {:?}", tensor.name(), tensor.info(), tensor.range());
    }

    // The library checks what the format can store.
    let error = SaveOptions::new().format(&TINY).save(&path, &array![1_u8]).expect_err("the dtype is not f32");
    println!("{error}");
    assert_eq!(error.category(), Category::Call);
    Ok(())
}
