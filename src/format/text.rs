//! Text formats.
use super::{BatchStream, FileRead};
use crate::error::{Error, Result};
#[allow(clippy::unused_async)]
pub(super) async fn open(read: FileRead) -> Result<BatchStream> {
    Err(Error::unsupported(format!("{} files", read.format.name())))
}
