//! The one error type of the crate.
//!
//! An error says *what* went wrong, *where* (context pairs such as the table and the file) and, where there is one, *what to
//! do*. [`ErrorKind`] tells a program how to react; [`Error::is_retryable`] drives the retries of the commit path.
//! Imports nothing of the crate.

use std::fmt;

use datafusion::error::DataFusionError;

/// The result of everything fallible in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// How a program should react to an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A table, database, snapshot, tag or file that does not exist.
    NotFound,
    /// Something that was to be created is there already.
    AlreadyExists,
    /// A request that can't be right: a wrong name, option, literal or argument.
    Invalid,
    /// A feature of the format or a statement that this version does not have.
    Unsupported,
    /// Bytes in the warehouse that do not follow the format.
    Corrupt,
    /// Another writer changed what this change was built on.
    Conflict,
    /// The store did not answer as it should.
    Io,
    /// The memory pool or another bound of the engine was reached.
    Exhausted,
    /// A broken invariant of this crate.
    Internal,
}

/// An error with its kind, message, context and source.
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: ErrorKind,
    message: String,
    context: Vec<(&'static str, String)>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
    retryable: bool,
}

impl Error {
    /// An error of `kind` that says `message`.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner { kind, message: message.into(), context: Vec::new(), source: None, retryable: false }))
    }

    /// Something does not exist.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message)
    }

    /// A wrong name, option, literal or argument.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    /// A feature that this version does not have.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported, message)
    }

    /// Bytes that do not follow the format.
    pub fn corrupt(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Corrupt, message)
    }

    /// A broken invariant of this crate.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, message)
    }

    /// Adds where it happened: `.with("table", "db.t")`, `.with("file", path)`.
    #[must_use]
    pub fn with(mut self, key: &'static str, value: impl Into<String>) -> Self {
        let pair = (key, value.into());
        // Those who pass an error on may each know where it happened: it is said once.
        if !self.0.context.contains(&pair) {
            self.0.context.push(pair);
        }
        self
    }

    /// Adds the error underneath.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// Marks the error as one that the same request may not meet again.
    #[must_use]
    pub fn retryable(mut self) -> Self {
        self.0.retryable = true;
        self
    }

    /// The kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The message without context and source.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The context pairs, innermost first.
    pub fn context(&self) -> &[(&'static str, String)] {
        &self.0.context
    }

    /// Whether the same request may succeed when it is made again.
    pub fn is_retryable(&self) -> bool {
        self.0.retryable
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Context is added on the way out, so the outermost pair (the table) is the last: show it first.
        for (key, value) in self.0.context.iter().rev() {
            write!(f, "{key} {value}: ")?;
        }
        f.write_str(&self.0.message)?;
        if let Some(source) = &self.0.source {
            write!(f, ": {source}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

impl From<Error> for DataFusionError {
    fn from(error: Error) -> Self {
        Self::External(Box::new(error))
    }
}

impl From<DataFusionError> for Error {
    fn from(error: DataFusionError) -> Self {
        match error {
            DataFusionError::External(inner) => match inner.downcast::<Self>() {
                Ok(ours) => *ours,
                Err(other) => Self::new(ErrorKind::Io, "the engine failed").with_source(other),
            },
            DataFusionError::ResourcesExhausted(message) => Self::new(ErrorKind::Exhausted, message),
            other => Self::new(ErrorKind::Io, "the engine failed").with_source(other),
        }
    }
}

impl From<object_store::Error> for Error {
    fn from(error: object_store::Error) -> Self {
        match error {
            object_store::Error::NotFound { path, source } => {
                Self::not_found("the file does not exist").with("file", path).with_source(source)
            }
            object_store::Error::AlreadyExists { path, source } => {
                Self::new(ErrorKind::AlreadyExists, "the file exists already").with("file", path).with_source(source)
            }
            other => Self::new(ErrorKind::Io, "the store failed").with_source(other).retryable(),
        }
    }
}

impl From<arrow::error::ArrowError> for Error {
    fn from(error: arrow::error::ArrowError) -> Self {
        Self::new(ErrorKind::Internal, "a column operation failed").with_source(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_when_context_is_nested_then_outermost_comes_first() {
        let error = Error::corrupt("the magic is 7, not 3").with("file", "manifest-1").with("table", "db.t");
        assert_eq!(error.to_string(), "table db.t: file manifest-1: the magic is 7, not 3");
    }
}
