mod create;
mod get;
mod list;
