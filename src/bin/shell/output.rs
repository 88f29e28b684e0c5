//! Rows to standard output, in the formats of datafusion-cli.

use std::io::{self, Write};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::instant::Instant;
use datafusion::config::FormatOptions;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_plan::SendableRecordBatchStream;
use datafusion::physical_plan::spill::get_record_batch_memory_size;
use datafusion_cli::print_format::PrintFormat;
use datafusion_cli::print_options::MaxRows;
use futures::StreamExt;
use tidelake::{Error, ErrorKind, Result};

use super::args::Args;

/// How many rows of a table a prompt shows.
const ROWS_AT_A_PROMPT: usize = 40;

/// How and how much is printed.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    pub format: PrintFormat,
    pub maxrows: MaxRows,
    pub quiet: bool,
}

impl Output {
    pub(crate) fn new(args: &Args, at_prompt: bool) -> Self {
        let default = if at_prompt { MaxRows::Limited(ROWS_AT_A_PROMPT) } else { MaxRows::Unlimited };
        Self { format: args.format, maxrows: args.maxrows.unwrap_or(default), quiet: args.quiet }
    }

    /// Prints a stream to its end. `first_row` is called before anything is printed.
    pub(crate) async fn rows(
        &self,
        mut stream: SendableRecordBatchStream,
        options: &FormatOptions,
        reservation: &MemoryReservation,
        started: Instant,
        first_row: impl FnOnce(),
    ) -> Result<()> {
        let schema = stream.schema();
        let row_count = match self.format {
            PrintFormat::Csv | PrintFormat::Tsv | PrintFormat::NdJson => {
                self.stream(stream, options, first_row).await?
            }
            PrintFormat::Table | PrintFormat::Automatic | PrintFormat::Json => {
                let limit = match (self.format, self.maxrows) {
                    (PrintFormat::Json, _) | (_, MaxRows::Unlimited) => usize::MAX,
                    (_, MaxRows::Limited(rows)) => rows,
                };
                let mut batches = Vec::new();
                let mut row_count = 0;
                while let Some(batch) = stream.next().await {
                    let batch = batch?;
                    // Rows that are not shown are still counted.
                    if row_count < limit {
                        reservation.try_grow(get_record_batch_memory_size(&batch))?;
                        batches.push(batch.slice(0, batch.num_rows().min(limit - row_count)));
                    }
                    row_count += batch.num_rows();
                }
                first_row();
                self.batches(&schema, &batches, options)?;
                row_count
            }
        };
        self.summary(row_count, started)
    }

    /// Prints batches as they come, so that a large result needs no memory.
    async fn stream(
        &self,
        mut stream: SendableRecordBatchStream,
        options: &FormatOptions,
        first_row: impl FnOnce(),
    ) -> Result<usize> {
        let schema = stream.schema();
        let mut first_row = Some(first_row);
        let mut row_count = 0;
        while let Some(batch) = stream.next().await {
            let batch = batch?;
            if batch.num_rows() == 0 {
                continue;
            }
            let first = first_row.take();
            let with_header = first.is_some();
            first.into_iter().for_each(|first_row| first_row());
            row_count += batch.num_rows();
            self.print(&schema, &[batch], with_header, options)?;
        }
        if let Some(first_row) = first_row {
            first_row();
            self.header(&schema)?;
        }
        Ok(row_count)
    }

    /// The names of a result without rows: datafusion-cli prints none.
    fn header(&self, schema: &SchemaRef) -> Result<()> {
        let (separator, special) = match self.format {
            PrintFormat::Csv => (",", [',', '"', '\n', '\r']),
            PrintFormat::Tsv => ("\t", ['\t', '"', '\n', '\r']),
            _ => return Ok(()),
        };
        if schema.fields().is_empty() {
            return Ok(());
        }
        let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
        let names = schema.fields().iter().map(|field| field.name().as_str());
        let names: Vec<String> =
            names.map(|name| if name.contains(special) { quoted(name) } else { name.to_owned() }).collect();
        writeln!(io::stdout(), "{}", names.join(separator)).map_err(closed)
    }

    fn batches(&self, schema: &SchemaRef, batches: &[RecordBatch], options: &FormatOptions) -> Result<()> {
        if schema.fields().is_empty() { Ok(()) } else { self.print(schema, batches, true, options) }
    }

    fn print(
        &self,
        schema: &SchemaRef,
        batches: &[RecordBatch],
        with_header: bool,
        options: &FormatOptions,
    ) -> Result<()> {
        let format = if self.format == PrintFormat::Automatic { PrintFormat::Table } else { self.format };
        let mut out = io::stdout().lock();
        format.print_batches(&mut out, SchemaRef::clone(schema), batches, MaxRows::Unlimited, with_header, options)?;
        out.flush().map_err(closed)
    }

    fn summary(&self, row_count: usize, started: Instant) -> Result<()> {
        if self.quiet {
            return Ok(());
        }
        let shown = match (self.format, self.maxrows) {
            (PrintFormat::Table | PrintFormat::Automatic, MaxRows::Limited(limit)) if limit < row_count => {
                format!("(First {limit} displayed. Use --maxrows to adjust)")
            }
            _ => String::new(),
        };
        let seconds = started.elapsed().as_secs_f64();
        writeln!(io::stdout(), "{row_count} row(s) fetched. {shown}\nElapsed {seconds:.3} seconds.\n").map_err(closed)
    }
}

fn closed(error: io::Error) -> Error {
    Error::new(ErrorKind::Io, "the output is closed").with_source(error)
}
