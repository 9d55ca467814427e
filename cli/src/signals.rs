//! Signals that would leave temporary files.

/// Signals end the program in their handlers, without removing files.
#[cfg(unix)]
static ENDS_AT_ONCE: std::sync::LazyLock<std::sync::Arc<std::sync::atomic::AtomicBool>> =
    std::sync::LazyLock::new(std::sync::Arc::default);

/// Ends the program at a signal without waiting for a thread, as input from a terminal begins.
///
/// The system stops a process in the background that reads from its terminal. When a signal and SIGCONT arrive, as from
/// `timeout`, the reading thread is stopped again before another thread can run, and the process would stay stopped.
pub fn read_terminal() {
    #[cfg(unix)]
    ENDS_AT_ONCE.store(true, std::sync::atomic::Ordering::Relaxed);
}

/// Makes SIGHUP, SIGINT and SIGTERM remove temporary files before they end the program, with the exit code of a shell.
///
/// Signals that the parent ignores stay ignored: SIGHUP, so that `nohup` works, and SIGINT, as in a job in the
/// background of a script. Where the system does not tell, SIGHUP is left alone.
///
/// Writing more than `ulimit -f` allows becomes an error instead of the signal SIGXFSZ. Without these, the program
/// still works, so that failures are ignored.
pub fn handle() {
    #[cfg(unix)]
    {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
        use signal_hook::iterator::Signals;

        // The flag is not read: a signal that is handled does not end the process.
        let _ = signal_hook::flag::register(SIGXFSZ, std::sync::Arc::default());
        let ignored = ignored();
        let is_handled = |signal: &i32| ignored.map_or(*signal != SIGHUP, |ignored| ignored & (1 << (signal - 1)) == 0);
        let handled: Vec<i32> = [SIGHUP, SIGINT, SIGTERM].into_iter().filter(is_handled).collect();
        // Before the thread is told, in the order of registration.
        for signal in &handled {
            let ends = std::sync::Arc::clone(&ENDS_AT_ONCE);
            let _ = signal_hook::flag::register_conditional_shutdown(*signal, 128 + signal, ends);
        }
        let Ok(mut signals) = Signals::new(handled) else { return };
        let wait = move || {
            if let Some(signal) = signals.forever().next() {
                tensorfile::file::atomic::exit_without_saving(128 + signal);
            }
        };
        let _ = std::thread::Builder::new().name("signals".to_owned()).spawn(wait);
    }
}

/// Returns a bit for each signal that this process ignores, from signal 1 on, where the system tells it.
#[cfg(unix)]
fn ignored() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}
