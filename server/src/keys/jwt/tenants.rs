//! The tenants whose tokens came: each has a key of its own, with the limits of its plan.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::keys::key::{Entry, Key};

/// How long a tenant is remembered at least: whatever it had used of a minute is there again then.
const KEPT: Duration = Duration::from_mins(2);
/// How many are remembered before those that did not come again are looked for.
const MANY: usize = 1_024;

/// All of them, by name.
#[derive(Default)]
pub(super) struct Tenants {
    by_name: HashMap<Arc<str>, Tenant>,
    /// How many were left after the last search.
    left: usize,
}

struct Tenant {
    key: Arc<Key>,
    plan: Arc<Entry>,
    came: Instant,
}

impl Tenants {
    /// The key of a tenant, with the limits of this plan. What it has used of them stays used if it
    /// comes with another plan, or the plan has changed.
    pub(super) fn key(&mut self, name: &str, plan: Arc<Entry>) -> Arc<Key> {
        let came = Instant::now();
        if let Some(tenant) = self.by_name.get_mut(name) {
            tenant.came = came;
            if !Arc::ptr_eq(&tenant.plan, &plan) {
                tenant.key = Arc::new(Key::of_tenant(name, &plan, Some(&tenant.key.usage)));
                tenant.plan = plan;
            }
            return Arc::clone(&tenant.key);
        }
        if self.by_name.len() >= MANY.max(2 * self.left) {
            self.by_name.retain(|_, tenant| !tenant.is_gone(came));
            self.left = self.by_name.len();
        }
        let key = Arc::new(Key::of_tenant(name, &plan, None));
        let tenant = Tenant {
            key: Arc::clone(&key),
            plan,
            came,
        };
        self.by_name.insert(name.into(), tenant);
        key
    }
}

impl Tenant {
    /// Whether a new one in its place would be the same.
    fn is_gone(&self, now: Instant) -> bool {
        let is_unused = Arc::strong_count(&self.key) == 1 && !self.key.usage.is_in_debt();
        is_unused && now.duration_since(self.came) > KEPT
    }
}
