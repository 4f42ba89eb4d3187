//! Tenants whose tokens were seen. Each has its own key, with the limits of its plan.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::keys::key::{Key, KeyEntry};

/// Minimum time for which a tenant is kept. Its limits per minute are full again after that.
const KEPT: Duration = Duration::from_mins(2);
/// Number of tenants above which unused ones are removed.
const MANY: usize = 1_024;

/// The tenants seen so far, by name.
#[derive(Default)]
pub(super) struct Tenants {
    by_name: HashMap<Arc<str>, SeenTenant>,
    /// Number of tenants after the last removal.
    left: usize,
}

struct SeenTenant {
    key: Arc<Key>,
    plan: Arc<KeyEntry>,
    came: Instant,
}

impl Tenants {
    /// Returns the key of a tenant, with the limits of `plan`. Used limits stay used if the tenant
    /// gets another plan, or the plan changes.
    pub(super) fn key(&mut self, name: &str, plan: Arc<KeyEntry>) -> Arc<Key> {
        let came = Instant::now();
        if let Some(tenant) = self.by_name.get_mut(name) {
            tenant.came = came;
            if !Arc::ptr_eq(&tenant.plan, &plan) {
                tenant.key = Arc::new(Key::for_tenant(name, &plan, Some(&tenant.key.usage)));
                tenant.plan = plan;
            }
            return Arc::clone(&tenant.key);
        }
        if self.by_name.len() >= MANY.max(2 * self.left) {
            self.by_name.retain(|_, tenant| !tenant.is_gone(came));
            self.left = self.by_name.len();
        }
        let key = Arc::new(Key::for_tenant(name, &plan, None));
        let tenant = SeenTenant {
            key: Arc::clone(&key),
            plan,
            came,
        };
        self.by_name.insert(name.into(), tenant);
        key
    }
}

impl SeenTenant {
    /// Returns true if a new tenant in its place would be equal.
    fn is_gone(&self, now: Instant) -> bool {
        let is_unused = Arc::strong_count(&self.key) == 1 && !self.key.usage.is_in_debt();
        is_unused && now.duration_since(self.came) > KEPT
    }
}
