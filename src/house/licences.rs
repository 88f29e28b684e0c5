//! The licence gate: everything that is linked in, or used to build and test, has a licence that goes with Apache-2.0.

use std::process::Command;

use serde_json::Value;

use super::root;

/// Licences that ask for no more than their text to be kept.
const ALLOWED: [&str; 13] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Zlib",
    "bzip2-1.0.6",
];

/// Packages allowed by name, with their licence: MPL-2.0 covers the package's own files only, and they are unchanged.
const BY_NAME: [(&str, &str); 1] = [("option-ext", "MPL-2.0")];

#[test]
fn dependencies_when_listed_then_have_a_licence_that_may_be_used() {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().unwrap();
    assert!(packages.len() > 100, "cargo lists {} packages only", packages.len());
    let mut wrong = Vec::new();
    for package in packages {
        let (name, version) = (package["name"].as_str().unwrap(), package["version"].as_str().unwrap());
        match package["license"].as_str() {
            Some(licence) => {
                let named = BY_NAME.contains(&(name, licence));
                match satisfied(licence) {
                    Ok(true) => {}
                    _ if named => {}
                    Ok(false) => wrong.push(format!("{name} {version}: the licence {licence} is not allowed")),
                    Err(reason) => wrong.push(format!("{name} {version}: {licence}: {reason}")),
                }
            }
            None => wrong.push(format!("{name} {version} names no licence")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What cargo knows of all packages of this platform and all features, without the network.
fn metadata() -> Value {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let about = Command::new(rustc).arg("-vV").output().unwrap();
    let about = String::from_utf8(about.stdout).unwrap();
    let host = about.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
    let output = Command::new(cargo)
        .current_dir(root())
        .args(["metadata", "--format-version", "1", "--locked", "--offline", "--all-features"])
        .args(["--filter-platform", host])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "cargo metadata failed (run `cargo fetch` once if sources are missing): {}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Whether an SPDX expression can be satisfied by allowed licences alone. The old `A/B` means `A OR B`.
fn satisfied(expression: &str) -> Result<bool, String> {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words: Vec<&str> = spaced.split_whitespace().rev().collect();
    let result = either(&mut words)?;
    match words.pop() {
        None => Ok(result),
        Some(word) => Err(format!("{word} is not expected there")),
    }
}

// `words` holds what is left of the expression, the next word last. AND binds closer than OR.

fn either(words: &mut Vec<&str>) -> Result<bool, String> {
    let mut result = both(words)?;
    while words.pop_if(|word| *word == "OR").is_some() {
        result |= both(words)?;
    }
    Ok(result)
}

fn both(words: &mut Vec<&str>) -> Result<bool, String> {
    let mut result = single(words)?;
    while words.pop_if(|word| *word == "AND").is_some() {
        result &= single(words)?;
    }
    Ok(result)
}

fn single(words: &mut Vec<&str>) -> Result<bool, String> {
    let word = words.pop().ok_or("the expression ends too early")?;
    if word == "(" {
        let result = either(words)?;
        return match words.pop() {
            Some(")") => Ok(result),
            _ => Err("a bracket is not closed".to_owned()),
        };
    }
    if words.pop_if(|word| *word == "WITH").is_some() {
        let exception = words.pop().ok_or("an exception is missing")?;
        return Ok(ALLOWED.contains(&format!("{word} WITH {exception}").as_str()));
    }
    Ok(ALLOWED.contains(&word))
}

#[test]
fn satisfied_when_a_choice_is_allowed_then_true() {
    for licence in [
        "MIT",
        "MIT/Apache-2.0",
        "GPL-3.0 OR MIT",
        "Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT",
        "(MIT OR GPL-2.0) AND Unicode-3.0",
        "ISC AND (Apache-2.0 OR ISC) AND MIT",
        "MIT OR Apache-2.0 OR LGPL-2.1-or-later",
    ] {
        assert_eq!(satisfied(licence), Ok(true), "{licence}");
    }
}

#[test]
fn satisfied_when_no_choice_is_allowed_then_false() {
    for licence in
        ["GPL-3.0-only", "MIT AND GPL-3.0", "LGPL-2.1 OR MPL-2.0", "Apache-2.0 WITH Other-exception", "SSPL-1.0"]
    {
        assert_eq!(satisfied(licence), Ok(false), "{licence}");
    }
    for licence in ["", "MIT OR", "(MIT", "MIT Apache-2.0", "MIT WITH"] {
        assert!(satisfied(licence).is_err(), "{licence}");
    }
}
