//! Tables read together with another of their branches: `scan.fallback-branch` and `scan.primary-branch`.
//!
//! A partition comes whole from one branch: from the fallback branch where the table does not have it, or from the primary
//! branch where that has it (`spec/metadata.md 9.2`). Which partitions a branch has is asked without the other conditions of
//! the query: a partition none of whose rows fit is there all the same. Imports `catalog` and `table`.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::catalog::Catalog;
use crate::error::{Error, ErrorKind, Result};
use crate::spec::Snapshot;
use crate::store::Caches;
use crate::store::files::MAIN_BRANCH;
use crate::table::{ObjectName, Table};

/// The other branch.
#[derive(Clone, Debug)]
pub(crate) struct OtherBranch {
    pub table: Arc<Table>,
    /// Whether its partitions win over the table's own.
    pub wins: bool,
}

impl OtherBranch {
    /// The branch that the options of `table` name; `options` are those of the statement.
    ///
    /// # Errors
    /// Invalid when both options are given, not found when there is no such branch, unsupported when its columns are others.
    pub(crate) async fn of(
        table: &Arc<Table>,
        catalog: &Arc<dyn Catalog>,
        caches: &Arc<Caches>,
        mut options: BTreeMap<String, String>,
    ) -> Result<Option<Self>> {
        let settings = table.settings();
        let (option, branch, wins) = match (&settings.fallback_branch, &settings.primary_branch) {
            (None, None) => return Ok(None),
            (Some(_), Some(_)) => {
                return Err(table.at(Error::invalid(
                    "options scan.fallback-branch and scan.primary-branch exclude each other; give one of them",
                )));
            }
            (Some(branch), None) => ("scan.fallback-branch", branch.clone(), false),
            (None, Some(branch)) => ("scan.primary-branch", branch.clone(), true),
        };
        let identifier = table.identifier();
        if branch == identifier.branch.as_deref().unwrap_or(MAIN_BRANCH) {
            return Ok(None);
        }
        options.remove("branch");
        let name = ObjectName {
            table: identifier.table.clone(),
            branch: (branch != MAIN_BRANCH).then(|| branch.clone()),
            system_table: None,
            version: None,
        };
        let opened = catalog.open_table(&identifier.database, &name, caches, options).await;
        let other = opened.map_err(|error| error.with("option", option))?;
        Ok(Some(Self { table: other, wins }))
    }

    /// The snapshot that the branch had when `snapshot` of the table was committed; `None` when it had none yet.
    ///
    /// # Errors
    /// Errors of the store.
    pub(crate) async fn at_time_of(&self, snapshot: &Snapshot) -> Result<Option<Arc<Snapshot>>> {
        match self.table.snapshot_at(snapshot.time_millis).await {
            Ok(snapshot) => Ok(Some(snapshot)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The branch with the columns that it had when `snapshot` of the table was committed.
    ///
    /// # Errors
    /// Errors of the store.
    pub(crate) async fn with_schema_at(mut self, snapshot: &Snapshot) -> Result<Self> {
        if let Some(snapshot) = self.at_time_of(snapshot).await? {
            self.table = self.table.with_schema_of(&snapshot).await?;
        }
        Ok(self)
    }

    /// The same, after a check that its rows are rows of `table`.
    ///
    /// # Errors
    /// Unsupported when they are not.
    pub(crate) fn fitting(self, table: &Table) -> Result<Self> {
        let (own, other) = (table.schema(), self.table.schema());
        let same = own.fields.len() == other.fields.len()
            && own.partition_keys == other.partition_keys
            && own
                .fields
                .iter()
                .zip(&other.fields)
                .all(|(own, other)| own.name == other.name && own.data_type.kind == other.data_type.kind);
        if same && table.settings().row_tracking == self.table.settings().row_tracking {
            return Ok(self);
        }
        Err(table.at(Error::unsupported(format!(
            "branch {} has other columns, partition columns or row tracking than this table, so that the two can't be read \
             as one; unset scan.fallback-branch or scan.primary-branch",
            self.table.files().branch().unwrap_or(MAIN_BRANCH)
        ))))
    }
}
