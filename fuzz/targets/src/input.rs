//! Makes values from the bytes of an input.

use tensorfile::{Dtype, Layout, Tensor, TensorInfo, TensorMap, WriteOptions};

/// Bytes to make values from. After the last byte, zeros follow.
pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    pub fn byte(&mut self) -> u8 {
        self.bytes(1).first().copied().unwrap_or(0)
    }

    /// Returns a number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        usize::from(self.byte()) % end.max(1)
    }

    /// Returns the next bytes, or fewer at the end.
    pub fn bytes(&mut self, len: usize) -> &'a [u8] {
        let (now, later) = self.0.split_at(len.min(self.0.len()));
        self.0 = later;
        now
    }

    /// Returns the bytes before the next NUL, without it.
    pub fn before_nul(&mut self) -> &'a [u8] {
        let len = self.0.iter().position(|byte| *byte == 0).unwrap_or(self.0.len());
        let bytes = self.bytes(len);
        self.byte();
        bytes
    }

    pub fn options(&mut self) -> WriteOptions {
        let bits = self.byte();
        let mut options =
            WriteOptions::new().embed_names(bits & 1 > 0).keep_dim_order(bits & 2 > 0).tfrt_coo(bits & 4 > 0);
        if bits & 8 > 0 {
            options = options.alignment(match self.byte() {
                power @ 0..=16 => 1 << power,
                other => u64::from(other),
            });
        }
        if bits & 16 > 0 {
            let entries = (0..self.below(3)).map(|_| (self.name(), self.name())).collect();
            options = options.metadata(entries);
        }
        options
    }

    pub fn map(&mut self) -> TensorMap {
        (0..self.below(7)).map(|_| (self.name(), self.tensor())).collect()
    }

    fn name(&mut self) -> String {
        const PARTS: &[&str] =
            &["a", "b", "layers", "0", "1", "weight", "bias", "ä", "", "12345678", "model.safetensors"];
        match self.byte() {
            kind @ 0..128 => {
                let parts: Vec<&str> = (0..=kind % 4).map(|_| PARTS[self.below(PARTS.len())]).collect();
                parts.join(".")
            }
            kind => String::from_utf8_lossy(self.bytes(usize::from(kind & 31))).into_owned(),
        }
    }

    fn tensor(&mut self) -> Tensor {
        let kind = self.byte();
        if kind == 255 {
            let bytes = self.before_nul();
            return Tensor::new(TensorInfo::blob(bytes.len()), bytes).unwrap();
        }
        let dtype = Dtype::ALL[self.below(Dtype::ALL.len())];
        let mut shape: Vec<usize> = (0..kind % 7).map(|_| self.below(20)).collect();
        if kind % 16 == 15 {
            // More than a byte of the index, and ranks that some formats do not have.
            shape = vec![1; usize::from(self.byte())];
        }
        while shape.iter().product::<usize>() > 2000 {
            shape.pop();
        }
        let block = dtype.block_elements();
        if let Some(last) = shape.last_mut().filter(|_| block > 1) {
            *last = last.next_multiple_of(block);
        } else if block > 1 {
            shape.push(block);
        }
        match kind / 16 % 4 {
            // Blocks of several elements are dense and row-major.
            _ if block > 1 => {}
            0 => return self.sparse(dtype, shape),
            1 => {
                let mut order: Vec<u8> = (0..=255).take(shape.len()).collect();
                for at in 0..order.len() {
                    order.swap(at, self.below(shape.len()));
                }
                let layout = Layout::from_dim_order(&order).unwrap();
                return self.payload(TensorInfo { layout, ..TensorInfo::new(dtype, shape) });
            }
            _ => {}
        }
        self.payload(TensorInfo::new(dtype, shape))
    }

    fn sparse(&mut self, dtype: Dtype, shape: Vec<usize>) -> Tensor {
        let entries = if shape.contains(&0) { 0 } else { self.below(6) };
        let info = TensorInfo { layout: Layout::Coo { entries }, ..TensorInfo::new(dtype, shape) };
        let mut bytes = Vec::new();
        for _ in 0..entries {
            bytes.extend(info.shape.dims().iter().flat_map(|&dim| (self.below(dim) as u64).to_le_bytes()));
        }
        bytes.extend((entries as u64).to_le_bytes());
        let left = info.payload_bytes().unwrap() - bytes.len();
        bytes.extend(self.elements(dtype, left));
        Tensor::new(info, &bytes).unwrap()
    }

    fn payload(&mut self, info: TensorInfo) -> Tensor {
        let bytes = self.elements(info.dtype, info.payload_bytes().unwrap());
        Tensor::new(info, &bytes).unwrap()
    }

    fn elements(&mut self, dtype: Dtype, len: usize) -> Vec<u8> {
        // Short inputs make large tensors too.
        let seed = self.bytes(len.min(16));
        let bytes = seed.iter().chain([&0]).cycle().take(len);
        bytes.map(|byte| if dtype == Dtype::Bool { byte & 1 } else { *byte }).collect()
    }
}
