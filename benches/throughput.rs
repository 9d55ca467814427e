//! Throughput of writing and reading.
//!
//! `cargo bench -p tensorfile-benches --bench throughput`; `BENCH_SHRINK=1000` divides the sizes. The benchmark `ratios`
//! compares with a plain copy.

mod cases;

use divan::counter::{BytesCount, ItemsCount};
use divan::{Bencher, black_box};
use ndarray::{Array1, Array2, ArrayView1};
use tensorfile::{Arrays, btf, ptd, ten, tensorbuffers};

fn main() {
    divan::main();
}

/// The benchmarks of a format.
macro_rules! format {
    ($format:ident, $module:ident) => {
        mod $module {
            use super::*;

            #[divan::bench(sample_count = 5)]
            fn large_to_memory(bencher: Bencher) {
                let arrays = Arrays(cases::large());
                let bytes = arrays.0.iter().map(|array| 4 * array.len());
                bencher.counter(BytesCount::new(bytes.sum::<usize>())).bench(|| $format::to_vec(&arrays));
            }

            #[divan::bench(sample_count = 5)]
            fn large_to_owned(bencher: Bencher) {
                let file = $format::to_vec(&Arrays(cases::large())).expect("f32 can be stored");
                bencher
                    .counter(BytesCount::of_slice(&file))
                    .bench(|| $format::from_slice::<Arrays<Vec<Array2<f32>>>>(black_box(&file)));
            }

            #[divan::bench(sample_count = 20)]
            fn small_to_memory(bencher: Bencher) {
                let arrays = Arrays(cases::small());
                bencher.counter(ItemsCount::new(arrays.0.len())).bench(|| $format::to_vec(&arrays));
            }

            #[divan::bench(sample_count = 20)]
            fn small_to_owned(bencher: Bencher) {
                let arrays = Arrays(cases::small());
                let file = $format::to_vec(&arrays).expect("f32 can be stored");
                bencher
                    .counter(ItemsCount::new(arrays.0.len()))
                    .bench(|| $format::from_slice::<Arrays<Vec<Array1<f32>>>>(black_box(&file)));
            }

            #[divan::bench(args = cases::GO)]
            fn go_encode(bencher: Bencher, elements: usize) {
                let array = Arrays(Array1::from_elem(elements, 1.5_f32));
                let mut file = Vec::new();
                bencher.counter(BytesCount::of_many::<f32>(elements)).bench_local(|| {
                    file.clear();
                    $format::to_writer(&mut file, black_box(&array))
                });
            }

            #[divan::bench(args = cases::GO)]
            fn go_decode(bencher: Bencher, elements: usize) {
                let file = $format::to_vec(&Arrays(Array1::from_elem(elements, 1.5_f32))).expect("f32 can be stored");
                bencher
                    .counter(BytesCount::of_many::<f32>(elements))
                    .bench(|| $format::from_slice::<Arrays<Array1<f32>>>(black_box(&file)));
            }

            #[divan::bench(args = cases::GO)]
            fn go_decode_view(bencher: Bencher, elements: usize) {
                let file = $format::to_vec(&Arrays(Array1::from_elem(elements, 1.5_f32))).expect("f32 can be stored");
                bencher
                    .counter(BytesCount::of_many::<f32>(elements))
                    .bench(|| $format::from_slice::<Arrays<ArrayView1<f32>>>(black_box(&file)).is_ok());
            }
        }
    };
}

format!(btf, in_btf);
format!(ten, in_ten);
format!(ptd, in_ptd);
format!(tensorbuffers, in_tensorbuffers);
