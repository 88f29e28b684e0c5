//! Rules of files: which types a format can hold, codecs, names and places of files, file indexes.

use super::{Breaches, Subject};
use crate::options::lookup;
use crate::spec::types::TypeKind;
use crate::spec::{DataField, DataType};

/// Codecs that some format knows.
const CODECS: [&str; 15] = [
    "none",
    "null",
    "uncompressed",
    "snappy",
    "gzip",
    "zlib",
    "deflate",
    "lz4",
    "lz4_raw",
    "lzo",
    "brotli",
    "bzip2",
    "xz",
    "zstd",
    "zstandard",
];

pub(super) fn check(subject: &Subject<'_>, found: &mut Breaches) {
    check_formats(subject, found);
    check_codecs(subject, found);
    check_names(subject, found);
    check_external_paths(subject, found);
    check_indexes(subject, found);
    for field in subject.named_columns("vector-field", found) {
        if !matches!(field.data_type.kind, TypeKind::Vector(..)) {
            found.invalid(format!(
                "option vector-field names column {}, which is {} and not a VECTOR; leave the option out",
                field.name, field.data_type
            ));
        }
    }
}

/// Formats that data or changelog files of the table may have, with the option that says so.
fn formats(subject: &Subject<'_>) -> Vec<(&'static str, String)> {
    let mut formats = vec![("file.format", subject.options.file_format.clone())];
    if let Some(levels) = subject.options.get("file.format.per.level") {
        let of_levels = levels.split(',').filter_map(|level| level.split_once(':'));
        formats.extend(of_levels.map(|(_, format)| ("file.format.per.level", format.trim().to_ascii_lowercase())));
    }
    if let Some(format) = subject.options.get("changelog-file.format") {
        formats.push(("changelog-file.format", format.to_ascii_lowercase()));
    }
    formats
}

fn check_formats(subject: &Subject<'_>, found: &mut Breaches) {
    for (option, format) in formats(subject) {
        if format == "text" {
            let [only] = subject.schema.fields.as_slice() else {
                found.invalid(format!(
                    "option {option} = 'text' takes one STRING column; use 'parquet', 'orc' or 'avro'"
                ));
                continue;
            };
            if !matches!(only.data_type.kind, TypeKind::VarChar(_)) {
                found.invalid(format!("option {option} = 'text' takes one STRING column, not {}", only.data_type));
            }
            continue;
        }
        for field in &subject.schema.fields {
            // A BLOB lies in a file of its own format.
            if matches!(field.data_type.kind, TypeKind::Blob) {
                continue;
            }
            if let Some(unfit) = unfit(&format, &field.data_type) {
                found.invalid(format!(
                    "column {}: option {option} = '{format}' can't hold {unfit}; {}",
                    field.name,
                    remedy(&format, &unfit.kind)
                ));
            }
        }
    }
}

fn remedy(format: &str, kind: &TypeKind) -> &'static str {
    match kind {
        TypeKind::Vector(..) => "declare the column as ARRAY, or use 'avro'",
        TypeKind::Timestamp(_) | TypeKind::TimestampLtz(_) => "use a precision of at most 6, or 'parquet' or 'orc'",
        TypeKind::Time(_) => "use a precision of at most 3, or 'parquet' or 'orc'",
        _ if format == "parquet" => "use another type",
        _ => "use 'parquet'",
    }
}

/// The part of a type that files of a format can't hold.
fn unfit<'t>(format: &str, data_type: &'t DataType) -> Option<&'t DataType> {
    use TypeKind as K;
    let kind = &data_type.kind;
    let fits = match format {
        "parquet" => !matches!(kind, K::Vector(..)),
        "orc" => !matches!(kind, K::Vector(..) | K::Variant),
        "avro" => match kind {
            K::Time(precision) => *precision <= 3,
            K::Timestamp(precision) | K::TimestampLtz(precision) => *precision <= 6,
            K::Variant => false,
            _ => true,
        },
        "csv" => !data_type.is_nested() && !matches!(kind, K::Variant),
        "json" => !matches!(kind, K::Variant | K::Multiset(_)),
        _ => true,
    };
    if !fits {
        return Some(data_type);
    }
    match kind {
        K::Array(inner) | K::Multiset(inner) | K::Vector(inner, _) => unfit(format, inner),
        K::Map(key, value) => unfit(format, key).or_else(|| unfit(format, value)),
        K::Row(fields) => fields.iter().find_map(|field| unfit(format, &field.data_type)),
        _ => None,
    }
}

fn check_codecs(subject: &Subject<'_>, found: &mut Breaches) {
    let mut check = |option: &str, codec: &str| {
        if !CODECS.iter().any(|known| known.eq_ignore_ascii_case(codec.trim())) {
            found.invalid(format!("option {option}: '{codec}' is no codec; there are {}", CODECS.join(", ")));
        }
    };
    for option in ["file.compression", "changelog-file.compression", "manifest.compression"] {
        if let Some(codec) = subject.options.get(option) {
            check(option, codec);
        }
    }
    if let Some(levels) = subject.options.get("file.compression.per.level") {
        for (_, codec) in levels.split(',').filter_map(|level| level.split_once(':')) {
            check("file.compression.per.level", codec);
        }
    }
}

fn check_names(subject: &Subject<'_>, found: &mut Breaches) {
    for option in ["data-file.prefix", "changelog-file.prefix", "partition.default-name"] {
        let Some(name) = subject.options.get(option) else { continue };
        if name.trim().is_empty() || name.contains(|c: char| c == '/' || c.is_control()) {
            found.invalid(format!("option {option} = '{name}' can't be part of a file's name"));
        }
    }
    if let Some(folder) = &subject.options.data_file_path_directory {
        let bad = |segment: &str| matches!(segment, "" | "." | "..") || segment.contains(char::is_control);
        if folder.split('/').any(bad) {
            found.invalid(format!(
                "option data-file.path-directory = '{folder}' must name folders below the table's, as in 'a/b'"
            ));
        }
    }
}

fn check_external_paths(subject: &Subject<'_>, found: &mut Breaches) {
    const PATHS: &str = "data-file.external-paths";
    let options = subject.options;
    let strategy = options.get("data-file.external-paths.strategy").unwrap_or("none").to_ascii_lowercase();
    let paths: Vec<&str> = options
        .get(PATHS)
        .map_or_else(Vec::new, |paths| paths.split(',').map(str::trim).filter(|path| !path.is_empty()).collect());
    let scheme = |path: &str| path.split_once(":/").map(|(scheme, _)| scheme.to_ascii_lowercase());
    for path in &paths {
        if scheme(path).is_none_or(|scheme| scheme.len() < 2) {
            found.invalid(format!(
                "option {PATHS}: '{path}' needs a scheme, as in 's3://bucket/folder' or 'file:///folder'"
            ));
        }
    }
    if strategy == "none" {
        return;
    }
    if paths.is_empty() {
        found.invalid(format!("option {PATHS}.strategy = '{strategy}' needs option {PATHS}"));
        return;
    }
    match strategy.as_str() {
        "specific-fs" => match options.get("data-file.external-paths.specific-fs") {
            None => found.invalid(format!("option {PATHS}.strategy = 'specific-fs' needs option {PATHS}.specific-fs")),
            Some(wanted) if !paths.iter().any(|path| scheme(path).is_some_and(|s| s.eq_ignore_ascii_case(wanted))) => {
                found.invalid(format!("option {PATHS}.specific-fs = '{wanted}': none of {PATHS} has that scheme"));
            }
            Some(_) => {}
        },
        "weight-robin" => {
            let weights: Vec<&str> = options
                .get("data-file.external-paths.weights")
                .map_or_else(Vec::new, |weights| weights.split(',').map(str::trim).collect());
            let positive = weights.iter().all(|weight| weight.parse::<u32>().is_ok_and(|weight| weight > 0));
            if paths.len() < 2 || weights.len() != paths.len() || !positive {
                found.invalid(format!(
                    "option {PATHS}.strategy = 'weight-robin' needs two paths or more and option {PATHS}.weights with one \
                     positive number for each"
                ));
            }
        }
        _ => {}
    }
}

fn check_indexes(subject: &Subject<'_>, found: &mut Breaches) {
    for index in ["bloom-filter", "bitmap", "bsi", "range-bitmap"] {
        let option = format!("file-index.{index}.columns");
        for name in subject.list(&option) {
            match indexed(subject, &name) {
                None => found.missing_column(&option, &name, subject.schema),
                Some(data_type) if !can_index(index, &data_type.kind) => {
                    found.invalid(format!(
                        "option {option}: a {index} index can't be made of {name}, which is {data_type}"
                    ));
                }
                Some(_) => {}
            }
        }
    }
    for (key, _) in subject.options.iter() {
        let Some(option) = lookup(key).filter(|option| option.def.key.starts_with("file-index.")) else { continue };
        if let Some(name) = option.captured
            && indexed(subject, name).is_none()
        {
            found.missing_column(key, name, subject.schema);
        }
    }
}

/// The type of what an index is of: a column, or the values that a MAP column has for one key, `column[key]`.
fn indexed<'s>(subject: &Subject<'s>, name: &str) -> Option<&'s DataType> {
    let column = |name: &str| -> Option<&'s DataField> { subject.schema.field(name) };
    if let Some(field) = column(name) {
        return Some(&field.data_type);
    }
    let (map, _) = name.strip_suffix(']')?.split_once('[')?;
    match &column(map)?.data_type.kind {
        TypeKind::Map(key, value) if matches!(key.kind, TypeKind::VarChar(_) | TypeKind::Char(_)) => Some(value),
        _ => None,
    }
}

/// What each kind of index takes (`spec/data.md 10.2-10.5`).
fn can_index(index: &str, kind: &TypeKind) -> bool {
    use TypeKind as K;
    let whole = matches!(kind, K::TinyInt | K::SmallInt | K::Int | K::BigInt | K::Date | K::Time(_));
    let floating = matches!(kind, K::Float | K::Double);
    let text = matches!(kind, K::Char(_) | K::VarChar(_));
    let bytes = matches!(kind, K::Binary(_) | K::VarBinary(_));
    let time = matches!(kind, K::Timestamp(_) | K::TimestampLtz(_));
    let short_time = matches!(kind, K::Timestamp(precision) | K::TimestampLtz(precision) if *precision <= 6);
    let short_decimal = matches!(kind, K::Decimal(precision, _) if *precision <= 18);
    let boolean = matches!(kind, K::Boolean);
    match index {
        "bloom-filter" => whole || floating || text || bytes || time,
        "bitmap" => whole || floating || text || time || boolean,
        "bsi" => whole || time || short_decimal,
        _ => whole || floating || text || boolean || short_time || short_decimal,
    }
}
