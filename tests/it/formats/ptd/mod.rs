mod malformed;
mod sharing;

use std::cell::Cell;
use std::collections::BTreeMap;

use ndarray::{ArcArray1, Array1, Array2, Array4, ArrayView2, ShapeBuilder, array};
use serde::ser::{Serialize, SerializeMap, Serializer};
use tensorfile::ptd::{Compatibility, Options, Segments, Version};
use tensorfile::report::WarningKind;
use tensorfile::{
    Arrays, Blob, CooTensor, Dtype, Layout, Limits, OpenOptions, Tensor, TensorFile, TensorInfo, TensorMap, TensorView,
    WriteOptions, ptd,
};

use super::unknown::check as check_unknown;
use crate::support::{Dribble, Messages, format, hex, message, root};

/// Two tensors that share their bytes, and a blob, in segments aligned to 16.
pub(super) const FT01: &str = "
    44 00 00 00 46 54 30 31 | 00 the root table at 44, FT01
    46 48 30 31 28 00 00 00 | 08 FH01, a header of 40
    30 00 00 00 00 00 00 00 | 10 48 with padding
    10 01 00 00 00 00 00 00 | 18 a flatbuffer of 110
    40 01 00 00 00 00 00 00 | 20 segments from 140 on
    12 00 00 00 00 00 00 00 | 28 of 12
    00 00 00 00 00 00 00 00 | 30 padding

    00 00 0a 00 0c 00 00 00 | 38 padding, 3a fields of the root: no version
    04 00 08 00 0a 00 00 00 | 40 segments at 4, named data at 8; 44 root
    18 00 00 00 04 00 00 00 | 48 segments at 60, named data at 50
    03 00 00 00 ac 00 00 00 | 50 three names, at 100
    8c 00 00 00 48 00 00 00 | 58 at e4, and at a4
    02 00 00 00 30 00 00 00 | 60 two segments, at 94
    0c 00 00 00             | 68 and at 74
    08 00 18 00 04 00 0c 00 | 6c fields of a segment: offset at 4, size at 12
    08 00 00 00             | 74 segment
    10 00 00 00 00 00 00 00 | 78 at 10
    02 00 00 00 00 00 00 00 | 80 of 2
    00 00 00 00             | 88 padding
    08 00 10 00 00 00 04 00 | 8c fields of a segment: no offset, size at 4
    08 00 00 00             | 94 segment
    06 00 00 00 00 00 00 00 | 98 of 6
    00 00 00 00             | a0 padding
    ae ff ff ff 08 00 00 00 | a4 named data, fields at f6; key at b0
    0c 00 00 00             | ac layout at b8
    01 00 00 00 76 00 00 00 | b0 v
    a6 ff ff ff 00 00 00 02 | b8 layout, fields at 112; i16
    10 00 00 00 04 00 00 00 | c0 sizes at d0, dim order at c8
    02 00 00 00 00 01 00 00 | c8 0, 1
    02 00 00 00             | d0 two sizes
    01 00 00 00 03 00 00 00 | d4 1, 3
    08 00 0c 00 04 00 08 00 | dc fields of named data: key at 4, segment at 8, no layout
    08 00 00 00 08 00 00 00 | e4 named data, key at f0
    01 00 00 00             | ec segment 1
    01 00 00 00 62 00       | f0 b
    0a 00 0c 00 04 00 00 00 | f6 fields of named data: key at 4, no segment
    08 00                   | fe layout at 8
    0a 00 00 00 08 00 00 00 | 100 named data, fields at f6; key at 10c
    14 00 00 00             | 108 layout at 11c
    01 00 00 00 77 00       | 10c w
    0a 00 10 00 07 00 08 00 | 112 fields of a layout: scalar type at 7, sizes at 8
    0c 00                   | 11a dim order at 12
    0a 00 00 00 00 00 00 02 | 11c layout, fields at 112; i16
    10 00 00 00 04 00 00 00 | 124 sizes at 134, dim order at 12c
    02 00 00 00 00 01 00 00 | 12c 0, 1
    02 00 00 00             | 134 two sizes
    01 00 00 00 03 00 00 00 | 138 1, 3

    01 00 ff ff 00 01 00 00 | 140 1, -1, 256
    00 00 00 00 00 00 00 00 | 148 padding
    07 08                   | 150 the blob
";

/// A file as ExecuTorch 0.6 wrote it: two tensors in one segment, and a blob.
pub(super) const EARLY: &str = "
    48 00 00 00 46 54 30 31 | 00 the root table at 48, FT01
    46 48 30 31 28 00 00 00 | 08 FH01, a header of 40
    30 00 00 00 00 00 00 00 | 10 48 with padding
    14 01 00 00 00 00 00 00 | 18 a flatbuffer of 114
    50 01 00 00 00 00 00 00 | 20 segments from 150 on
    23 00 00 00 00 00 00 00 | 28 of 23
    00 00 00 00 00 00 00 00 | 30 padding

    0e 00 14 00 00 00 04 00 | 38 fields of the root: no version, alignment at 4
    08 00 0c 00 10 00 00 00 | 40 tensors at 8, segments at 12, named data at 16
    10 00 00 00 10 00 00 00 | 48 root, aligned to 16
    0c 00 00 00 14 00 00 00 | 50 tensors at 5c, segments at 68
    1c 00 00 00             | 58 named data at 74
    02 00 00 00             | 5c two tensors
    30 00 00 00 4c 00 00 00 | 60 at 90 and at b0
    02 00 00 00             | 68 two segments
    68 00 00 00 7c 00 00 00 | 6c at d4 and at ec
    01 00 00 00 90 00 00 00 | 74 a name, at 108
    10 00 1c 00 04 00 18 00 | 7c fields of a tensor: name at 4, scalar type at 24
    08 00 0c 00 00 00 10 00 | 84 sizes at 8, dim order at 12, no segment, offset at 16
    00 00 00 00             | 8c padding
    14 00 00 00 80 00 00 00 | 90 tensor, name at 114
    94 00 00 00 9c 00 00 00 | 98 sizes at 12c, dim order at 138
    00 00 00 00 00 00 00 00 | a0 at 0
    02 00 00 00 00 00 00 00 | a8 i16, padding
    34 00 00 00 68 00 00 00 | b0 tensor, name at 11c
    88 00 00 00 84 00 00 00 | b8 sizes and dim order at 140
    10 00 00 00 00 00 00 00 | c0 at 10
    07 00 00 00             | c8 f64
    08 00 14 00 04 00 0c 00 | cc fields of a segment: offset at 4, size at 12
    08 00 00 00             | d4 segment
    00 00 00 00 00 00 00 00 | d8 at 0
    18 00 00 00 00 00 00 00 | e0 of 18
    00 00 00 00 20 00 00 00 | e8 padding; segment
    20 00 00 00 00 00 00 00 | f0 at 20
    03 00 00 00 00 00 00 00 | f8 of 3
    08 00 0c 00 04 00 08 00 | 100 fields of named data: key at 4, segment at 8
    08 00 00 00 18 00 00 00 | 108 named data, key at 124
    01 00 00 00             | 110 segment 1
    01 00 00 00 77 00 00 00 | 114 w
    01 00 00 00 78 00 00 00 | 11c x
    01 00 00 00 62 00 00 00 | 124 b
    02 00 00 00             | 12c two sizes
    01 00 00 00 03 00 00 00 | 130 1, 3
    02 00 00 00 00 01 00 00 | 138 0, 1
    00 00 00 00             | 140 none
    00 00 00 00 00 00 00 00 | 144 padding
    00 00 00 00             | 14c padding

    01 00 ff ff 00 01 00 00 | 150 1, -1, 256
    00 00 00 00 00 00 00 00 | 158 padding
    00 00 00 00 00 00 f8 3f | 160 1.5
    00 00 00 00 00 00 00 00 | 168 padding
    07 08 09                | 170 the blob
";

/// The RFC's version 1: two tensors of the same bytes.
pub(super) const DATA_V1: &str = "
    38 00 00 00 44 54 30 31 | 00 the root table at 38, DT01
    65 68 30 30 20 00 00 00 | 08 eh00, a header of 32
    20 01 00 00 00 00 00 00 | 10 a flatbuffer that ends at 120
    20 01 00 00 00 00 00 00 | 18 segments from 120 on
    06 00 00 00 00 00 00 00 | 20 of 6

    00 00 00 00             | 28 padding
    0c 00 14 00 04 00 08 00 | 2c fields of the root: version at 4, tensor segments at 8
    0c 00 10 00             | 34 segments at 12, alignment at 16
    0c 00 00 00 01 00 00 00 | 38 root, version 1
    14 00 00 00 08 00 00 00 | 40 tensor segments at 54, segments at 4c
    10 00 00 00             | 48 aligned to 16
    01 00 00 00 14 00 00 00 | 4c a segment, at 64
    01 00 00 00 20 00 00 00 | 54 a tensor segment, at 78
    08 00 0c 00 00 00 04 00 | 5c fields of a segment: no offset, size at 4
    08 00 00 00             | 64 segment
    06 00 00 00 00 00 00 00 | 68 of 6
    08 00 08 00 00 00 04 00 | 70 fields of a tensor segment: no index, tensors at 4
    08 00 00 00 04 00 00 00 | 78 tensor segment, tensors at 80
    02 00 00 00             | 80 two tensors
    60 00 00 00 14 00 00 00 | 84 at e4 and at 9c
    10 00 1c 00 08 00 07 00 | 8c fields of a tensor: name at 8, scalar type at 7
    0c 00 10 00 00 00 14 00 | 94 dimensions at 12, dim order at 16, no offset, size at 20
    10 00 00 00 00 00 00 02 | 9c tensor, i16
    14 00 00 00 20 00 00 00 | a4 name at b8, dimensions at c8
    14 00 00 00             | ac dim order at c0
    06 00 00 00 00 00 00 00 | b0 of 6
    01 00 00 00 76 00 00 00 | b8 v
    02 00 00 00 00 01 00 00 | c0 0, 1
    02 00 00 00             | c8 two dimensions
    01 00 00 00 03 00 00 00 | cc 1, 3
    10 00 20 00 08 00 07 00 | d4 fields of a tensor: name at 8, scalar type at 7
    0c 00 10 00 00 00 14 00 | dc dimensions at 12, dim order at 16, no offset, size at 20
    10 00 00 00 00 00 00 02 | e4 tensor, i16
    18 00 00 00 24 00 00 00 | ec name at 104, dimensions at 114
    18 00 00 00             | f4 dim order at 10c
    06 00 00 00 00 00 00 00 | f8 of 6
    00 00 00 00             | 100 padding
    01 00 00 00 77 00 00 00 | 104 w
    02 00 00 00 00 01 00 00 | 10c 0, 1
    02 00 00 00             | 114 two dimensions
    01 00 00 00 03 00 00 00 | 118 1, 3

    01 00 ff ff 00 01       | 120 1, -1, 256
";

/// The RFC's version 2: no tensors, but a description of the model.
pub(super) const DATA_V2: &str = "
    38 00 00 00 44 54 30 31 | 00 the root table at 38, DT01
    65 68 30 30 20 00 00 00 | 08 eh00, a header of 32
    98 00 00 00 00 00 00 00 | 10 a flatbuffer that ends at 98
    a0 00 00 00 00 00 00 00 | 18 segments from a0 on
    00 00 00 00 00 00 00 00 | 20 of 0

    00 00 0e 00 18 00 04 00 | 28 padding, 2a fields of the root: version at 4
    08 00 0c 00 10 00 14 00 | 30 compatibility at 8, then tensor segments, segments, alignment
    0e 00 00 00 02 00 00 00 | 38 root, version 2
    24 00 00 00 10 00 00 00 | 40 compatibility at 64, tensor segments at 54
    08 00 00 00 10 00 00 00 | 48 segments at 50, aligned to 16
    00 00 00 00 00 00 00 00 | 50 no segments, no tensor segments
    0c 00 14 00 04 00 08 00 | 58 fields of compatibility: model at 4, version at 8
    0c 00 10 00             | 60 scheme at 12, description at 16
    0c 00 00 00 28 00 00 00 | 64 compatibility, model at 90
    1c 00 00 00 10 00 00 00 | 6c version at 88, scheme at 80
    04 00 00 00             | 74 description at 78
    00 00 00 00 00 00 00 00 | 78 nothing
    00 00 00 00 00 00 00 00 | 80 nothing
    01 00 00 00 32 00 00 00 | 88 2
    01 00 00 00 6d 00 00 00 | 90 m

    00 00 00 00 00 00 00 00 | 98 padding
";

/// Our own file of the tensors of [`FT01`].
const WRITTEN_FT01: &str = "
    44 00 00 00             | 00 the root table at 44
    46 54 30 31             | 04 FT01
    46 48 30 31 28 00 00 00 | 08 FH01, a header of 40
    30 00 00 00 00 00 00 00 | 10 48 with padding
    f8 00 00 00 00 00 00 00 | 18 a flatbuffer of f8
    30 01 00 00 00 00 00 00 | 20 segments from 130 on
    12 00 00 00 00 00 00 00 | 28 of 12
    00 00 00 00 00 00 00 00 | 30 padding
    00 00                   | 38 padding
    0a 00 0c 00 00 00 04 00 | 3a fields of the root: no version, segments at 4, named data at 8
    08 00
    0a 00 00 00             | 44 the root, fields at 3a
    98 00 00 00             | 48 segments at e0
    04 00 00 00             | 4c named data at 50
    03 00 00 00 0c 00 00 00 | 50 3 names, at 60, 80, 9c
    28 00 00 00 40 00 00 00
    ce ff ff ff             | 60 named data, fields at 92
    0c 00 00 00             | 64 key at 70
    00 00 00 00             | 68 segment 0
    50 00 00 00             | 6c layout at bc
    01 00 00 00 77 00       | 70 `w`
    00 00                   | 76 padding
    08 00 0c 00 04 00 08 00 | 78 fields of named data: no layout, key at 4, segment at 8
    08 00 00 00             | 80 named data, fields at 78
    08 00 00 00             | 84 key at 8c
    01 00 00 00             | 88 segment 1
    01 00 00 00 62 00       | 8c `b`
    0a 00 10 00 04 00 08 00 | 92 fields of named data: key at 4, segment at 8, layout at 12
    0c 00
    0a 00 00 00             | 9c named data, fields at 92
    0c 00 00 00             | a0 key at ac
    00 00 00 00             | a4 segment 0
    14 00 00 00             | a8 layout at bc
    01 00 00 00 76 00       | ac `v`
    0a 00 10 00 07 00 08 00 | b2 fields of a layout: scalar type at 7, sizes at 8, dim order at 12
    0c 00
    0a 00 00 00             | bc a layout, fields at b2
    00 00 00                | c0 padding
    02                      | c3 scalar type 2
    08 00 00 00             | c4 sizes at cc
    10 00 00 00             | c8 dim order at d8
    02 00 00 00 01 00 00 00 | cc 2 sizes: 1, 3
    03 00 00 00
    02 00 00 00 00 01       | d8 2 dims in order: 0, 1
    00 00                   | de padding
    02 00 00 00 10 00 00 00 | e0 2 segments, at f4, 114
    2c 00 00 00
    08 00 18 00 04 00 0c 00 | ec fields of a segment: offset at 4, size at 12
    08 00 00 00             | f4 a segment, fields at ec
    00 00 00 00 00 00 00 00 | f8 offset 00
    06 00 00 00 00 00 00 00 | 100 size 06
    00 00 00 00             | 108 padding
    08 00 14 00 04 00 0c 00 | 10c fields of a segment: offset at 4, size at 12
    08 00 00 00             | 114 a segment, fields at 10c
    10 00 00 00 00 00 00 00 | 118 offset 10
    02 00 00 00 00 00 00 00 | 120 size 02
    00 00 00 00 00 00 00 00 | 128 padding
    01 00 ff ff 00 01 00 00 | 130 data
    00 00 00 00 00 00 00 00
    07 08
";

/// Our own file of the tensors of [`DATA_V1`].
const WRITTEN_DATA_V1: &str = "
    38 00 00 00             | 00 the root table at 38
    44 54 30 31             | 04 DT01
    65 68 30 30 20 00 00 00 | 08 eh00, a header of 32
    28 01 00 00 00 00 00 00 | 10 a flatbuffer that ends at 128
    30 01 00 00 00 00 00 00 | 18 segments from 130 on
    06 00 00 00 00 00 00 00 | 20 of 6
    00 00 00 00             | 28 padding
    0c 00 14 00 04 00 08 00 | 2c fields of the root: version at 4, tensor segments at 8, segments at 12, alignment at 16
    0c 00 10 00
    0c 00 00 00             | 38 the root, fields at 2c
    01 00 00 00             | 3c version 1
    0c 00 00 00             | 40 tensor segments at 4c
    c0 00 00 00             | 44 segments at 104
    10 00 00 00             | 48 alignment 16
    01 00 00 00 0c 00 00 00 | 4c 1 tensor segments, at 5c
    08 00 0c 00 04 00 08 00 | 54 fields of a tensor segment: segment at 4, tensors at 8
    08 00 00 00             | 5c a tensor segment, fields at 54
    00 00 00 00             | 60 segment 0
    04 00 00 00             | 64 tensors at 68
    02 00 00 00 18 00 00 00 | 68 2 tensors, at 84, c4
    54 00 00 00
    10 00 28 00 04 00 0b 00 | 74 fields of a tensor: name at 4, scalar type at 11, dims at 12, dim order at 16, offset at 20, size at 28
    0c 00 10 00 14 00 1c 00
    10 00 00 00             | 84 a tensor, fields at 74
    24 00 00 00             | 88 name at ac
    00 00 00                | 8c padding
    02                      | 8f scalar type 2
    60 00 00 00             | 90 dims at f0
    68 00 00 00             | 94 dim order at fc
    00 00 00 00 00 00 00 00 | 98 offset 00
    06 00 00 00 00 00 00 00 | a0 size 06
    00 00 00 00             | a8 padding
    01 00 00 00 77 00       | ac `w`
    00 00                   | b2 padding
    10 00 24 00 04 00 0b 00 | b4 fields of a tensor: name at 4, scalar type at 11, dims at 12, dim order at 16, offset at 20, size at 28
    0c 00 10 00 14 00 1c 00
    10 00 00 00             | c4 a tensor, fields at b4
    20 00 00 00             | c8 name at e8
    00 00 00                | cc padding
    02                      | cf scalar type 2
    20 00 00 00             | d0 dims at f0
    28 00 00 00             | d4 dim order at fc
    00 00 00 00 00 00 00 00 | d8 offset 00
    06 00 00 00 00 00 00 00 | e0 size 06
    01 00 00 00 76 00       | e8 `v`
    00 00                   | ee padding
    02 00 00 00 01 00 00 00 | f0 2 dims: 1, 3
    03 00 00 00
    02 00 00 00 00 01       | fc 2 dims in order: 0, 1
    00 00                   | 102 padding
    01 00 00 00 0c 00 00 00 | 104 1 segments, at 114
    08 00 14 00 04 00 0c 00 | 10c fields of a segment: offset at 4, size at 12
    08 00 00 00             | 114 a segment, fields at 10c
    00 00 00 00 00 00 00 00 | 118 offset 00
    06 00 00 00 00 00 00 00 | 120 size 06
    00 00 00 00 00 00 00 00 | 128 padding
    01 00 ff ff 00 01       | 130 data
";

/// Our own file of the description in [`DATA_V2`].
const WRITTEN_DATA_V2: &str = "
    38 00 00 00             | 00 the root table at 38
    44 54 30 31             | 04 DT01
    65 68 30 30 20 00 00 00 | 08 eh00, a header of 32
    98 00 00 00 00 00 00 00 | 10 a flatbuffer that ends at 98
    a0 00 00 00 00 00 00 00 | 18 segments from a0 on
    00 00 00 00 00 00 00 00 | 20 of 0
    00 00                   | 28 padding
    0e 00 18 00 04 00 08 00 | 2a fields of the root: version at 4, compatibility at 8, tensor segments at 12, segments at 16, alignment at 20
    0c 00 10 00 14 00
    0e 00 00 00             | 38 the root, fields at 2a
    02 00 00 00             | 3c version 2
    1c 00 00 00             | 40 compatibility at 5c
    4c 00 00 00             | 44 tensor segments at 90
    4c 00 00 00             | 48 segments at 94
    10 00 00 00             | 4c alignment 16
    0c 00 14 00 10 00 0c 00 | 50 fields of compatibility: model at 16, version at 12, scheme at 8, description at 4
    08 00 04 00
    0c 00 00 00             | 5c compatibility, fields at 50
    10 00 00 00             | 60 description at 70
    14 00 00 00             | 64 scheme at 78
    18 00 00 00             | 68 version at 80
    1c 00 00 00             | 6c model at 88
    00 00 00 00 00          | 70 nothing
    00 00 00                | 75 padding
    00 00 00 00 00          | 78 nothing
    00 00 00                | 7d padding
    01 00 00 00 32 00       | 80 `2`
    00 00                   | 86 padding
    01 00 00 00 6d 00       | 88 `m`
    00 00                   | 8e padding
    00 00 00 00             | 90 no tensor segments
    00 00 00 00             | 94 no segments
    00 00 00 00 00 00 00 00 | 98 padding
";

fn w() -> Tensor {
    Tensor::from_slice(&[1_i16, -1, 256], [1, 3]).unwrap()
}

fn blob(bytes: &[u8]) -> Tensor {
    Tensor::new(TensorInfo::blob(bytes.len()), bytes).unwrap()
}

fn map<const N: usize>(tensors: [(&str, Tensor); N]) -> TensorMap {
    tensors.into_iter().collect()
}

/// The files above, each with its contents.
fn golden() -> [(&'static str, Vec<u8>, TensorMap); 3] {
    let (w, x) = (w(), Tensor::from_slice(&[1.5_f64], []).unwrap());
    [
        ("FT01", hex(FT01), map([("w", w.clone()), ("b", blob(&[7, 8])), ("v", w.clone())])),
        ("early FT01", hex(EARLY), map([("w", w.clone()), ("x", x), ("b", blob(&[7, 8, 9]))])),
        ("DT01", hex(DATA_V1), map([("w", w.clone()), ("v", w)])),
    ]
}

/// A copy with some bytes changed.
fn with(file: &str, changes: &[(usize, &[u8])]) -> Vec<u8> {
    let mut file = hex(file);
    for (at, bytes) in changes {
        file[*at..at + bytes.len()].copy_from_slice(bytes);
    }
    file
}

fn segments(file: &[u8]) -> usize {
    ptd::metadata(file).unwrap().segments
}

#[test]
fn reads_every_generation() {
    for (what, file, expected) in golden() {
        assert_eq!(ptd::from_slice::<TensorMap>(&file).unwrap(), expected, "{what}");
        assert_eq!(ptd::from_reader::<TensorMap>(&file[..]).unwrap(), expected, "{what} from a stream");
        let slow = Dribble::new(&file);
        assert_eq!(ptd::from_reader::<TensorMap>(slow).unwrap(), expected, "{what} from a slow stream");
    }
    assert_eq!(ptd::from_slice::<TensorMap>(&hex(DATA_V2)).unwrap(), TensorMap::new());
    assert_eq!(ptd::from_reader::<TensorMap>(&hex(DATA_V2)[..]).unwrap(), TensorMap::new());
}

fn model() -> Compatibility {
    Compatibility { model_name: "m".to_owned(), version: "2".to_owned(), ..Compatibility::default() }
}

#[test]
fn writes_three_generations() {
    let [(_, _, tensors), _, (_, _, shared)] = golden();
    let options = Options::new().alignment(16);
    assert_eq!(options.to_vec(&tensors).unwrap(), hex(WRITTEN_FT01));
    assert_eq!(options.clone().version(Version::Dt01V1).to_vec(&shared).unwrap(), hex(WRITTEN_DATA_V1));
    let data_v2 = options.version(Version::Dt01V2).compatibility(model());
    assert_eq!(data_v2.to_vec(&TensorMap::new()).unwrap(), hex(WRITTEN_DATA_V2));
    let mut streamed = Vec::new();
    Options::new().alignment(16).to_writer(&mut streamed, &tensors).unwrap();
    assert_eq!(streamed, hex(WRITTEN_FT01));
    assert_eq!(ptd::from_slice::<TensorMap>(&streamed).unwrap(), tensors);
    assert_eq!(ptd::from_slice::<TensorMap>(&hex(WRITTEN_DATA_V1)).unwrap(), shared);
}

#[test]
fn reads_metadata() {
    let metadata = |file: &[u8]| {
        let metadata = ptd::metadata(file).unwrap();
        let numbers = (metadata.schema_version, metadata.tensor_alignment, metadata.segments);
        (metadata.version, numbers, metadata.compatibility)
    };
    let [(_, ft01, _), (_, early, _), (_, data_v1, _)] = golden();
    assert_eq!(metadata(&ft01), (Version::Ft01, (0, None, 2), None));
    assert_eq!(metadata(&early), (Version::EarlyFt01, (0, Some(16), 2), None));
    assert_eq!(metadata(&data_v1), (Version::Dt01V1, (1, Some(16), 1), None));
    assert_eq!(metadata(&hex(DATA_V2)), (Version::Dt01V2, (2, Some(16), 0), Some(model())));
}

#[test]
fn an_empty_file_is_padded_to_where_segments_would_begin() {
    for (alignment, len) in [(1, 88), (16, 96), (128, 128), (4096, 4096)] {
        let file = Options::new().alignment(alignment).to_vec(&TensorMap::new()).unwrap();
        assert_eq!(file.len(), len, "aligned to {alignment}");
        assert_eq!(ptd::from_slice::<TensorMap>(&file).unwrap(), TensorMap::new());
    }
}

#[test]
fn knows_every_scalar_type() {
    let numbers: [(u8, Dtype); 23] = [
        (0, Dtype::U8),
        (1, Dtype::I8),
        (2, Dtype::I16),
        (3, Dtype::I32),
        (4, Dtype::I64),
        (5, Dtype::F16),
        (6, Dtype::F32),
        (7, Dtype::F64),
        (11, Dtype::Bool),
        (12, Dtype::QInt8),
        (13, Dtype::QUint8),
        (14, Dtype::QInt32),
        (15, Dtype::Bf16),
        (16, Dtype::QUint4x2),
        (17, Dtype::QUint2x4),
        (22, Dtype::Bits16),
        (23, Dtype::F8E5M2),
        (24, Dtype::F8E4M3Fn),
        (25, Dtype::F8E5M2Fnuz),
        (26, Dtype::F8E4M3Fnuz),
        (27, Dtype::U16),
        (28, Dtype::U32),
        (29, Dtype::U64),
    ];
    for (number, dtype) in numbers {
        // The bytes of `FT01`'s two tensors, as a vector of the dtype.
        let bytes = dtype.bytes_for(1).unwrap();
        let file = |file: &str, segment: usize, layouts: &[(usize, usize)], data: usize| {
            let mut file = hex(file);
            file[segment] = u8::try_from(bytes).unwrap();
            for &(scalar_type, sizes) in layouts {
                file[scalar_type] = number;
                file[sizes + 4] = 1;
            }
            file[data..data + 8].copy_from_slice(&[1, 0, 0, 0, 0, 0, 0, 0]);
            file
        };
        let mut payload = vec![0; bytes];
        payload[0] = 1;
        let expected = Tensor::new(TensorInfo::new(dtype, [1, 1]), &payload).unwrap();
        let foreign = file(FT01, 0x98, &[(0xbf, 0xd4), (0x123, 0x138)], 0x140);
        let read: TensorMap = ptd::from_slice(&foreign).unwrap();
        assert_eq!((&read["w"], &read["v"]), (&expected, &expected), "{number}");
        let written = Options::new().alignment(16).to_vec(&read).unwrap();
        assert_eq!(written, file(WRITTEN_FT01, 0x100, &[(0xc3, 0xd0)], 0x130), "{number}");
    }
}

#[derive(TensorFile, Debug, PartialEq)]
struct Bert {
    #[tensor(rename = "embeddings.word_embeddings.weight")]
    words: Array2<f32>,
    #[tensor(rename = "encoder.layer")]
    layers: Vec<Layer>,
    #[tensor(rename = "cls.decoder.weight", tied = "embeddings.word_embeddings.weight")]
    decoder: Array2<f32>,
}

#[derive(TensorFile, Debug, PartialEq)]
struct Layer {
    #[tensor(rename = "attention.self.query")]
    query: Linear,
    #[tensor(rename = "attention.output.LayerNorm")]
    norm: Linear,
}

#[derive(TensorFile, Debug, PartialEq)]
struct Linear {
    weight: Array2<f32>,
    bias: Option<Array1<f32>>,
}

fn bert() -> Bert {
    let linear = |at: u8| Linear {
        weight: Array2::from_shape_fn((3, 4), |(i, j)| (i * 10 + j + usize::from(at) * 100) as f32),
        bias: (!at.is_multiple_of(2)).then(|| array![0.5, f32::from(at)]),
    };
    let words = Array2::from_shape_fn((7, 4), |(i, j)| (i * 4 + j) as f32);
    let layers = (0..3).map(|at| Layer { query: linear(at), norm: linear(at + 10) }).collect();
    Bert { decoder: words.clone(), words, layers }
}

#[test]
fn derived_structs_go_there_and_back() {
    let model = bert();
    for options in [
        Options::new(),
        Options::new().keep_dim_order(true),
        Options::new().version(Version::Dt01V1).segments(Segments::One),
        Options::new().version(Version::Dt01V2).alignment(4096),
    ] {
        let file = options.to_vec(&model).unwrap();
        assert_eq!(ptd::from_slice::<Bert>(&file).unwrap(), model);
        assert_eq!(ptd::from_reader::<Bert>(&file[..]).unwrap(), model);
        let mut streamed = Vec::new();
        options.to_writer(&mut streamed, &model).unwrap();
        assert_eq!(streamed, file);
    }
    let map: TensorMap = ptd::from_slice(&ptd::to_vec(&model).unwrap()).unwrap();
    assert_eq!(
        map.names().take(3).collect::<Vec<_>>(),
        [
            "embeddings.word_embeddings.weight",
            "encoder.layer.0.attention.self.query.weight",
            "encoder.layer.0.attention.output.LayerNorm.weight",
        ]
    );
    let decoder = (map["cls.decoder.weight"].as_bytes(), map["embeddings.word_embeddings.weight"].as_bytes());
    assert_eq!(decoder.0.as_ptr(), decoder.1.as_ptr());
    assert_eq!(map.len() - 1, segments(&ptd::to_vec(&model).unwrap()));
    // Formats that share nothing write it in full.
    let mut fields = tensorfile::btf::to_vec(&model).unwrap();
    assert_eq!(tensorfile::btf::from_slice::<Vec<Tensor>>(&fields).unwrap().len(), map.len());
    fields = postcard::to_stdvec(&model).unwrap();
    assert_eq!(postcard::from_bytes::<Bert>(&fields).unwrap(), model);
}

#[test]
fn blobs_are_kept_byte_for_byte() {
    #[derive(TensorFile, Debug, PartialEq)]
    struct Program {
        weight: Array1<f32>,
        delegate: Blob,
    }

    let program = Program { weight: array![1.0, 2.0], delegate: Blob(vec![9, 8, 7]) };
    let file = ptd::to_vec(&program).unwrap();
    assert_eq!(ptd::from_slice::<Program>(&file).unwrap(), program);
    assert_eq!(ptd::from_reader::<Program>(&file[..]).unwrap(), program);
    let map: TensorMap = ptd::from_slice(&file).unwrap();
    assert_eq!(map["delegate"].info().to_string(), "a blob of 3 bytes");
    assert_eq!(ptd::to_vec(&map).unwrap(), file);

    assert_eq!(
        message(ptd::from_slice::<Arrays<BTreeMap<String, Array1<u8>>>>(&file[..])),
        "ptd: 1 wrong dtype, 1 wrong layout; 0 of 2 tensors fit\nwrong dtype (`#[tensor(cast)]` converts numbers):\n  `weight`  f32[2], but expected u8\n\
         wrong layout:\n  `delegate`  a blob of 3 bytes, but expected a tensor (`Blob` reads this)"
    );
    let only: TensorMap = map.into_iter().filter(|(name, _)| name == "delegate").collect();
    let file = ptd::to_vec(&only).unwrap();
    assert_eq!(
        message(ptd::from_slice::<Arrays<BTreeMap<String, Array1<u8>>>>(&file)),
        "ptd: 1 wrong layout; 0 of 1 tensor fits\nwrong layout:\n  `delegate`  a blob of 3 bytes, but expected a tensor \
         (`Blob` reads this)"
    );
    let refused = Options::new().version(Version::Dt01V1).to_vec(&only);
    assert_eq!(
        message(refused),
        "ptd: tensor `delegate`: cannot store a blob; DT01 stores tensors; FT01 stores blobs too"
    );
}

#[test]
fn memory_orders_go_both_ways() {
    let image = Array4::from_shape_fn((2, 4, 5, 3), |(n, h, w, c)| (n * 1000 + h * 100 + w * 10 + c) as f32);
    // NHWC memory of an NCHW array.
    let image = Arrays(image.permuted_axes([0, 3, 1, 2]));
    let row_major = ptd::to_vec(&image).unwrap();
    let map: TensorMap = ptd::from_slice(&row_major).unwrap();
    assert_eq!(*map["0"].layout(), Layout::RowMajor);
    let kept = Options::new().keep_dim_order(true).to_vec(&image).unwrap();
    let map: TensorMap = ptd::from_slice(&kept).unwrap();
    assert_eq!(map["0"].info().to_string(), "f32[2, 3, 4, 5] in dim order [0, 2, 3, 1]");
    for file in [&row_major, &kept] {
        assert_eq!(ptd::from_slice::<Arrays<Array4<f32>>>(file).unwrap(), image);
        assert_eq!(ptd::from_reader::<Arrays<Array4<f32>>>(&file[..]).unwrap(), image);
    }
    let Arrays(view) = ptd::from_slice::<Arrays<ndarray::ArrayView4<'_, f32>>>(&kept).unwrap();
    assert_eq!(view.strides(), image.0.strides());
    // Tensors are written in row-major order by default.
    assert_eq!(ptd::to_vec(&map).unwrap(), row_major);
    assert_eq!(Options::new().keep_dim_order(true).to_vec(&map).unwrap(), kept);

    // The same memory in two orders is two tensors.
    let square = Array2::from_shape_fn((2, 2), |(i, j)| (10 * i + j) as f64);
    let both = Arrays([square.view(), square.t()]);
    for (options, expected) in [(Options::new(), 2), (Options::new().keep_dim_order(true), 1)] {
        let file = options.to_vec(&both).unwrap();
        assert_eq!(segments(&file), expected);
        assert_eq!(ptd::from_slice::<Arrays<[ArrayView2<'_, f64>; 2]>>(&file).unwrap(), both);
    }
    let fortran = Arrays(Array2::from_shape_vec((2, 3).f(), vec![1_u8, 2, 3, 4, 5, 6]).unwrap());
    let file = Options::new().version(Version::Dt01V2).keep_dim_order(true).to_vec(&fortran).unwrap();
    assert_eq!(ptd::from_slice::<Arrays<Array2<u8>>>(&file).unwrap(), fortran);
    assert!(file.ends_with(&[1, 2, 3, 4, 5, 6]));
}

#[test]
fn segments_hold_groups() {
    fn layer(name: &str) -> String {
        name.split('.').next().unwrap_or_default().to_owned()
    }
    let tensor = |len: usize, value: u8| Tensor::from_slice(&vec![value; len], [len]).unwrap();
    let map = map([
        ("0.weight", tensor(20, 1)),
        ("0.bias", tensor(3, 2)),
        ("1.weight", tensor(20, 3)),
        ("1.bias", tensor(3, 2)),
        ("0.late", tensor(1, 4)),
    ]);
    for (segments_of, dedup, expected, len) in [
        (Segments::PerTensor, false, 5, 97),
        (Segments::One, false, 1, 97),
        (Segments::By(layer), false, 3, 97),
        (Segments::By(layer), true, 3, 81),
    ] {
        let options = Options::new().version(Version::Dt01V1).segments(segments_of).dedup(dedup).alignment(16);
        let file = options.to_vec(&map).unwrap();
        let metadata = ptd::metadata(&file).unwrap();
        assert_eq!(metadata.segments, expected, "{segments_of:?}");
        let base = u64::from_le_bytes(file[24..32].try_into().unwrap());
        assert_eq!(file.len() as u64 - base, len, "{segments_of:?}");
        assert_eq!(ptd::from_slice::<TensorMap>(&file).unwrap(), map, "{segments_of:?}");
        assert_eq!(ptd::from_reader::<TensorMap>(&file[..]).unwrap(), map, "{segments_of:?}");
    }
}

#[test]
fn refuses_unsupported_tensors() {
    let mut messages = Messages::default();
    let sparse = CooTensor::<f32>::new([2], vec![1], vec![1.0]).unwrap();
    let expected = "ptd: tensor `0`: cannot store a sparse tensor; ptd stores dense tensors; btf stores sparse ones";
    messages.compare("sparse", ptd::to_vec(&sparse), expected);
    let rank = TensorInfo::new(Dtype::U8, vec![1; 256]);
    let rank = Tensor::new(rank, &[1]).unwrap();
    let expected = "ptd: tensor `0`: cannot store rank 256; ptd stores ranks up to 255";
    messages.compare("rank", ptd::to_vec(&rank), expected);
    let long = Tensor::new(TensorInfo::new(Dtype::F32, [0, 1 << 31]), &[]).unwrap();
    let expected = "ptd: tensor `long.one`: cannot store a dim of 2147483648; ptd stores dims below 2^31";
    messages.compare("dim", ptd::to_vec(&map([("long.one", long)])), expected);
    let longest = Tensor::new(TensorInfo::new(Dtype::F32, [0, (1 << 31) - 1]), &[]).unwrap();
    let file = ptd::to_vec(&longest).unwrap();
    assert_eq!(ptd::from_slice::<Tensor>(&file).unwrap(), longest);

    let nul = map([("a\0b", Tensor::from_slice(&[1_u8], [1]).unwrap())]);
    let expected = "ptd: tensor `a\\u{0}b`: cannot store a name with NUL in it; ExecuTorch's C++ finds no such name";
    messages.compare("NUL", ptd::to_vec(&nul), expected);
    messages.compare("NUL in DT01", Options::new().version(Version::Dt01V1).to_vec(&nul), expected);

    let none = TensorMap::new();
    for (what, options, expected) in [
        (
            "0.6",
            Options::new().version(Version::EarlyFt01),
            "ptd: cannot write the FT01 of ExecuTorch 0.5 and 0.6; `Version::Ft01` is what later versions read and write",
        ),
        (
            "segments",
            Options::new().segments(Segments::One),
            "ptd: cannot put several tensors into a segment of FT01; `Version::Dt01V2` can",
        ),
        (
            "compatibility",
            Options::new().version(Version::Dt01V1).compatibility(model()),
            "ptd: cannot store compatibility metadata in this version; `Version::Dt01V2` can",
        ),
        ("alignment", Options::new().alignment(0), "ptd: cannot align to 0 bytes; expected a power of two"),
        ("alignment", Options::new().alignment(48), "ptd: cannot align to 48 bytes; expected a power of two"),
    ] {
        messages.compare(what, options.to_vec(&none), expected);
    }
    messages.end();
}

#[derive(TensorFile)]
struct WithMetadata<T> {
    tensor: T,
    #[tensor(metadata, rename = "ptd.model_name")]
    model: Option<String>,
}

#[test]
fn metadata_of_a_value_changes_no_version_that_was_set() {
    let value = |model: Option<&str>| WithMetadata { tensor: array![1.0_f32], model: model.map(str::to_owned) };
    let version = |options: &Options, model| {
        let file = options.to_vec(&value(model));
        let read = file.map(|file| ptd::metadata(&file).unwrap());
        read.map(|found| (found.version, found.compatibility.map(|model| model.model_name)))
    };
    let named = Some("llama".to_owned());
    assert_eq!(version(&Options::new(), None).unwrap(), (Version::Ft01, None));
    assert_eq!(version(&Options::new(), Some("llama")).unwrap(), (Version::Dt01V2, named.clone()));
    let second = Options::new().version(Version::Dt01V2);
    assert_eq!(version(&second, Some("llama")).unwrap(), (Version::Dt01V2, named));
    for other in [Version::Ft01, Version::Dt01V1] {
        let options = Options::new().version(other);
        assert_eq!(version(&options, None).unwrap(), (other, None));
        let expected = "ptd: cannot store compatibility metadata in this version; `Version::Dt01V2` can";
        assert_eq!(message(version(&options, Some("llama"))), expected);
    }
}

#[test]
fn metadata_of_a_value_makes_no_tensor_of_a_blob() {
    let value = |model: Option<&str>| WithMetadata { tensor: Blob(b"{}".to_vec()), model: model.map(str::to_owned) };
    let file = ptd::to_vec(&value(None)).unwrap();
    assert_eq!(*ptd::from_slice::<TensorMap>(&file).unwrap()["tensor"].layout(), Layout::Blob);
    let expected = "ptd: tensor `tensor`: cannot store a blob; DT01 stores tensors; FT01 stores blobs too";
    assert_eq!(message(ptd::to_vec(&value(Some("llama")))), expected);
    assert_eq!(message(Options::new().plan(&value(Some("llama")))), expected);
}

#[test]
fn limits_hold_before_anything_is_made() {
    let file = hex(FT01);
    let limited = |limits: Limits| message(Options::new().limits(limits).from_slice::<TensorMap>(&file));
    assert_eq!(limited(Limits::new().tensors(2)), "ptd: number of tensors is 3, but the limit is 2");
    assert_eq!(limited(Limits::new().rank(1)), "ptd: tensor `w`: rank is 2, but the limit is 1 (at byte 292)");
}

#[test]
fn a_hundred_thousand_tensors_open_and_load() {
    let name = |at: u32| format!("encoder.layer.{at}.attention.self.query.weight");
    let map: TensorMap = (0..100_000).map(|at| (name(at), Tensor::from_slice(&[at], [1]).unwrap())).collect();
    for options in [Options::new().alignment(16), Options::new().version(Version::Dt01V2).segments(Segments::One)] {
        let file = options.to_vec(&map).unwrap();
        assert_eq!(ptd::from_slice::<TensorMap>(&file).unwrap(), map);
        assert_eq!(ptd::from_reader::<TensorMap>(&file[..]).unwrap(), map);
    }
}

/// Files that ExecuTorch 1.5.1 wrote, by `tests/fixtures/ptd/write.py`.
fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(root().join(format!("tests/fixtures/ptd/{name}.ptd"))).unwrap()
}

#[test]
fn reproduces_files_of_executorch() {
    let counted: Vec<u8> = (0..24).collect();
    let tensor = |dtype, shape: &[usize], bytes: &[u8]| Tensor::new(TensorInfo::new(dtype, shape), bytes).unwrap();
    let transposed =
        TensorInfo { layout: Layout::from_dim_order(&[1, 0]).unwrap(), ..TensorInfo::new(Dtype::I16, [2, 3]) };
    let expected = map([
        ("w", tensor(Dtype::F32, &[2, 3], &counted)),
        ("blob", blob(b"opaque")),
        ("v", tensor(Dtype::I32, &[3, 2], &counted)),
        ("t", Tensor::new(transposed, &counted[..12]).unwrap()),
        ("scalar", tensor(Dtype::F64, &[], &[0; 8])),
        ("none", tensor(Dtype::I64, &[0, 2], &[])),
    ]);
    for alignment in [16, 128] {
        let file = fixture(&format!("shared_{alignment}"));
        let read: TensorMap = ptd::from_slice(&file).unwrap();
        assert_eq!(read, expected, "aligned to {alignment}");
        assert_eq!(ptd::from_reader::<TensorMap>(&file[..]).unwrap(), expected, "aligned to {alignment}");
        assert_eq!(segments(&file), 5);

        let ours = Options::new().alignment(alignment).keep_dim_order(true).to_vec(&read).unwrap();
        let base = |file: &[u8]| usize::try_from(u64::from_le_bytes(file[32..40].try_into().unwrap())).unwrap();
        assert_eq!(ours[base(&ours)..], file[base(&file)..], "segments aligned to {alignment}");
        // Flatbuffers may be laid out in many ways; all else of the header is the same.
        assert_eq!(ours[4..24], file[4..24]);
        assert_eq!(ours[40..56], file[40..56]);
    }
    let empty = fixture("empty");
    assert_eq!(ptd::from_slice::<TensorMap>(&empty).unwrap(), TensorMap::new());
    assert_eq!(ptd::to_vec(&TensorMap::new()).unwrap().len(), empty.len());
}

#[test]
fn unknown_scalar_types_cost_their_tensor_only() {
    for (what, bytes) in [("FT01", FT01), ("DT01", DATA_V1)] {
        let of = |bytes: Vec<u8>| OpenOptions::new().format(format("ptd")).from_bytes(bytes);
        let whole = of(hex(bytes)).unwrap();
        let mut found = 0;
        for at in 0..hex(bytes).len() {
            let changed = with(bytes, &[(at, &[44])]);
            let Ok(file) = of(changed.clone()) else { continue };
            let Some(tensor) = file.tensors().find(|tensor| tensor.info().unknown_dtype() == Some("44")) else {
                continue;
            };
            let info = format!("44{} of unknown dtype", tensor.shape());
            check_unknown(format("ptd"), &changed, tensor.name(), &info, whole.get(tensor.name()).unwrap().range());
            found += 1;
        }
        assert!(found >= 2, "{what}: {found}");
    }
}

/// Files of ExecuTorch 0.5 and 0.6 do not state the sizes of tensors.
#[test]
fn an_unknown_scalar_type_has_no_end_in_early_files() {
    let errors: Vec<String> = (0..hex(EARLY).len())
        .filter_map(|at| ptd::from_slice::<TensorMap>(&with(EARLY, &[(at, &[44])])).err())
        .map(|error| error.to_string())
        .filter(|error| error.contains("unknown dtype tag 44 (at byte "))
        .collect();
    assert!(!errors.is_empty());
}
