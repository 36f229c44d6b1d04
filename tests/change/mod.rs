//! Plans from end to end: matching, cost, guards, saved plans.

mod guard_refusals;
mod natural_keys;
mod plan_cost;
mod saved_plan_files;
