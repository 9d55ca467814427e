//! Tests with files that other programs made, and of all kernels against plain loops.

mod cases;
mod fixtures;
mod lengths;
mod pieces;
mod plain;
mod support;
