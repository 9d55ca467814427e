//! The fields of the tables, by their numbers in the schemas in `schema/`.

/// The first field of the root, in every generation.
pub(super) const VERSION: usize = 0;

/// The root of `FT01`.
pub(super) mod flat_tensor {
    pub(in super::super) const SEGMENTS: usize = 1;
    pub(in super::super) const NAMED_DATA: usize = 2;
}

/// The root of the `FT01` of ExecuTorch 0.5 and 0.6.
pub(super) mod early_flat_tensor {
    pub(in super::super) const TENSOR_ALIGNMENT: usize = 1;
    pub(in super::super) const TENSORS: usize = 2;
    pub(in super::super) const SEGMENTS: usize = 3;
    pub(in super::super) const NAMED_DATA: usize = 4;
}

/// The root of version 1 of `DT01`.
pub(super) mod data_v1 {
    pub(in super::super) const TENSOR_SEGMENTS: usize = 1;
    pub(in super::super) const SEGMENTS: usize = 2;
    pub(in super::super) const TENSOR_ALIGNMENT: usize = 3;
}

/// The root of version 2 of `DT01`.
pub(super) mod data_v2 {
    pub(in super::super) const COMPATIBILITY_METADATA: usize = 1;
    pub(in super::super) const TENSOR_SEGMENTS: usize = 2;
    pub(in super::super) const SEGMENTS: usize = 3;
    pub(in super::super) const TENSOR_ALIGNMENT: usize = 4;
}

/// A segment of data.
pub(super) mod data_segment {
    pub(in super::super) const OFFSET: usize = 0;
    pub(in super::super) const SIZE: usize = 1;
}

/// A tensor of `FT01`.
pub(super) mod named_data {
    pub(in super::super) const KEY: usize = 0;
    pub(in super::super) const SEGMENT_INDEX: usize = 1;
    pub(in super::super) const TENSOR_LAYOUT: usize = 2;
}

/// The dtype, shape and dim order of a tensor, from the field of the dtype on.
pub(super) mod tensor_layout {
    pub(in super::super) const SCALAR_TYPE: usize = 0;
    pub(in super::super) const SIZES: usize = 1;
    pub(in super::super) const DIM_ORDER: usize = 2;
}

/// A tensor of the early `FT01`, and of `DT01`.
pub(super) mod tensor_metadata {
    pub(in super::super) const FULLY_QUALIFIED_NAME: usize = 0;
    /// The first field of the layout.
    pub(in super::super) const SCALAR_TYPE: usize = 1;
    /// A field of the early `FT01`.
    pub(in super::super) const EARLY_SEGMENT_INDEX: usize = 4;
    /// A field of the early `FT01`.
    pub(in super::super) const EARLY_OFFSET: usize = 5;
    /// A field of `DT01`.
    pub(in super::super) const OFFSET: usize = 4;
    /// A field of `DT01`.
    pub(in super::super) const SIZE: usize = 5;
}

/// The tensors of a segment of `DT01`.
pub(super) mod tensor_segment {
    pub(in super::super) const SEGMENT_INDEX: usize = 0;
    pub(in super::super) const TENSOR_METADATA: usize = 1;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the fields of a table in a schema.
    fn fields<'a>(schema: &'a str, table: &str) -> Vec<&'a str> {
        let (_, rest) = schema.split_once(&format!("\ntable {table} {{")).expect("the schema has the table");
        let (body, _) = rest.split_once('}').expect("a table ends");
        let lines = body.lines().map(str::trim).filter(|line| !line.starts_with("//"));
        lines.filter_map(|line| Some(line.split_once(':')?.0)).collect()
    }

    #[test]
    fn fields_are_those_of_the_schemas() {
        let schemas = [include_str!("schema/flat_tensor.fbs"), include_str!("schema/data.fbs")];
        let check = |schema: usize, table: &str, expected: &[(usize, &str)]| {
            let fields = fields(schemas[schema], table);
            for &(number, name) in expected {
                assert_eq!(fields.get(number), Some(&name), "{table}");
            }
        };
        let layout = |first, sizes| {
            let names = [(0, "scalar_type"), (1, sizes), (2, "dim_order")];
            let numbers = [tensor_layout::SCALAR_TYPE, tensor_layout::SIZES, tensor_layout::DIM_ORDER];
            names.map(|(index, name)| (first + numbers[index], name))
        };
        use flat_tensor as ft;
        check(0, "FlatTensor", &[(VERSION, "version"), (ft::SEGMENTS, "segments"), (ft::NAMED_DATA, "named_data")]);
        use early_flat_tensor as early;
        let fields = [
            (VERSION, "version"),
            (early::TENSOR_ALIGNMENT, "tensor_alignment"),
            (early::TENSORS, "tensors"),
            (early::SEGMENTS, "segments"),
            (early::NAMED_DATA, "named_data"),
        ];
        check(0, "EarlyFlatTensor", &fields);
        let fields = [
            (VERSION, "version"),
            (data_v1::TENSOR_SEGMENTS, "tensor_segments"),
            (data_v1::SEGMENTS, "segments"),
            (data_v1::TENSOR_ALIGNMENT, "tensor_alignment"),
        ];
        check(1, "DataV1", &fields);
        let fields = [
            (VERSION, "version"),
            (data_v2::COMPATIBILITY_METADATA, "compatibility_metadata"),
            (data_v2::TENSOR_SEGMENTS, "tensor_segments"),
            (data_v2::SEGMENTS, "segments"),
            (data_v2::TENSOR_ALIGNMENT, "tensor_alignment"),
        ];
        check(1, "DataV2", &fields);
        for schema in [0, 1] {
            check(schema, "DataSegment", &[(data_segment::OFFSET, "offset"), (data_segment::SIZE, "size")]);
        }
        let fields = [
            (named_data::KEY, "key"),
            (named_data::SEGMENT_INDEX, "segment_index"),
            (named_data::TENSOR_LAYOUT, "tensor_layout"),
        ];
        check(0, "NamedData", &fields);
        check(0, "TensorLayout", &layout(0, "sizes"));
        use tensor_metadata as metadata;
        check(0, "TensorMetadata", &layout(metadata::SCALAR_TYPE, "sizes"));
        check(1, "TensorMetadata", &layout(metadata::SCALAR_TYPE, "dimensions"));
        let name = (metadata::FULLY_QUALIFIED_NAME, "fully_qualified_name");
        let early = [(metadata::EARLY_SEGMENT_INDEX, "segment_index"), (metadata::EARLY_OFFSET, "offset")];
        check(0, "TensorMetadata", &[&[name], &early[..]].concat());
        check(1, "TensorMetadata", &[name, (metadata::OFFSET, "offset"), (metadata::SIZE, "size")]);
        let fields =
            [(tensor_segment::SEGMENT_INDEX, "segment_index"), (tensor_segment::TENSOR_METADATA, "tensor_metadata")];
        check(1, "TensorSegment", &fields);
    }
}
