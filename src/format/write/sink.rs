//! Where encoders put the bytes of a file: pieces that can be sent without copying them again.

use std::io::Write;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

/// Bytes of a piece; longer writes are pieces of their own.
const PIECE: usize = 1 << 20;

/// Bytes that wait to be sent. Clones are the same sink.
#[derive(Clone, Debug, Default)]
pub(super) struct Sink(Arc<Mutex<Pieces>>);

#[derive(Debug, Default)]
struct Pieces {
    full: Vec<Bytes>,
    last: Vec<u8>,
    len: usize,
}

impl Sink {
    /// The bytes that wait.
    pub fn len(&self) -> usize {
        self.0.lock().len
    }

    /// Takes what waits.
    pub fn take(&self) -> Vec<Bytes> {
        let mut pieces = self.0.lock();
        pieces.close();
        pieces.len = 0;
        std::mem::take(&mut pieces.full)
    }
}

impl Pieces {
    fn close(&mut self) {
        if !self.last.is_empty() {
            self.full.push(std::mem::take(&mut self.last).into());
        }
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut pieces = self.0.lock();
        if bytes.len() >= PIECE {
            pieces.close();
            pieces.full.push(Bytes::copy_from_slice(bytes));
        } else {
            if pieces.last.len() + bytes.len() > PIECE {
                pieces.close();
            }
            pieces.last.extend_from_slice(bytes);
        }
        pieces.len += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
