//! Scan units: files that one engine source can read, because they share a format and the schema they were written with.
//!
//! A unit keeps a source *template* without files, on which the optimizer's pushdowns work; the files are put in when the
//! plan runs, after their live rows are known.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use arrow::datatypes::{FieldRef, Schema};
use chrono::DateTime;
use datafusion::common::config::TableParquetOptions;
use datafusion::datasource::physical_plan::parquet::CachedParquetFileReaderFactory;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig, FileScanConfigBuilder, ParquetSource};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion_datasource::file::FileSource;
use datafusion_datasource::file_groups::FileGroupPartitioner;
use datafusion_datasource::source::DataSource;
use datafusion_datasource::{PartitionedFile, TableSchema as SourceSchema};
use datafusion_datasource_parquet::ParquetRowSelection;
use object_store::ObjectMeta;
use parquet::arrow::arrow_reader::RowSelection;

use crate::error::{Error, Result};
use crate::format::{FileFormat, FileScan, holds_nanoseconds};
use crate::plan::{ColumnGroup, PlannedFile, ScanPlan};
use crate::read::evolution::FieldIdAdapterFactory;
use crate::read::live_rows::FileRows;
use crate::read::parquet_reader::{CheckedReaderFactory, ExpectedRows};
use crate::spec::types::{SEQUENCE_NUMBER, SEQUENCE_NUMBER_ID, VALUE_KIND, VALUE_KIND_ID, row_id_fields};
use crate::spec::{DataField, DataType, TypeKind};
use crate::sql::dml::place_fields;
use crate::table::Table;

/// Where a planned file stands in its plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FilePlace {
    /// At this position of `raw`.
    Raw(usize),
    /// In this section, at this position of its files.
    Section(usize, usize),
}

impl FilePlace {
    /// The file.
    pub(crate) fn file<'a>(&self, plan: &'a ScanPlan) -> &'a PlannedFile {
        match *self {
            Self::Raw(index) => &plan.raw[index],
            Self::Section(section, index) => &plan.sections[section].files[index],
        }
    }
}

/// What files of a unit share.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct UnitKey {
    format: FileFormat,
    schema_id: i64,
    write_cols: Option<Arc<[String]>>,
}

impl UnitKey {
    fn of(file: &PlannedFile) -> Result<Self> {
        Ok(Self {
            format: FileFormat::of_file(file.file.name())?,
            schema_id: file.file.schema_id(),
            write_cols: file.file.write_cols().cloned(),
        })
    }
}

/// Whether two files surely belong to one unit, told without making their keys.
fn is_alike(a: &PlannedFile, b: &PlannedFile) -> bool {
    let extensions = |file: &PlannedFile| file.file.name().find('.').map(|dot| file.file.name().len() - dot);
    let written = match (a.file.write_cols(), b.file.write_cols()) {
        (None, None) => true,
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        _ => false,
    };
    let (x, y) = (a.file.name(), b.file.name());
    written
        && a.file.schema_id() == b.file.schema_id()
        && extensions(a) == extensions(b)
        && extensions(a).is_some_and(|length| x.as_bytes()[x.len() - length..] == y.as_bytes()[y.len() - length..])
}

/// Files of one format and schema.
#[derive(Clone, Debug)]
pub(crate) struct Unit {
    /// A [`FileScanConfig`] without files.
    pub(crate) template: Arc<dyn DataSource>,
    /// Its files.
    pub(crate) files: Vec<FilePlace>,
    /// Whether the source can read a file in parts.
    pub(crate) splittable: bool,
}

/// Columns that are read beside those of the table; they come after them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum SystemColumns {
    /// None.
    #[default]
    None,
    /// The ids of the rows, which files may hold or not.
    RowIds,
    /// Where the rows lie, behind their ids where those are asked for. No file holds it.
    Places {
        /// Whether the ids of the rows come first.
        row_ids: bool,
    },
    /// The row kind, and the sequence number when it is asked for; every file of a key table holds them.
    Kinds {
        /// Whether `_SEQUENCE_NUMBER` comes after `_VALUE_KIND`.
        sequence: bool,
    },
}

impl SystemColumns {
    /// The columns.
    pub(crate) fn fields(self) -> Vec<DataField> {
        match self {
            Self::None => Vec::new(),
            Self::RowIds => row_id_fields().to_vec(),
            Self::Places { row_ids: false } => place_fields().to_vec(),
            Self::Places { row_ids: true } => row_id_fields().into_iter().chain(place_fields()).collect(),
            Self::Kinds { sequence } => {
                let mut fields = vec![kind_field()];
                if sequence {
                    let number = DataType::nullable(TypeKind::BigInt);
                    fields.push(DataField::new(SEQUENCE_NUMBER_ID, SEQUENCE_NUMBER, number));
                }
                fields
            }
        }
    }

    /// Whether the row kind is among them, so that rows that retract are rows like any other.
    pub(crate) fn has_kinds(self) -> bool {
        matches!(self, Self::Kinds { .. })
    }
}

fn kind_field() -> DataField {
    DataField::new(VALUE_KIND_ID, VALUE_KIND, DataType::not_null(TypeKind::TinyInt))
}

/// What all units of a scan share.
#[derive(Debug)]
pub(crate) struct UnitFactory {
    table: Arc<Table>,
    url: ObjectStoreUrl,
    schema: SourceSchema,
    /// For each column of the table, and the system columns after them, its position in `schema`.
    positions: Vec<usize>,
    /// The columns beside those of the table.
    columns: SystemColumns,
    system: Vec<DataField>,
    parquet: TableParquetOptions,
    options: Arc<BTreeMap<String, String>>,
    reader_factory: Arc<CheckedReaderFactory>,
}

impl UnitFactory {
    /// The columns `columns` come after the table's.
    pub(crate) fn try_new(
        table: Arc<Table>,
        columns: SystemColumns,
        runtime: &RuntimeEnv,
        parquet: TableParquetOptions,
    ) -> Result<Self> {
        let location = table.files().root();
        let url = ObjectStoreUrl::parse(&location.url()[..url::Position::BeforePath])?;
        // Registering is idempotent: the same store goes under the same address.
        if runtime.object_store(&url).is_err() {
            runtime.register_object_store(location.url(), Arc::clone(location.store()));
        }
        let is_partition = |field: &DataField| table.schema().partition_keys.contains(&field.name);
        let system = columns.fields();
        let own = table.schema().fields.iter().filter(|field| !is_partition(field));
        let file_fields: Vec<FieldRef> = own.chain(&system).map(|field| Arc::new(field.to_arrow())).collect();
        let partition_fields: Vec<FieldRef> =
            table.schema().partition_fields().into_iter().map(|field| Arc::new(field.to_arrow())).collect();
        let schema = SourceSchema::builder(Arc::new(Schema::new(file_fields)))
            .with_table_partition_cols(partition_fields)
            .build();
        let positions = table
            .schema()
            .fields
            .iter()
            .chain(&system)
            .map(|field| schema.table_schema().index_of(&field.name).map_err(Error::from))
            .collect::<Result<Vec<_>>>()?;
        let reader_factory = Arc::new(CheckedReaderFactory::new(Arc::new(CachedParquetFileReaderFactory::new(
            Arc::clone(location.store()),
            runtime.cache_manager.get_file_metadata_cache(),
        ))));
        let options = Arc::new(table.options().clone());
        Ok(Self { table, url, schema, positions, columns, system, parquet, options, reader_factory })
    }

    /// The reader factory of Parquet files, which shares footers with the engine.
    pub(crate) fn reader_factory(&self) -> &Arc<CheckedReaderFactory> {
        &self.reader_factory
    }

    /// The columns beside those of the table.
    pub(crate) fn system_columns(&self) -> SystemColumns {
        self.columns
    }

    /// The columns of the sources: file columns, then partition columns.
    pub(crate) fn schema(&self) -> &SourceSchema {
        &self.schema
    }

    /// The source template of files of `format` that hold `file_fields`, projected to `projection` of the table's columns.
    fn template(
        &self,
        format: FileFormat,
        file_fields: &[DataField],
        projection: Option<&[usize]>,
        limit: Option<usize>,
    ) -> Result<Arc<dyn DataSource>> {
        let indices = match projection {
            Some(columns) => columns.iter().map(|&column| self.positions[column]).collect(),
            None => self.positions.clone(),
        };
        let config = self.source(format, file_fields, &[], indices)?;
        Ok(Arc::new(FileScanConfigBuilder::from(config).with_limit(limit).build()))
    }

    /// A source of `format` for files that hold `file_fields`. Columns are the file columns of the table, then `extra` ones
    /// (system columns of the files), then the partition columns; `projection` picks of those.
    fn source(
        &self,
        format: FileFormat,
        file_fields: &[DataField],
        extra: &[DataField],
        projection: Vec<usize>,
    ) -> Result<FileScanConfig> {
        let table = self.table.schema();
        let mut wanted: Vec<DataField> =
            table.fields.iter().filter(|field| !table.partition_keys.contains(&field.name)).cloned().collect();
        wanted.extend_from_slice(&self.system);
        wanted.extend_from_slice(extra);
        let mut file_fields = file_fields.to_vec();
        file_fields.extend_from_slice(extra);
        let adapter = Arc::new(FieldIdAdapterFactory::new(&wanted, &file_fields)?);
        let schema = SourceSchema::builder(Arc::clone(adapter.file_schema()))
            .with_table_partition_cols(self.schema.table_partition_cols().iter().map(Arc::clone).collect::<Vec<_>>())
            .build();
        // The engine's reader lets timestamps beyond its nanoseconds wrap.
        let nanoseconds = file_fields.iter().any(|field| holds_nanoseconds(&field.data_type));
        let by_engine = format == FileFormat::Parquet && adapter.fits_parquet_source() && !nanoseconds;
        let source: Arc<dyn FileSource> = if by_engine {
            Arc::new(
                ParquetSource::new(schema)
                    .with_table_parquet_options(self.parquet.clone())
                    .with_parquet_file_reader_factory(Arc::clone(&self.reader_factory) as _),
            )
        } else {
            Arc::new(FileScan::new(format, schema, file_fields, Arc::clone(&self.options)))
        };
        Ok(FileScanConfigBuilder::new(self.url.clone(), source)
            .with_projection_indices(Some(projection))?
            .with_expr_adapter(Some(adapter))
            .build())
    }

    /// A source that gives the rows `rows` of one file, in file order, in batches of about `batch_size` rows: the columns
    /// of the table called `names`, and with `kinds` the row kind last.
    pub(crate) async fn file_rows(
        &self,
        file: &PlannedFile,
        rows: &FileRows,
        names: &[String],
        kinds: bool,
        batch_size: usize,
    ) -> Result<Option<Arc<dyn DataSource>>> {
        let Some(described) = self.partitioned_file(file, rows)? else { return Ok(None) };
        let key = UnitKey::of(file)?;
        let file_columns = self.schema.file_schema().fields().len();
        // The kinds may be among the columns of the scan already.
        let known_kinds = self.schema.file_schema().index_of(VALUE_KIND).ok().filter(|_| kinds);
        let extra = if kinds && known_kinds.is_none() { vec![kind_field()] } else { Vec::new() };
        let mut projection = names
            .iter()
            .map(|name| {
                let index = self.schema.table_schema().index_of(name)?;
                Ok(if index < file_columns { index } else { index + extra.len() })
            })
            .collect::<Result<Vec<_>>>()?;
        projection.extend((0..extra.len()).map(|index| file_columns + index));
        projection.extend(known_kinds);
        let config = self.source(key.format, &self.file_fields(&key).await?, &extra, projection)?;
        let config = FileScanConfigBuilder::from(config)
            .with_file_groups(vec![FileGroup::new(vec![described])])
            .with_preserve_order(true)
            .with_batch_size(Some(batch_size))
            .build();
        Ok(Some(Arc::new(config)))
    }

    /// The units of all scanned files of `plan`; at least one, so that there is always a source to push down to.
    pub(crate) async fn units(
        &self,
        plan: &ScanPlan,
        projection: Option<&[usize]>,
        limit: Option<usize>,
    ) -> Result<Vec<Unit>> {
        let mut known: HashMap<UnitKey, usize> = HashMap::new();
        let mut units: Vec<Unit> = Vec::new();
        let mut last: Option<(&PlannedFile, usize)> = None;
        let raw = (0..plan.raw.len()).map(FilePlace::Raw);
        let sections =
            plan.sections.iter().enumerate().flat_map(|(section, files)| {
                (0..files.files.len()).map(move |index| FilePlace::Section(section, index))
            });
        for place in raw.chain(sections) {
            let file = place.file(plan);
            if !file.scan {
                continue;
            }
            // Files of one writer follow each other.
            if let Some((previous, unit)) = last
                && is_alike(previous, file)
            {
                units[unit].files.push(place);
                continue;
            }
            let key = UnitKey::of(file)?;
            let unit = match known.get(&key) {
                Some(unit) => *unit,
                None => {
                    let fields = self.file_fields(&key).await?;
                    let template = self.template(key.format, &fields, projection, limit)?;
                    units.push(Unit::new(template));
                    known.insert(key, units.len() - 1);
                    units.len() - 1
                }
            };
            units[unit].files.push(place);
            last = Some((file, unit));
        }
        if !plan.groups.is_empty() {
            // The groups are not read through a source; it stands for their columns, which are NULL where no file has them.
            let fields = self.fields_of_all(&plan.groups).await?;
            let template = self.template(FileFormat::Parquet, &fields, projection, limit)?;
            units.push(Unit::new(template));
        }
        if units.is_empty() {
            let fields = self.with_held(self.table.schema().fields.clone());
            let template = self.template(FileFormat::Parquet, &fields, projection, limit)?;
            units.push(Unit::new(template));
        }
        Ok(units)
    }

    async fn file_fields(&self, key: &UnitKey) -> Result<Vec<DataField>> {
        self.fields_written(key.schema_id, key.write_cols.as_deref()).await
    }

    /// The columns that `file` holds, as the schema it was written with has them.
    pub(crate) async fn held_fields(&self, file: &PlannedFile) -> Result<Vec<DataField>> {
        self.fields_written(file.file.schema_id(), file.file.write_cols().map(AsRef::as_ref)).await
    }

    /// `_WRITE_COLS` holds the names that the columns had when the file was written.
    async fn fields_written(&self, schema_id: i64, write_cols: Option<&[String]>) -> Result<Vec<DataField>> {
        let schema = self.table.schema_at(schema_id).await?;
        Ok(match write_cols {
            None => self.with_held(schema.fields.clone()),
            Some(names) => {
                let fields = schema.fields.iter().chain(&self.system);
                fields.filter(|field| names.contains(&field.name)).cloned().collect()
            }
        })
    }

    /// `fields` with the system columns that every file holds.
    fn with_held(&self, mut fields: Vec<DataField>) -> Vec<DataField> {
        if self.columns.has_kinds() {
            fields.extend(self.system.iter().cloned());
        }
        fields
    }

    /// The columns of the table that every group has.
    async fn fields_of_all(&self, groups: &[ColumnGroup]) -> Result<Vec<DataField>> {
        let mut fields = self.table.schema().fields.clone();
        for group in groups {
            let mut held = HashSet::new();
            for file in &group.files {
                held.extend(self.held_fields(file).await?.into_iter().map(|field| field.id));
            }
            fields.retain(|field| held.contains(&field.id));
        }
        Ok(fields)
    }

    /// The engine's description of a file, restricted to `rows`; `None` when nothing of it is to be read.
    pub(crate) fn partitioned_file(&self, file: &PlannedFile, rows: &FileRows) -> Result<Option<PartitionedFile>> {
        let path = file.path(self.table.files())?;
        let described = PartitionedFile::new_from_meta(ObjectMeta {
            location: path,
            // Data files never change: a constant keeps the engine's footer cache valid without asking the store.
            last_modified: DateTime::UNIX_EPOCH,
            size: file.file.size(),
            e_tag: None,
            version: None,
        })
        .with_partition_values(file.partition.values.clone())
        .with_extension(ExpectedRows(file.file.rows()));
        Ok(match rows {
            FileRows::None => None,
            FileRows::All => Some(described),
            FileRows::Some(mask) => {
                let selection = RowSelection::from_boolean_buffer(mask.clone());
                Some(described.with_extension(ParquetRowSelection::new(selection)))
            }
        })
    }
}

impl Unit {
    /// A unit without files.
    fn new(template: Arc<dyn DataSource>) -> Self {
        let splittable = template
            .downcast_ref::<FileScanConfig>()
            .is_some_and(|config| config.file_source().downcast_ref::<ParquetSource>().is_some());
        Self { template, files: Vec::new(), splittable }
    }

    /// The unit's source with its files, spread over `partitions` groups; no file is split where rows are `ordered`.
    pub(crate) fn with_files(
        &self,
        files: Vec<PartitionedFile>,
        partitions: usize,
        split_above: usize,
        ordered: bool,
    ) -> Result<Arc<dyn DataSource>> {
        let config = self
            .template
            .downcast_ref::<FileScanConfig>()
            .ok_or_else(|| Error::internal("the source of a scan is not a file scan"))?;
        let splittable = self.splittable && !ordered;
        let groups = spread(files, partitions, splittable.then_some(split_above));
        let config = FileScanConfigBuilder::from(config.clone()).with_file_groups(groups);
        let config = if ordered { config.with_preserve_order(true) } else { config };
        Ok(Arc::new(config.build()))
    }
}

/// Spreads files over exactly `partitions` groups of about the same size; files are split into byte ranges where that is
/// allowed and they are together larger than `split_above`.
fn spread(files: Vec<PartitionedFile>, partitions: usize, split_above: Option<usize>) -> Vec<FileGroup> {
    let many = files.len() >= partitions * 8;
    let mut groups: Vec<FileGroup> = Vec::new();
    if let Some(min_size) = split_above
        && !many
        && !files.is_empty()
    {
        let whole = [FileGroup::new(files.clone())];
        let partitioner =
            FileGroupPartitioner::new().with_target_partitions(partitions).with_repartition_file_min_size(min_size);
        groups = partitioner.repartition_file_groups(&whole).unwrap_or_default();
    }
    if groups.is_empty() {
        groups = spread_whole(files, partitions);
    }
    groups.resize_with(partitions.max(groups.len()), || FileGroup::new(Vec::new()));
    groups
}

fn spread_whole(files: Vec<PartitionedFile>, partitions: usize) -> Vec<FileGroup> {
    let mut groups: Vec<Vec<PartitionedFile>> = vec![Vec::new(); partitions];
    let mut sizes = vec![0u64; partitions];
    for file in files {
        let smallest = (0..partitions).min_by_key(|&group| sizes[group]).unwrap_or(0);
        sizes[smallest] += file.object_meta.size.max(1);
        groups[smallest].push(file);
    }
    groups.into_iter().map(FileGroup::new).collect()
}
