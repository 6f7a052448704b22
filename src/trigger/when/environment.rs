//! Reads the variables `MEMREEL` and `MEMREEL_TAPE`.

use std::{
    env::VarError,
    sync::atomic::{AtomicBool, Ordering},
};

use once_cell::race::OnceBox;

use crate::trigger::{
    files::template::Template,
    when::grammar::{self, Parsed},
};
use crate::{
    process::{environment, notice},
    recorder::Enabled,
};
use memreel_snapshot::words::{Error, Result};

/// Returns the options from the environment when they were first read; `None` if there are none.
///
/// An invalid value is reported in one line on standard error and otherwise ignored.
pub(crate) fn environment() -> Option<&'static Parsed> {
    // A cell that no thread waits for: in a child of `fork` the thread that fills it may not exist.
    static ASKED: OnceBox<Option<Parsed>> = OnceBox::new();
    ASKED.get_or_init(|| Box::new(read().unwrap_or_else(refuse))).as_ref()
}

#[cold]
fn refuse(error: Error) -> Option<Parsed> {
    // Two threads may read it at once; one line is enough.
    static IS_PRINTED: AtomicBool = AtomicBool::new(false);
    if !IS_PRINTED.swap(true, Ordering::Relaxed) {
        notice::print(&format!("{error}; MEMREEL and MEMREEL_TAPE have no effect"));
    }
    None
}

fn read() -> Result<Option<Parsed>> {
    from_variables(|name| match environment::text(name) {
        Ok(text) => Ok(Some(text)),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(_)) => {
            Err(Error::invalid_settings("the environment", format!("{name} is not UTF-8")))
        }
    })
}

/// Reads the variables from another source. `MEMREEL_TAPE=FILE` adds `all,tape=FILE` unless `MEMREEL` sets them.
fn from_variables(variable: impl Fn(&str) -> Result<Option<String>>) -> Result<Option<Parsed>> {
    let mut parsed = grammar::parse("MEMREEL", &variable("MEMREEL")?.unwrap_or_default())?;
    if let Some(tape) = variable("MEMREEL_TAPE")?.filter(|tape| !tape.is_empty()) {
        let wrong = |why: String| Error::invalid_settings("MEMREEL_TAPE", why);
        if parsed.overlay.tape.is_some() {
            return Err(wrong(format!("{tape:?} contradicts tape= in MEMREEL; set one of them")));
        }
        if parsed.overlay.enabled.is_some_and(|enabled| enabled != Enabled::All) {
            return Err(wrong(format!(
                "{tape:?} contradicts off or state in MEMREEL; a tape has all events"
            )));
        }
        // The grammar is the same, but a path may have commas here.
        let template = Template::parse(&tape).map_err(|found| {
            wrong(format!("unknown placeholder {:?} at character {} of {tape:?}", found.text, found.at))
        })?;
        if !template.is_of_process() {
            return Err(wrong(format!("{tape:?} may have {{host}}, {{rank}}, {{pid}} and {{time}} only")));
        }
        (parsed.overlay.tape, parsed.overlay.enabled) = (Some(template), Some(Enabled::All));
    }
    Ok((parsed != Parsed::default()).then_some(parsed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> Result<Option<Parsed>> {
        from_variables(|name| {
            Ok(pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
        })
    }

    #[test]
    fn a_tape_is_short_for_all_with_a_tape() {
        let long = of(&[("MEMREEL", "all,tape=run.tape")]).unwrap();
        assert!(long.is_some());
        assert_eq!(of(&[("MEMREEL_TAPE", "run.tape")]).unwrap(), long);
        assert_eq!(of(&[("MEMREEL", "all"), ("MEMREEL_TAPE", "run.tape")]).unwrap(), long);
        let with_ring = of(&[("MEMREEL", "ring=5"), ("MEMREEL_TAPE", "run.tape")]).unwrap();
        assert_eq!(with_ring, of(&[("MEMREEL", "all,tape=run.tape,ring=5")]).unwrap());
        assert_eq!(of(&[("MEMREEL", ""), ("MEMREEL_TAPE", "")]).unwrap(), None);
    }

    #[test]
    fn variables_that_contradict_each_other_are_refused() {
        for memreel in ["tape=other.tape", "off", "state"] {
            let error = of(&[("MEMREEL", memreel), ("MEMREEL_TAPE", "run.tape")]).unwrap_err().to_string();
            assert!(error.starts_with("MEMREEL_TAPE: \"run.tape\" contradicts "), "{error}");
        }
        let error = of(&[("MEMREEL_TAPE", "{x}.tape")]).unwrap_err().to_string();
        assert!(error.contains("unknown placeholder \"{x}\" at character 0"), "{error}");
        let error = of(&[("MEMREEL_TAPE", "{n}.tape")]).unwrap_err().to_string();
        assert!(error.contains("\"{n}.tape\" may have {host}"), "{error}");
    }
}
