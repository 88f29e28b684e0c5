//! Tags of a branch (`spec/metadata.md 9.1`): named snapshots that outlive expiration.
//!
//! May import: `error`, `spec`, `store::{cache, documents, files}`.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, NaiveDateTime, Utc};

use super::cache::Caches;
use super::documents::{self, load_all};
use super::files::TableFiles;
use crate::error::Result;
use crate::spec::{Snapshot, TagDocument};

const PREFIX: &str = "tag-";

/// A tag.
#[derive(Clone, Debug, PartialEq)]
pub struct Tag {
    /// Name.
    pub name: String,
    /// The snapshot it keeps, in full: its own file may have expired.
    pub snapshot: Snapshot,
    /// When it was made, wall clock of its maker; written only with a retention.
    pub create_time: Option<NaiveDateTime>,
    /// How long it is kept after that; without end when not written.
    pub time_retained: Option<Duration>,
}

impl Tag {
    /// The tag's document.
    fn to_json(&self) -> Result<Vec<u8>> {
        let document = TagDocument {
            snapshot: self.snapshot.clone(),
            create_time: self.create_time,
            time_retained: self.time_retained,
        };
        document.to_json()
    }
}

/// The tags of a branch.
#[derive(Clone, Debug)]
pub struct Tags {
    files: Arc<TableFiles>,
    caches: Arc<Caches>,
}

impl Tags {
    /// The tags of the branch of `files`.
    pub fn new(files: Arc<TableFiles>, caches: Arc<Caches>) -> Self {
        Self { files, caches }
    }

    /// The tag called `name`; `None` when there is none.
    ///
    /// # Errors
    /// Invalid when `name` can't be one, corrupt when the file is not a tag, Io when the store failed.
    pub async fn find(&self, name: &str) -> Result<Option<Arc<Tag>>> {
        documents::load(&self.files, &self.caches, &self.files.tag_path(name)?, |bytes| parse(name, bytes)).await
    }

    /// The names of all tags, in order.
    ///
    /// # Errors
    /// Io when the store failed.
    pub async fn names(&self) -> Result<Vec<String>> {
        let listed = self.files.list(&self.files.tag_dir()).await?;
        let name = |name: &str| name.strip_prefix(PREFIX).filter(|name| !is_temporary(name)).map(str::to_owned);
        let mut names: Vec<String> = listed.iter().filter_map(|file| name(file.location.filename()?)).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// When the file of tag `name` was last written; `None` when there is none.
    ///
    /// # Errors
    /// Invalid when `name` can't be one, Io when the store failed.
    pub async fn modified(&self, name: &str) -> Result<Option<DateTime<Utc>>> {
        let path = self.files.tag_path(name)?;
        let listed = self.files.list(&self.files.tag_dir()).await?;
        Ok(listed.into_iter().find(|file| file.location == path).map(|file| file.last_modified))
    }

    /// Writes a tag that is not there yet; false, and nothing is written, when there is one of its name.
    ///
    /// # Errors
    /// Invalid when the name can't be one, Io when the store failed.
    pub async fn create(&self, tag: &Tag) -> Result<bool> {
        self.files.create(&self.files.tag_path(&tag.name)?, tag.to_json()?).await
    }

    /// Writes a tag, over one of its name.
    ///
    /// # Errors
    /// As [`Self::create`].
    pub async fn replace(&self, tag: &Tag) -> Result<()> {
        self.files.overwrite(&self.files.tag_path(&tag.name)?, tag.to_json()?).await
    }

    /// Deletes the file of tag `name`. One that is not there is as good as deleted.
    ///
    /// # Errors
    /// As [`Self::create`].
    pub async fn delete(&self, name: &str) -> Result<()> {
        self.files.delete(&self.files.tag_path(name)?).await
    }

    /// All tags by name.
    ///
    /// # Errors
    /// Corrupt when a file is not a tag, Io when the store failed.
    pub async fn list(&self) -> Result<Vec<Arc<Tag>>> {
        load_all(self.names().await?, |name| async move { self.find(&name).await }).await
    }
}

/// Some writers write to `<name><uuid>.tmp` first.
fn is_temporary(name: &str) -> bool {
    let uuid = name.strip_suffix(".tmp").and_then(|stem| stem.len().checked_sub(36).and_then(|at| stem.get(at..)));
    name.is_empty() || uuid.is_some_and(|uuid| uuid::Uuid::try_parse(uuid).is_ok())
}

fn parse(name: &str, bytes: &[u8]) -> Result<Tag> {
    let TagDocument { snapshot, create_time, time_retained } = TagDocument::from_json(bytes)?;
    Ok(Tag { name: name.to_owned(), snapshot, create_time, time_retained })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::store::testing::{memory, put, snapshot_json};

    fn with_retention(fields: &str) -> String {
        snapshot_json(2, 1_795_985_416_758).replacen('{', &format!("{{{fields},"), 1)
    }

    #[tokio::test]
    async fn list_when_tags_of_all_kinds_then_read_by_name() {
        let root = memory("t");
        put(&root, "tag/tag-plain", snapshot_json(1, 5)).await;
        let kept =
            r#""tagCreateTime" : [ 2026, 11, 29, 20, 50, 16, 830833491 ],"tagTimeRetained" : 31536000.000000000"#;
        put(&root, "tag/tag-12", with_retention(kept)).await;
        put(&root, "tag/tag-at midnight", with_retention(r#""tagCreateTime":[2026,1,2,0,0],"tagTimeRetained":0.5"#))
            .await;
        put(&root, "tag/tag-success-file/plain_SUCCESS", "x".to_owned()).await;
        put(&root, "tag/.tag-z.0b2c.tmp", "{".to_owned()).await;
        put(&root, "tag/tag-y0b2c8a60-5c2e-4b8e-9d1e-0123456789ab.tmp", "{".to_owned()).await;
        let tags = Tags::new(Arc::new(TableFiles::new(root, None).unwrap()), Arc::default());
        let list = tags.list().await.unwrap();
        let names: Vec<_> = list.iter().map(|tag| tag.name.as_str()).collect();
        assert_eq!(names, ["12", "at midnight", "plain"]);
        assert_eq!(list[0].create_time.unwrap().to_string(), "2026-11-29 20:50:16.830833491");
        assert_eq!(list[0].time_retained, Some(Duration::from_secs(31_536_000)));
        assert_eq!(list[0].snapshot.id, 2);
        assert_eq!(list[1].create_time.unwrap().to_string(), "2026-01-02 00:00:00");
        assert_eq!(list[1].time_retained, Some(Duration::from_millis(500)));
        assert_eq!((list[2].create_time, list[2].time_retained), (None, None));
        assert!(tags.find("nothing").await.unwrap().is_none());
        assert_eq!(tags.find("../schema").await.unwrap_err().kind(), ErrorKind::Invalid);
    }

    #[tokio::test]
    async fn find_when_tag_is_broken_then_corrupt_with_its_name() {
        let root = memory("t");
        let tags = Tags::new(Arc::new(TableFiles::new(root.clone(), None).unwrap()), Arc::default());
        for fields in [
            r#""tagCreateTime":[2026,13,2,0,0]"#,
            r#""tagCreateTime":[]"#,
            r#""tagCreateTime":"x""#,
            r#""tagTimeRetained":-1"#,
            r#""tagTimeRetained":1e300"#,
        ] {
            put(&root, "tag/tag-x", with_retention(fields)).await;
            let error = tags.list().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{fields}");
            assert!(error.to_string().contains("tag/tag-x"), "{error}");
        }
    }
}
