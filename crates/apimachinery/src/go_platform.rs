//! The platform of the program, with Go's names of operating systems and architectures. Kubernetes clients and servers
//! report the platform in this form.

use std::env::consts;

/// Returns the platform of the program as `OS/ARCHITECTURE`, for example `linux/amd64`.
pub fn go_platform() -> String {
    format!(
        "{}/{}",
        go_system(consts::OS),
        go_architecture(consts::ARCH)
    )
}

/// Returns Go's name of an operating system.
fn go_system(name: &str) -> &str {
    match name {
        "macos" => "darwin",
        other => other,
    }
}

/// Returns Go's name of an architecture.
fn go_architecture(name: &str) -> &str {
    match name {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systems_and_architectures_have_the_names_of_go() {
        assert_eq!(go_system("macos"), "darwin");
        assert_eq!(go_system("linux"), "linux");
        for (name, expected) in [
            ("x86_64", "amd64"),
            ("aarch64", "arm64"),
            ("riscv64", "riscv64"),
        ] {
            assert_eq!(go_architecture(name), expected);
        }
    }
}
