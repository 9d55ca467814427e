//! Signals that would leave temporary files.

/// Makes SIGHUP, SIGINT and SIGTERM remove temporary files before they end the program, with the exit code of a shell.
///
/// Writing more than `ulimit -f` allows becomes an error instead of the signal SIGXFSZ. Without these, the program still
/// works, so that failures are ignored.
pub fn handle() {
    #[cfg(unix)]
    {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
        use signal_hook::iterator::Signals;

        // The flag is not read: a signal that is handled does not end the process.
        let _ = signal_hook::flag::register(SIGXFSZ, std::sync::Arc::default());
        let Ok(mut signals) = Signals::new([SIGHUP, SIGINT, SIGTERM]) else { return };
        let wait = move || {
            if let Some(signal) = signals.forever().next() {
                tensorfile::atomic::exit_without_saving(128 + signal);
            }
        };
        let _ = std::thread::Builder::new().name("signals".to_owned()).spawn(wait);
    }
}
