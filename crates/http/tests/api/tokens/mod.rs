mod create;
mod get;
mod list;
mod me;
mod revoke;
mod update;
