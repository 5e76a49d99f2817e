//! Mail over sockets: the decisions of the listeners, and the work of the delivery agent.

mod aliases;
mod bounces;
mod dane;
mod dialogs;
mod direct;
mod forwarding;
mod held;
mod inbound;
mod interrupted;
mod judged;
mod kept_connection;
mod large;
mod limits;
mod loops;
mod mail_host;
mod marked;
mod notified;
mod proxied;
mod relayed;
mod retries;
mod returned;
mod rewriting;
mod rules;
mod socket;
mod sts;
mod tls;
