//! Stories of the follower.
