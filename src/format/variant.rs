//! VARIANT columns in files.
use arrow::array::{ArrayRef, StructArray};
use crate::error::{Error, Result};
pub(crate) fn conform_variant(_array: &StructArray) -> Result<ArrayRef> {
    Err(Error::unsupported("shredded"))
}
