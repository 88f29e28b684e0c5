//! What is out of order in the tables of a database, as a relation:
//!
//! ```sql
//! SELECT * FROM sys.health()           -- of the current database
//! SELECT * FROM sys.health('db')
//! ```
//! The engine knows table functions by one name alone; the dialect makes `sys_health` of `sys.health`.
//! Imports the engine's table functions and `catalog_provider`.

use std::sync::Arc;

use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl};
use datafusion::common::Result as EngineResult;
use datafusion::datasource::TableProvider;

use super::incremental::text;
use crate::error::{Error, Result};
use crate::options::nearest_of;
use crate::sql::catalog_provider::LakeSchema;

/// The name that the function is registered by.
pub(super) const NAME: &str = "sys_health";

/// The table functions of `sys`, without the prefix.
const NAMES: [&str; 1] = ["health"];

/// The registered name of table function `sys.name`.
///
/// # Errors
/// Not found when there is none, with the nearest name.
pub(crate) fn of_system(name: &str) -> Result<String> {
    if NAMES.contains(&name) {
        return Ok(format!("sys_{name}"));
    }
    let hint = match nearest_of(name, NAMES) {
        Some(nearest) => format!("; did you mean sys.{nearest}?"),
        None => "; procedures are run by CALL".to_owned(),
    };
    Err(Error::not_found(format!("there is no table function sys.{name}{hint}")))
}

/// `sys.health`
#[derive(Debug)]
pub(super) struct Health;

impl TableFunctionImpl for Health {
    fn call_with_args(&self, args: TableFunctionArgs) -> EngineResult<Arc<dyn TableProvider>> {
        let session = args.session();
        let current = &session.config_options().catalog;
        let wrong = || Error::invalid("sys.health: it takes the name of a database, or nothing for the current one");
        let database = match args.exprs() {
            [] => current.default_schema.clone(),
            [name] => text(name).ok_or_else(wrong)?,
            _ => return Err(wrong().into()),
        };
        let missing = || Error::not_found(format!("there is no database {}.{database}", current.default_catalog));
        let catalog = session.catalog_list().catalog(&current.default_catalog).ok_or_else(missing)?;
        let schema = catalog.schema(&database).ok_or_else(missing)?;
        match schema.downcast_ref::<LakeSchema>() {
            Some(lake) => Ok(Arc::new(lake.health())),
            None => Err(Error::invalid(format!("{database} is not a database of a lake catalog")).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_system_when_name_is_wrong_then_the_nearest_is_told() {
        assert_eq!(of_system("health").unwrap(), NAME);
        let error = of_system("heatlh").unwrap_err().to_string();
        assert!(error.ends_with("did you mean sys.health?"), "{error}");
    }
}
