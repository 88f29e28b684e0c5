//! The end of an ORC file: its stripes, its types with the table's field ids, and how it is compressed. orc-rust writes stripes,
//! and its own end of a file knows neither ids nor lengths of text.

use crate::spec::types::MAX_LENGTH;
use crate::spec::{DataField, TypeKind};

/// Bytes of a chunk before it is compressed; the stripes are written with the same.
pub(super) const CHUNK: usize = 256 << 10;
/// What every file starts with.
pub(super) const MAGIC: &[u8] = b"ORC";
/// The attribute of a type that holds the field's id.
const ID: &str = "paimon.id";

/// Where a stripe lies and how long its parts are.
#[derive(Clone, Copy, Debug)]
pub(super) struct StripeEntry {
    pub offset: u64,
    pub index_length: u64,
    pub data_length: u64,
    pub footer_length: u64,
    pub rows: u64,
}

impl StripeEntry {
    pub fn length(&self) -> u64 {
        self.index_length + self.data_length + self.footer_length
    }
}

/// Everything behind the stripes of a file. `codec` is the number of the codec, `is_legacy` says that instants are stored as wall
/// clocks.
pub(super) fn tail(fields: &[DataField], stripes: &[StripeEntry], codec: u64, is_legacy: bool) -> Vec<u8> {
    let content: u64 = stripes.iter().map(StripeEntry::length).sum();
    let mut footer = Message::default();
    footer.number(1, MAGIC.len() as u64);
    footer.number(2, MAGIC.len() as u64 + content);
    for stripe in stripes {
        let mut entry = Message::default();
        entry.number(1, stripe.offset);
        entry.number(2, stripe.index_length);
        entry.number(3, stripe.data_length);
        entry.number(4, stripe.footer_length);
        entry.number(5, stripe.rows);
        footer.bytes(3, &entry.0);
    }
    let mut root = Message::default();
    root.number(1, 12); // STRUCT
    let mut children = Message::default();
    (1..=fields.len() as u64).for_each(|child| children.varint(child));
    root.bytes(2, &children.0);
    fields.iter().for_each(|field| root.bytes(3, field.name.as_bytes()));
    footer.bytes(4, &root.0);
    fields.iter().for_each(|field| footer.bytes(4, &type_of(field, is_legacy).0));
    footer.number(6, stripes.iter().map(|stripe| stripe.rows).sum());
    // No known writer: readers take the file for one of the newest.
    footer.number(9, u64::from(u32::MAX));

    let mut tail = chunks(&footer.0, codec);
    let footer_length = tail.len() as u64;
    let mut postscript = Message::default();
    postscript.number(1, footer_length);
    postscript.number(2, codec);
    postscript.number(3, CHUNK as u64);
    postscript.bytes(4, &[0, 12]); // Version 0.12.
    postscript.number(5, 0); // No metadata of stripes.
    postscript.number(6, u64::from(u32::MAX));
    postscript.bytes(8000, MAGIC);
    tail.extend_from_slice(&postscript.0);
    // At most 255 bytes: it holds a few numbers.
    tail.push(postscript.0.len() as u8);
    tail
}

fn type_of(field: &DataField, is_legacy: bool) -> Message {
    let kind = match &field.data_type.kind {
        TypeKind::Boolean => 0,
        TypeKind::TinyInt => 1,
        TypeKind::SmallInt => 2,
        TypeKind::BigInt => 4,
        TypeKind::Float => 5,
        TypeKind::Double => 6,
        TypeKind::VarChar(MAX_LENGTH) => 7,
        TypeKind::Binary(_) | TypeKind::VarBinary(_) | TypeKind::Blob => 8,
        TypeKind::Timestamp(_) => 9,
        TypeKind::TimestampLtz(_) => {
            if is_legacy {
                9
            } else {
                18
            }
        }
        TypeKind::Date => 15,
        TypeKind::VarChar(_) => 16,
        TypeKind::Char(_) => 17,
        // INT and TIME; other types are refused before.
        _ => 3,
    };
    let mut message = Message::default();
    message.number(1, kind);
    if let TypeKind::Char(length) | TypeKind::VarChar(length) = field.data_type.kind
        && kind != 7
    {
        message.number(4, length.into());
    }
    let mut id = Message::default();
    id.bytes(1, ID.as_bytes());
    id.bytes(2, field.id.to_string().as_bytes());
    message.bytes(7, &id.0);
    message
}

/// Chunks that say of themselves that they are not compressed; without a codec there are none.
fn chunks(bytes: &[u8], codec: u64) -> Vec<u8> {
    if codec == 0 {
        return bytes.to_vec();
    }
    let mut out = Vec::with_capacity(bytes.len() + 3);
    for chunk in bytes.chunks(CHUNK) {
        out.extend_from_slice(&((chunk.len() as u32) << 1 | 1).to_le_bytes()[..3]);
        out.extend_from_slice(chunk);
    }
    out
}

/// A protobuf message.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(&mut self, field: u64, value: u64) {
        self.varint(field << 3);
        self.varint(value);
    }

    fn bytes(&mut self, field: u64, value: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
    }
}
