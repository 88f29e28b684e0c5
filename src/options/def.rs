//! What the table of options knows of one option. Imports nothing of the crate but `value`.

use std::collections::BTreeMap;

use super::value;

/// One option, or one family of options whose keys hold a column or another name.
#[derive(Clone, Copy, Debug)]
pub struct OptionDef {
    /// The key. A family holds one placeholder: `fields.<c>.distinct`, or a `*` at one end: `parquet.*`.
    pub key: &'static str,
    /// What its value is.
    pub kind: Kind,
    /// The value of a table that does not set it, in the option's own notation. None: unset.
    pub default: Option<&'static str>,
    /// Old spellings, which are read as well; the key wins over them, the first over the second.
    pub aliases: &'static [&'static str],
    /// What it is for, in one line.
    pub doc: &'static str,
    /// Whether it can't be changed once the table has a snapshot (`spec/metadata.md 2.5`).
    pub immutable: bool,
    /// What a reader does with it.
    pub reading: Reading,
}

/// How a reader treats an option.
#[derive(Clone, Copy, Debug)]
pub enum Reading {
    /// It is taken into account.
    Honoured,
    /// The rows that a read returns do not depend on it; the text says why.
    Harmless(&'static str),
    /// Some of its values change what the table's files mean in a way that is not built; the others are taken into account.
    Refused(Refusal),
}

/// Why and when a table with an option is refused.
#[derive(Clone, Copy, Debug)]
pub struct Refusal {
    /// Whether the value is one of those refused, given all options of the table by their canonical keys.
    pub when: fn(&str, &BTreeMap<String, String>) -> bool,
    /// The reason and what to do instead.
    pub why: &'static str,
}

/// The type of an option's value.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// `true` or `false` in any case.
    Bool,
    /// A 32-bit whole number.
    Int {
        /// The least value.
        least: i32,
        /// The greatest value.
        most: i32,
    },
    /// A 64-bit whole number.
    Long {
        /// The least value.
        least: i64,
        /// The greatest value.
        most: i64,
    },
    /// A finite number.
    Double {
        /// The least value.
        least: f64,
        /// The greatest value.
        most: f64,
    },
    /// A memory size, see [`value::parse_size`].
    Size,
    /// A span of time, see [`value::parse_duration`].
    Time,
    /// One of these names, in any case.
    Enum(&'static [&'static str]),
    /// Any text.
    Text,
    /// Names parted by commas; blanks around them do not count.
    List,
    /// A value for each of some levels, `0:avro,5:parquet`.
    Levels(&'static Kind),
    /// Text of a form of its own.
    Form {
        /// The form, for messages.
        accepts: &'static str,
        /// Whether a text has it.
        check: fn(&str) -> bool,
    },
}

impl Kind {
    /// Whether `text` is a value of this kind.
    pub fn accepts(&self, text: &str) -> bool {
        match self {
            Self::Bool => value::parse_bool(text).is_some(),
            Self::Int { least, most } => text.parse::<i32>().is_ok_and(|number| (*least..=*most).contains(&number)),
            Self::Long { least, most } => text.parse::<i64>().is_ok_and(|number| (*least..=*most).contains(&number)),
            Self::Double { least, most } => {
                text.trim().parse::<f64>().is_ok_and(|number| number.is_finite() && (*least..=*most).contains(&number))
            }
            Self::Size => value::parse_size(text).is_some(),
            Self::Time => value::parse_duration(text).is_some(),
            Self::Enum(names) => names.iter().any(|name| name.eq_ignore_ascii_case(text)),
            Self::Text => true,
            Self::List => text.trim().is_empty() || text.split(',').all(|name| !name.trim().is_empty()),
            Self::Levels(kind) => value::parse_levels(text)
                .is_some_and(|levels| levels.iter().all(|(_, level_value)| kind.accepts(level_value))),
            Self::Form { check, .. } => check(text),
        }
    }

    /// What values of this kind look like, for messages: `.. must be <description>`.
    pub fn description(&self) -> String {
        match self {
            Self::Bool => "true or false".to_owned(),
            Self::Int { least, most } => range("a whole number", least, most, *least == i32::MIN, *most == i32::MAX),
            Self::Long { least, most } => {
                range("a 64-bit whole number", least, most, *least == i64::MIN, *most == i64::MAX)
            }
            Self::Double { least, most } => range("a number", least, most, *least == f64::MIN, *most == f64::MAX),
            Self::Size => "a memory size such as '64 mb' (b, kb, mb, gb, tb)".to_owned(),
            Self::Time => "a time such as '10 min' (d, h, min, s, ms, µs, ns)".to_owned(),
            Self::Enum(names) => format!("one of {}", names.join(", ")),
            Self::Text => "a text".to_owned(),
            Self::List => "a list of names such as 'a,b'".to_owned(),
            Self::Levels(kind) => format!("values by level such as '0:x,5:y', each {}", kind.description()),
            Self::Form { accepts, .. } => (*accepts).to_owned(),
        }
    }
}

fn range(what: &str, least: impl std::fmt::Display, most: impl std::fmt::Display, open: bool, endless: bool) -> String {
    match (open, endless) {
        (true, true) => what.to_owned(),
        (false, true) => format!("{what} of at least {least}"),
        (true, false) => format!("{what} of at most {most}"),
        (false, false) => format!("{what} from {least} to {most}"),
    }
}

pub(super) const fn honoured(key: &'static str, kind: Kind, doc: &'static str) -> OptionDef {
    def(key, kind, doc, Reading::Honoured)
}

pub(super) const fn harmless(key: &'static str, kind: Kind, doc: &'static str, why: &'static str) -> OptionDef {
    def(key, kind, doc, Reading::Harmless(why))
}

pub(super) const fn refused(key: &'static str, kind: Kind, doc: &'static str, refusal: Refusal) -> OptionDef {
    def(key, kind, doc, Reading::Refused(refusal))
}

const fn def(key: &'static str, kind: Kind, doc: &'static str, reading: Reading) -> OptionDef {
    OptionDef { key, kind, default: None, aliases: &[], doc, immutable: false, reading }
}

impl OptionDef {
    /// Sets the default.
    pub(super) const fn or(mut self, default: &'static str) -> Self {
        self.default = Some(default);
        self
    }

    /// Sets the old spellings.
    pub(super) const fn also(mut self, aliases: &'static [&'static str]) -> Self {
        self.aliases = aliases;
        self
    }

    /// Marks the option as one that stays as it is once the table has a snapshot.
    pub(super) const fn immutable(mut self) -> Self {
        self.immutable = true;
        self
    }

    /// The text before and after the placeholder of a family; None for a single option.
    pub(super) fn affixes(&self) -> Option<(&'static str, &'static str)> {
        if let Some((prefix, rest)) = self.key.split_once('<') {
            return rest.split_once('>').map(|(_, suffix)| (prefix, suffix));
        }
        self.key.split_once('*')
    }
}
