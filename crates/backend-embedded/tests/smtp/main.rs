//! Mail over sockets: what the listeners refuse and take, and what the courier does with it.

mod bounces;
mod dialogs;
mod direct;
mod inbound;
mod interrupted;
mod kept_connection;
mod large;
mod limits;
mod mail_host;
mod relayed;
mod retries;
mod returned;
mod socket;
mod tls;
