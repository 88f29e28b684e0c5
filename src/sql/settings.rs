//! `SET paimon.*`: options that hold for every table a session reads. Imports `error` and `options`.

use std::any::Any;
use std::collections::BTreeMap;

use datafusion::common::config::{ConfigEntry, ConfigExtension, ExtensionOptions};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;

/// The options that `SET paimon.<option> = <value>` gave a session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PaimonSettings {
    options: BTreeMap<String, String>,
}

impl PaimonSettings {
    /// The settings of a session; none when it has no such extension.
    pub fn of(config: &ConfigOptions) -> BTreeMap<String, String> {
        config.extensions.get::<Self>().map(|settings| settings.options.clone()).unwrap_or_default()
    }

    /// Takes an option back to what the tables say.
    pub(crate) fn reset(&mut self, key: &str) -> bool {
        self.options.remove(key).is_some()
    }
}

impl ConfigExtension for PaimonSettings {
    const PREFIX: &'static str = "paimon";
}

impl ExtensionOptions for PaimonSettings {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        super::prepass::check_options(&BTreeMap::from([(key.to_owned(), value.to_owned())]))?;
        self.options.insert(key.to_owned(), value.to_owned());
        Ok(())
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        self.options
            .iter()
            .map(|(key, value)| ConfigEntry {
                key: format!("{}.{key}", Self::PREFIX),
                value: Some(value.clone()),
                description: "an option of every table that this session reads",
            })
            .collect()
    }
}
