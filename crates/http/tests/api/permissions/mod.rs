mod bulk;
mod grant;
mod list;
mod mine;
mod revoke;
