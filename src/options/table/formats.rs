//! Options of file formats, and of metadata written for Iceberg.

use super::{BOOL, DOUBLE, FILE_SAYS, INT, TEXT, WRITES};
use crate::options::def::{Kind::Enum, OptionDef, harmless, honoured};

const BROKEN_LINES: &str = "a line that does not parse is always an error, so that no rows go missing unseen";
const ICEBERG: &str = "metadata for Iceberg lies beside the table's own";

pub(super) const OPTIONS: &[OptionDef] = &[
    // Java declares a number and writers take true and false.
    harmless("parquet.enable.dictionary", TEXT, "dictionary pages", FILE_SAYS),
    harmless("parquet.*", TEXT, "handed to the Parquet reader and writer", FILE_SAYS),
    harmless("orc.timestamp-ltz.legacy.type", BOOL, "TIMESTAMP_LTZ as a timestamp without zone", FILE_SAYS).or("true"),
    harmless("orc.column.encoding.direct", INT, "columns without dictionary", FILE_SAYS),
    harmless("orc.dictionary.key.threshold", DOUBLE, "most distinct values for a dictionary, as a share", FILE_SAYS)
        .or("0.8"),
    harmless("orc.*", TEXT, "handed to the ORC reader and writer", FILE_SAYS),
    harmless("avro.*", TEXT, "handed to the Avro reader and writer", FILE_SAYS),
    honoured("csv.field-delimiter", TEXT, "CSV: between values").or(",").also(&["field-delimiter", "seq"]),
    honoured("csv.line-delimiter", TEXT, "CSV: between lines").or("\n").also(&["lineSep"]),
    honoured("csv.quote-character", TEXT, "CSV: around values").or("\"").also(&["quote"]),
    honoured("csv.escape-character", TEXT, "CSV: before a quote").or("\\").also(&["escape"]),
    honoured("csv.include-header", BOOL, "CSV: the first line holds names").or("false").also(&["header"]),
    honoured("csv.null-literal", TEXT, "CSV: text of NULL").or("").also(&["nullvalue"]),
    harmless("csv.mode", Enum(&["permissive", "dropmalformed", "failfast"]), "CSV: broken lines", BROKEN_LINES)
        .or("permissive")
        .also(&["mode"]),
    harmless("json.ignore-parse-errors", BOOL, "JSON: broken lines", BROKEN_LINES).or("false"),
    harmless("json.map-null-key-mode", Enum(&["fail", "drop", "literal"]), "JSON: NULL as a map key", WRITES)
        .or("fail"),
    harmless("json.map-null-key-literal", TEXT, "JSON: its text", WRITES).or("null"),
    honoured("json.line-delimiter", TEXT, "JSON: between lines").or("\n"),
    honoured("text.line-delimiter", TEXT, "TEXT: between lines").or("\n").also(&["lineSep"]),
    harmless(
        "metadata.iceberg.storage",
        Enum(&["disabled", "table-location", "hadoop-catalog", "hive-catalog", "rest-catalog"]),
        "Iceberg metadata: where Iceberg metadata goes",
        ICEBERG,
    )
    .or("disabled"),
    harmless("metadata.iceberg.storage-location", TEXT, "Iceberg metadata: directory of it", ICEBERG),
    harmless("metadata.iceberg.format-version", INT, "Iceberg metadata: Iceberg version", ICEBERG).or("2"),
    harmless(
        "metadata.iceberg.compaction.min.file-num",
        INT,
        "Iceberg metadata: small manifests that start a compaction",
        ICEBERG,
    )
    .or("10"),
    harmless("metadata.iceberg.compaction.max.file-num", INT, "Iceberg metadata: manifests that force one", ICEBERG)
        .or("50"),
    harmless("metadata.iceberg.delete-after-commit.enabled", BOOL, "Iceberg metadata: remove old metadata", ICEBERG)
        .or("true"),
    harmless("metadata.iceberg.previous-versions-max", INT, "Iceberg metadata: old versions to keep", ICEBERG).or("0"),
    harmless("metadata.iceberg.manifest-compression", TEXT, "Iceberg metadata: codec of manifests", ICEBERG)
        .or("snappy"),
    harmless(
        "metadata.iceberg.manifest-legacy-version",
        BOOL,
        "Iceberg metadata: manifests as old readers expect them",
        ICEBERG,
    )
    .or("false"),
    harmless("metadata.iceberg.database", TEXT, "Iceberg metadata: name of the database in the catalog", ICEBERG),
    harmless("metadata.iceberg.table", TEXT, "Iceberg metadata: name of the table in the catalog", ICEBERG),
    harmless("metadata.iceberg.uri", TEXT, "Iceberg metadata: address of the metastore", ICEBERG),
    harmless("metadata.iceberg.hadoop-conf-dir", TEXT, "Iceberg metadata: configuration directory", ICEBERG),
    harmless("metadata.iceberg.glue.skip-archive", BOOL, "Iceberg metadata: Glue: no old versions", ICEBERG)
        .or("false"),
    harmless("metadata.iceberg.hive-*", TEXT, "Iceberg metadata: settings of the Hive metastore", ICEBERG),
];
