//! Tests with files that other programs and scripts made, and properties of all kernels.

mod cases;
mod support;
