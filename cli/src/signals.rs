//! Signals that would leave temporary files.

/// Makes SIGHUP, SIGINT and SIGTERM remove temporary files before they end the program, with the exit code of a shell.
///
/// Signals that the parent ignores stay ignored: SIGHUP, so that `nohup` works, and SIGINT, as in a job in the
/// background of a script. Where the system does not tell, SIGHUP is left alone.
///
/// None are handled if standard input is a terminal and an argument names it, as `-`. The system stops a process in the
/// background that reads from its terminal. When a signal and SIGCONT arrive, as from `timeout`, the reading thread
/// reads again, and stops the process before or while another thread handles the signal: it would stay stopped. A
/// temporary file of such a command stays if it is interrupted.
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
        if reads_terminal() {
            return;
        }
        let ignored = ignored();
        let is_handled = |signal: &i32| ignored.map_or(*signal != SIGHUP, |ignored| ignored & (1 << (signal - 1)) == 0);
        let handled: Vec<i32> = [SIGHUP, SIGINT, SIGTERM].into_iter().filter(is_handled).collect();
        let Ok(mut signals) = Signals::new(handled) else { return };
        let wait = move || {
            if let Some(signal) = signals.forever().next() {
                tensorfile::file::atomic::exit_without_saving(128 + signal);
            }
        };
        let _ = std::thread::Builder::new().name("signals".to_owned()).spawn(wait);
    }
}

/// Tells whether standard input is a terminal, and an argument stands for it.
#[cfg(unix)]
fn reads_terminal() -> bool {
    let is_stdin = |argument: std::ffi::OsString| argument == "-" || argument.as_encoded_bytes().ends_with(b"=-");
    std::io::IsTerminal::is_terminal(&std::io::stdin()) && std::env::args_os().any(is_stdin)
}

/// Returns a bit for each signal that this process ignores, from signal 1 on, where the system tells it.
#[cfg(unix)]
fn ignored() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}
