//! Bytes and messages, format by format.
