//! What every format must do.
