//! What both programs need: where pgweir is, and how to say what came of a check. ../python/check.py describes the
//! environment and the lines that are printed.

use std::error::Error;
use std::future::Future;

pub const WORKERS: i32 = 100;
pub const ROUNDS: i32 = 5;
pub const LARGE: usize = 10 * 1000 * 1000;
pub const SLEEP: &str = "SELECT pg_sleep(3600)";
pub const TERMINATE: &str = "SELECT pg_terminate_backend(pg_backend_pid())";
pub const RUNNING: &str = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND \
    starts_with(query, 'SELECT pg_sleep(3600)') AND state = 'active' AND wait_event = 'PgSleep'";

pub type Fault = Box<dyn Error + Send + Sync>;
pub type Verdict = Result<(), Fault>;

pub fn env(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

pub fn is_session() -> bool {
    env("DRIVER_MODE") == "session"
}

pub fn is_cache() -> bool {
    env("DRIVER_VARIANT") == "cache"
}

pub fn is_tls() -> bool {
    env("PGSSLMODE") != "disable"
}

/// Fails unless it is so.
pub fn that(is_so: bool, what: &str) -> Verdict {
    if is_so {
        Ok(())
    } else {
        Err(what.into())
    }
}

/// The error has to have this code, where one is given; having no error is wrong in any case.
pub fn expect<T, E>(code: Option<&str>, got: Result<T, E>, code_of: impl Fn(&E) -> Option<String>) -> Verdict
where
    E: std::fmt::Display,
{
    match (got, code) {
        (Ok(_), _) => Err(format!("no error, where there should be {code:?}").into()),
        (Err(_), None) => Ok(()),
        (Err(error), Some(code)) if code_of(&error).as_deref() != Some(code) => {
            Err(format!("{error} instead of {code}").into())
        }
        _ => Ok(()),
    }
}

/// Runs one check and says what came of it. code_of knows the errors of the driver.
pub async fn check(name: &str, work: impl Future<Output = Verdict>, code_of: impl Fn(&Fault) -> Option<String>) {
    match work.await {
        Ok(()) => println!("ok {name}"),
        Err(fault) => {
            let code = code_of(&fault).unwrap_or("-----".into());
            let text = fault.to_string();
            eprintln!("{fault:?}");
            println!("error {name}: {code} {}", text.lines().next().unwrap_or_default());
        }
    }
}
