//! A second migration of the same account.

mod repeated_migration;
