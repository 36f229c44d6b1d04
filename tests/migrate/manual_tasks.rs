//! The manual work is shown before the question.

use crate::ops::migrate::{environment, services, writes};

#[test]
fn manual_work_is_shown_before_the_question() {
    let (old, new) = services();
    let environment = environment(&old, &new);
    let terminal = environment.on_terminal(&["migrate", "old", "new", "--no-pager"]);
    terminal.shows("Apply ").shows("[y/N]").types("n\r");
    let (code, screen) = terminal.ended();
    assert_eq!((code, writes(&new)), (Some(0), 0), "{screen}");
    let at = |text: &str| screen.find(text).unwrap_or_else(|| panic!("no {text:?} in\n{screen}"));
    assert!(at("TO BE DONE BY HAND") < at("[y/N]"), "{screen}");
    assert!(at("splash_pages ") < at("[y/N]"), "{screen}");
    assert_eq!(screen.matches("TO BE DONE BY HAND").count(), 1, "{screen}");
}

#[test]
fn manual_work_is_shown_once_without_a_question() {
    let (old, new) = services();
    let environment = environment(&old, &new);
    for more in ["-n", "--yes"] {
        let ran = environment.run(&["migrate", "old", "new", more]).exits_with(3);
        assert_eq!(ran.stdout().matches("TO BE DONE BY HAND").count(), 1, "{more}");
    }
}
