use std::any::Any;
use std::fmt;
use std::ops::Range;

use hashbrown::HashMap;

use crate::tensor::TensorInfo;

/// Arrays already read, by their bytes in the file, for sharing. Boxed, because few values share any and every
/// `Deserializer` has room for it.
#[derive(Default)]
pub struct SharedArrays(Option<Box<ArraysByBytes>>);

type ArraysByBytes = HashMap<(u64, u64), Vec<SharedArray>>;

struct SharedArray {
    info: TensorInfo,
    array: Box<dyn Any>,
}

impl fmt::Debug for SharedArrays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedArrays")
    }
}

impl SharedArrays {
    /// The arrays of some bytes.
    pub(crate) fn of(&mut self, bytes: &Range<u64>) -> ArraysOf<'_> {
        ArraysOf(self.0.get_or_insert_default().entry((bytes.start, bytes.end)).or_default())
    }
}

/// Arrays that share the same bytes.
pub struct ArraysOf<'a>(&'a mut Vec<SharedArray>);

impl fmt::Debug for ArraysOf<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|shared| &shared.info)).finish()
    }
}

impl ArraysOf<'_> {
    /// Returns the array of this type and header.
    pub(crate) fn get<T: Clone + 'static>(&self, info: &TensorInfo) -> Option<T> {
        let mut same = self.0.iter().filter(|shared| shared.info == *info);
        same.find_map(|shared| shared.array.downcast_ref().cloned())
    }

    pub(crate) fn insert<T: 'static>(&mut self, info: TensorInfo, array: T) {
        self.0.push(SharedArray { info, array: Box::new(array) });
    }
}
