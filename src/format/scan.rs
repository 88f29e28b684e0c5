//! scan
/// x
pub struct FileScan;
