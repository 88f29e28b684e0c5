//! `CREATE OR REPLACE TABLE`: the new table is made, and filled, under another name beside the old one. The two change places
//! when nothing can fail any more but the renaming itself, which is taken back then: a statement that fails leaves the old table
//! as it was, and a query may read the table that it replaces.

use std::collections::{BTreeMap, BTreeSet};

use datafusion::prelude::DataFrame;
use datafusion::sql::sqlparser::tokenizer::TokenWithSpan;
use uuid::Uuid;

use super::create::NewlyCreated;
use super::target::LakeTarget;
use crate::error::{Error, Result};
use crate::sql::LakeSession;
use crate::table::{NewTable, Table};

impl LakeSession {
    /// Replaces a table that is there.
    pub(super) async fn replace_table(
        &self,
        target: &LakeTarget,
        definition: NewTable,
        query: Option<&[TokenWithSpan]>,
    ) -> Result<DataFrame> {
        let (catalog, database) = (target.catalog(), target.database());
        let name = catalog.table_location(database, target.table("CREATE TABLE")?).await?.table;
        check_external_paths(&*target.open().await?, &definition)?;
        let id = Uuid::new_v4().simple().to_string();
        let (staged, old) = (format!("{name}__new_{id}"), format!("{name}__old_{id}"));
        catalog.create_table(database, &staged, definition, false).await?;
        let table = NewlyCreated::of(target, &staged);
        let (table, answer) = match query {
            Some(query) => {
                let answer = Box::pin(self.fill(table, query)).await?;
                (NewlyCreated::of(target, &staged), answer)
            }
            None => (table, self.nothing()),
        };
        catalog.rename_table(database, &name, &old).await?;
        if let Err(error) = catalog.rename_table(database, &staged, &name).await {
            return Err(match catalog.rename_table(database, &old, &name).await {
                Ok(()) => error,
                Err(second) => error.with("the old table is now", old).with("because", second.to_string()),
            });
        }
        table.keep();
        catalog.drop_table(database, &old, true).await?;
        Ok(answer)
    }
}

/// Refuses a table that would keep files in the folders of the one it replaces: neither could be removed without the files of
/// the other.
fn check_external_paths(old: &Table, new: &NewTable) -> Result<()> {
    const KEY: &str = "data-file.external-paths";
    let paths = |options: &BTreeMap<String, String>| -> BTreeSet<String> {
        let listed = options.get(KEY).map(String::as_str).unwrap_or_default();
        listed
            .split(',')
            .map(|path| path.trim().trim_end_matches('/').to_owned())
            .filter(|path| !path.is_empty())
            .collect()
    };
    match paths(&new.options).intersection(&paths(old.options())).next() {
        Some(path) => Err(old.at(Error::unsupported(format!(
            "CREATE OR REPLACE: both tables would keep files in {path} ('{KEY}'); give the new one another folder, or DROP TABLE first"
        )))),
        None => Ok(()),
    }
}
