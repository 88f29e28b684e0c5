//! Metadata files in other formats than Avro (`manifest.format`, observed.md "Metadata"), told by their first bytes.
//!
//! They are rare and small, so they are rewritten as Avro in memory, and everything else knows Avro only. Avro files
//! with the codec xz go the same way, since arrow-avro can read them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchReader};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, TimeUnit};
use arrow::error::ArrowError;
use arrow_avro::reader::ReaderBuilder;
use arrow_avro::writer::AvroWriter;
use bytes::Bytes;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::codec::Codec;
use super::container::{Header, MAGIC};
use super::cursor::Cursor;
use crate::error::{Error, Result};

/// Rewrites a file of another container as plain Avro.
type Rewrite = fn(Bytes) -> Result<Vec<u8>, ArrowError>;

/// The bytes of a metadata file as an Avro container with a codec that [`super::Decompressor`] has.
pub(crate) fn to_avro(bytes: Bytes) -> Result<Bytes> {
    let (format, rewrite): (_, Rewrite) = if bytes.starts_with(MAGIC) {
        if Header::parse(&mut Cursor::new(&bytes))?.codec != Codec::Xz {
            return Ok(bytes);
        }
        ("Avro", |bytes| rewrite(ReaderBuilder::new().build(std::io::Cursor::new(bytes))?))
    } else if bytes.starts_with(b"PAR1") {
        ("Parquet", |bytes| rewrite(ParquetRecordBatchReaderBuilder::try_new(bytes)?.build()?))
    } else if bytes.starts_with(b"ORC") {
        ("ORC", |bytes| {
            let reader = orc_rust::ArrowReaderBuilder::try_new(bytes);
            rewrite(reader.map_err(|error| ArrowError::ExternalError(Box::new(error)))?.build())
        })
    } else {
        return Err(Error::corrupt("the file is neither Avro, Parquet nor ORC"));
    };
    // These readers trust files more than we do: damaged ones may make them panic.
    match catch_unwind(AssertUnwindSafe(|| rewrite(bytes))) {
        Ok(Ok(avro)) => Ok(Bytes::from(avro)),
        Ok(Err(error)) => Err(Error::corrupt(format!("the {format} file can't be read")).with_source(error)),
        Err(_) => Err(Error::corrupt(format!("the {format} file can't be read: its reader panicked"))),
    }
}

fn rewrite(reader: impl RecordBatchReader) -> Result<Vec<u8>, ArrowError> {
    let schema = Arc::new(Schema::new(reader.schema().fields().iter().map(plain_field).collect::<Vec<_>>()));
    let mut writer = AvroWriter::new(Vec::new(), schema.as_ref().clone())?;
    for batch in reader {
        let batch = batch?;
        let columns = batch.columns().iter().zip(schema.fields());
        let columns = columns.map(|(column, field)| cast(column, field.data_type())).collect::<Result<_, _>>()?;
        writer.write(&RecordBatch::try_new(Arc::clone(&schema), columns)?)?;
    }
    writer.finish()?;
    Ok(writer.into_inner())
}

/// The field with the type that Java's Avro files have, and without what else a reader knows of it.
fn plain_field(field: &FieldRef) -> FieldRef {
    Arc::new(Field::new(field.name(), plain(field.data_type()), field.is_nullable()))
}

fn plain(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Int8 | DataType::Int16 => DataType::Int32,
        DataType::Timestamp(..) => DataType::Timestamp(TimeUnit::Millisecond, None),
        DataType::Utf8View | DataType::LargeUtf8 => DataType::Utf8,
        DataType::BinaryView | DataType::LargeBinary => DataType::Binary,
        DataType::Dictionary(_, value) => plain(value),
        DataType::List(item) => DataType::List(plain_field(item)),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(plain_field).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use arrow_avro::compression::CompressionCodec;
    use arrow_avro::writer::WriterBuilder;
    use arrow_avro::writer::format::AvroOcfFormat;

    use super::*;
    use crate::spec::manifest::ManifestEntries;
    use crate::spec::manifest::golden::entries_as_json;
    use crate::spec::manifest_list::decode_manifest_list;

    const AVRO: [&[u8]; 6] = [
        include_bytes!("../testdata/flink13.manifest"),
        include_bytes!("../testdata/java14-columns.manifest"),
        include_bytes!("../testdata/spark09.manifest"),
        include_bytes!("../testdata/embedded-index.manifest"),
        include_bytes!("../testdata/extra-files.manifest"),
        include_bytes!("../testdata/bzip2.manifest"),
    ];

    #[test]
    fn rewrite_when_arrow_avro_reads_a_manifest_then_same_entries_as_ours() {
        for bytes in AVRO {
            let rewritten = rewrite(ReaderBuilder::new().build(std::io::Cursor::new(bytes)).unwrap()).unwrap();
            let (theirs, ours) = (ManifestEntries::decode(&rewritten), ManifestEntries::decode(bytes));
            assert_eq!(entries_as_json(&theirs.unwrap()), entries_as_json(&ours.unwrap()));
        }
    }

    #[test]
    fn to_avro_when_codec_is_xz_then_same_entries() {
        let reader = ReaderBuilder::new().build(std::io::Cursor::new(AVRO[0])).unwrap();
        let mut xz = Vec::new();
        let mut writer = WriterBuilder::new(reader.schema().as_ref().clone())
            .with_compression(Some(CompressionCodec::Xz))
            .build::<_, AvroOcfFormat>(&mut xz)
            .unwrap();
        for batch in reader {
            writer.write(&batch.unwrap()).unwrap();
        }
        writer.finish().unwrap();
        drop(writer);
        let entries = ManifestEntries::decode(&xz).unwrap();
        assert_eq!(entries_as_json(&entries), entries_as_json(&ManifestEntries::decode(AVRO[0]).unwrap()));
    }

    #[test]
    fn to_avro_when_orc_or_parquet_then_entries() {
        // The same rows were inserted into three tables that differ in `manifest.format`.
        let avro = ManifestEntries::decode(include_bytes!("../testdata/null.manifest")).unwrap();
        for (bytes, name, time) in [
            (
                &include_bytes!("../testdata/orc.manifest")[..],
                "data-c3653c86-f27b-45f2-98ee-1712f3544e9b-0.parquet",
                1_795_985_988_666,
            ),
            (
                include_bytes!("../testdata/parquet.manifest"),
                "data-b2e9eb1d-5645-4c67-bcd7-f88c151e6d8e-0.parquet",
                1_795_985_990_617,
            ),
        ] {
            let entries = ManifestEntries::decode(bytes).unwrap();
            assert_eq!(entries.file_name.get(0), name.as_bytes());
            assert_eq!(entries.creation_time, [time]);
            let (mut ours, mut expected) = (entries_as_json(&entries), entries_as_json(&avro));
            for row in ours.iter_mut().chain(&mut expected) {
                for field in ["_FILE_NAME", "_CREATION_TIME", "_FILE_SIZE"] {
                    row["_FILE"][field].take();
                }
            }
            assert_eq!(ours, expected);
        }
    }

    #[test]
    fn to_avro_when_orc_or_parquet_then_manifest_list() {
        for (bytes, name, size) in [
            (
                &include_bytes!("../testdata/orc.manifest-list")[..],
                "manifest-8a8cef99-da5d-44ee-8245-ac75b18f0c32-0",
                2850,
            ),
            (
                include_bytes!("../testdata/parquet.manifest-list"),
                "manifest-329d8199-9995-4a3f-b6b9-ac2f46edfc00-0",
                8120,
            ),
        ] {
            let metas = decode_manifest_list(bytes).unwrap();
            assert_eq!(metas.len(), 1);
            assert_eq!((metas[0].file_name.as_str(), metas[0].file_size), (name, size));
            assert_eq!((metas[0].num_added_files, metas[0].min_bucket, metas[0].min_row_id), (1, Some(0), None));
            assert_eq!(metas[0].partition_stats.min, [0; 12]);
        }
    }

    #[test]
    fn to_avro_when_file_is_empty_list_then_no_rows() {
        for bytes in [
            &include_bytes!("../testdata/orc-empty.manifest-list")[..],
            include_bytes!("../testdata/parquet-empty.manifest-list"),
        ] {
            assert_eq!(decode_manifest_list(bytes).unwrap(), []);
        }
    }

    #[test]
    fn to_avro_when_bytes_are_broken_then_error_and_no_panic() {
        for bytes in [
            &include_bytes!("../testdata/orc.manifest")[..],
            include_bytes!("../testdata/parquet.manifest"),
            include_bytes!("../testdata/orc.manifest-list"),
            include_bytes!("../testdata/parquet.manifest-list"),
        ] {
            for at in (0..bytes.len()).step_by(bytes.len() / 40) {
                let mut broken = bytes.to_vec();
                broken[at] ^= 0x10;
                let _ = ManifestEntries::decode(&broken);
                assert!(ManifestEntries::decode(&bytes[..at]).is_err());
            }
        }
        for bytes in [&b""[..], b"PAR1", b"ORC", b"{}", b"Obj\x01"] {
            assert!(to_avro(Bytes::from_static(bytes)).is_err());
        }
    }
}
