//! Which state of a table a statement reads: the one that its name gives, or the one that options ask for (those of the
//! table, of a hint and of `SET paimon.*`).
//!
//! Imports `error`, `options`, `spec`, `table`, and the session's settings and zone.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::catalog::Session;

use super::pins::SnapshotPins;
use super::settings::PaimonSettings;
use super::zone;
use crate::error::Result;
use crate::options::{TableOptions, check_dynamic, chooses_state};
use crate::spec::Snapshot;
use crate::table::{ReadFrom, Table};

/// A table, and how to find the state of it that a query reads.
#[derive(Clone, Debug)]
pub(crate) struct TableState {
    /// The table.
    pub table: Arc<Table>,
    /// The snapshot that the statement names (`t@5`); `None`: what the options ask for, else the latest one.
    pub named: Option<Arc<Snapshot>>,
    /// The latest snapshots that running queries have seen.
    pub pins: Arc<SnapshotPins>,
}

impl TableState {
    /// The table's options with what `SET paimon.*` lays over them.
    ///
    /// # Errors
    /// Invalid for options that exclude each other or that the table can't take.
    pub(crate) fn options(&self, state: &dyn Session) -> Result<TableOptions> {
        let Some(dynamic) = self.dynamic(state) else { return Ok(self.table.settings().clone()) };
        let named = |error| self.table.at(error);
        check_dynamic(&self.table.stored_options(), &dynamic).map_err(named)?;
        TableOptions::new(&self.table.schema().options, &dynamic).map_err(named)
    }

    /// The table as what the session writes to: with these options, also for what is done to it after that.
    ///
    /// # Errors
    /// As [`Self::options`].
    pub(crate) fn written(&self, state: &dyn Session) -> Result<Arc<Table>> {
        match self.dynamic(state) {
            Some(dynamic) => self.table.with_dynamic_options(dynamic),
            None => Ok(Arc::clone(&self.table)),
        }
    }

    /// The options of the session and of the statement, where the session has some.
    fn dynamic(&self, state: &dyn Session) -> Option<BTreeMap<String, String>> {
        let settings = PaimonSettings::of(state.config_options());
        if settings.is_empty() {
            return None;
        }
        // A hint wins over the session, and one that chooses a state over all that the session chooses.
        let mut dynamic = settings;
        let hint = self.table.dynamic_options();
        if hint.keys().any(|key| chooses_state(key)) {
            dynamic.retain(|key, _| !chooses_state(key));
        }
        dynamic.extend(hint.clone());
        Some(dynamic)
    }

    /// Where the read starts, as `options` ask for it. The columns stay those of the table's schema
    /// (`spec/observed.md`, Reading).
    ///
    /// # Errors
    /// Not found when there is no such snapshot.
    pub(crate) async fn read_from(&self, state: &dyn Session, options: &TableOptions) -> Result<ReadFrom> {
        if let Some(snapshot) = &self.named {
            return Ok(ReadFrom::state(Some(Arc::clone(snapshot))));
        }
        if options.scan.is_latest() {
            let query = state.execution_props().query_execution_start_time;
            return Ok(ReadFrom::state(self.pins.latest(&self.table, query).await?));
        }
        let zone = zone_of(state);
        self.table.read_from(&options.scan, &|text| zone::millis(text, &zone)).await
    }

    /// The snapshot that is read.
    ///
    /// # Errors
    /// As [`Self::read_from`]; invalid where the options ask for changes, which have no one snapshot.
    pub(crate) async fn snapshot(&self, state: &dyn Session, options: &TableOptions) -> Result<Option<Arc<Snapshot>>> {
        self.read_from(state, options).await?.snapshot().map_err(|error| self.table.at(error))
    }
}

/// The session's time zone.
pub(crate) fn zone_of(state: &dyn Session) -> String {
    state.config_options().execution.time_zone.clone().unwrap_or_else(|| "UTC".to_owned())
}
