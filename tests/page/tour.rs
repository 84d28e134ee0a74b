//! The tour, from its link to its end.

use crate::opened::{Opened, shell};

/// How many steps there are.
const STEPS: i64 = 8;

/// Contract: PG-05
pub(crate) fn the_tour_is_taken_from_start_to_end() {
    take(|page, form| {
        page.browser.click_text(&page.browser.text(&format!("{form}.querySelector('button').textContent")));
        let done = format!("document.querySelector('#said.done') && !{form}.querySelector('button').disabled");
        page.browser.until("what the button did", &done);
    });
}

/// Contract: PG-05
pub(crate) fn the_tour_is_taken_by_the_commands_that_it_shows() {
    take(|page, form| {
        let commands = page.browser.text(&format!("{form}.querySelector('code').textContent"));
        let kubeconfig = format!("--kubeconfig {}", page.cluster.kubeconfig().display());
        let mut programs = commands.lines().filter(|line| line.starts_with("kubectl ") || line.starts_with("muster "));
        assert!(programs.all(|line| line.contains(&kubeconfig)), "{commands}");
        shell(&commands);
    });
}

/// Takes the tour, each part of each step as `begin` has it by its form.
fn take(begin: impl Fn(&Opened, &str)) {
    let page = Opened::start(&["--tour", "--managers", "2"]);
    let browser = &page.browser;
    assert_eq!(browser.text("location.pathname"), "/tour", "the link leads to the tour");
    for step in 1..=STEPS {
        let number = format!("document.querySelector('#step .note')?.textContent === 'Step {step} of {STEPS}'");
        browser.until("the step", &number);
        assert_eq!(
            browser.eval("document.querySelectorAll('.step > p:not(.note)').length"),
            3,
            "sentences of step {step}"
        );
        assert_eq!(
            browser.eval("document.querySelector('#goal .done, #goal.done') === null"),
            true,
            "step {step} is done before it began"
        );
        let parts = browser.eval("document.querySelectorAll('form.act').length").as_i64().expect("a number");
        assert!(parts > 0, "step {step} has no button");
        for part in 0..parts {
            let form = format!("document.querySelectorAll('form.act')[{part}]");
            begin(&page, &form);
            if part + 1 < parts {
                between(&page, step);
            }
        }
        browser.until(
            &format!("the goal of step {step}"),
            "document.querySelector('p.goal.done')?.textContent.startsWith('✓ Done')",
        );
        if step < STEPS {
            browser.click_text("Next step");
        } else {
            browser.click_text("That was the tour");
        }
    }
    browser.until("the overview", "document.querySelector('#line-ReplicaSet_tour_seed') !== null");
    assert_eq!(page.number("#line-ReplicaSet_tour_seed", "ready"), 12);
    assert_eq!(page.number("#line-Deployment_tour_web", "ready"), 10);
    page.is_clean();
}

/// What is to be seen between the two parts of a step.
fn between(page: &Opened, step: i64) {
    match step {
        5 => page.browser.until(
            "the ReplicationController",
            "document.querySelector('#seen svg')?.getAttribute('aria-label').startsWith('5 desired, 5 created, 5 ready, 5 available')",
        ),
        6 => page.browser.until("the Deployment", "document.querySelector('#seen svg')?.getAttribute('aria-label').startsWith('10 desired, 10 created, 10 ready, 10 available')"),
        _ => page.browser.until("why it is broken", "/ImagePull/.test(document.querySelector('#seen .sentence')?.textContent)"),
    };
}
