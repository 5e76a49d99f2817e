//! Mail over sockets: the decisions of the listeners, and the work of the delivery agent.

mod bounces;
mod dialogs;
mod direct;
mod held;
mod inbound;
mod interrupted;
mod judged;
mod kept_connection;
mod large;
mod limits;
mod mail_host;
mod marked;
mod relayed;
mod retries;
mod returned;
mod socket;
mod tls;
