//! Labelled points of a commit, and of expiry, at which a test can end the process: what is there then must be right, or an orphan.
//!
//! Nothing happens at a point unless a hook was set, which costs one relaxed load.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// The points that a commit passes, in order.
pub const POINTS: [&str; 6] =
    ["commit-start", "manifests-written", "before-snapshot", "snapshot-created", "hint-written", "commit-done"];

/// The points that expiry of snapshots passes, in order.
pub const EXPIRY_POINTS: [&str; 3] = ["expiry-start", "snapshots-expired", "earliest-hinted"];

/// What is called at each point, with its name.
pub type Hook = Box<dyn Fn(&'static str) + Send + Sync>;

static ARMED: AtomicBool = AtomicBool::new(false);
static HOOK: OnceLock<Hook> = OnceLock::new();

/// Sets the hook of this process, once. False when there is one already.
pub fn set_hook(hook: Hook) -> bool {
    let set = HOOK.set(hook).is_ok();
    ARMED.store(true, Ordering::Release);
    set
}

/// A commit, or what leads to it, is at the point `name`.
#[inline]
pub(crate) fn point(name: &'static str) {
    if ARMED.load(Ordering::Relaxed)
        && let Some(hook) = HOOK.get()
    {
        hook(name);
    }
}
