//! A session with kubectl: what its commands print and how they end, recorded with a real server.

use crate::server;

/// Lines that begin with `$` are commands, where `~` stands for a blank within an argument. What they print follows,
/// indented, and their exit code where it is not 0. `NS` stands for the namespace.
const SESSION: &str = include_str!("data/kubectl.txt");

struct Step<'a> {
    command: &'a str,
    printed: String,
    code: i32,
}

fn steps() -> Vec<Step<'static>> {
    let mut steps: Vec<Step<'_>> = Vec::new();
    for line in SESSION.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            steps.push(Step {
                command,
                printed: String::new(),
                code: 0,
            });
        } else if let Some(step) = steps.last_mut() {
            if let Some(code) = line.strip_prefix("exit ") {
                step.code = code.parse().unwrap();
            } else {
                step.printed.push_str(line.strip_prefix("  ").unwrap());
                step.printed.push('\n');
            }
        }
    }
    steps
}

#[tokio::test]
async fn commands_print_what_they_print_with_a_real_server() {
    let server = server().await;
    let namespace = server.namespace().await;
    let mut different = Vec::new();
    for step in steps() {
        let arguments: Vec<String> = step
            .command
            .split(' ')
            .map(|word| word.replace('~', " ").replace("NS", &namespace))
            .collect();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let Some(output) = server.kubectl(&arguments).await else {
            return;
        };
        let printed = [output.stdout, output.stderr].concat();
        let printed = String::from_utf8_lossy(&printed).replace(&namespace, "NS");
        if (printed.trim_end(), output.status.code()) != (step.printed.trim_end(), Some(step.code))
        {
            different.push(format!(
                "$ {}\n{}\nexit {:?}, but recorded are\n{}\nexit {}",
                step.command,
                printed.trim_end(),
                output.status.code(),
                step.printed.trim_end(),
                step.code
            ));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n\n"));
}
