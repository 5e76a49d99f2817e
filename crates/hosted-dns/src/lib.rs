//! DNS records at hosted providers, which are changed through their HTTP APIs.
//!
//! The program `mailapi-dns` has the clients of the providers, and is the only process that connects to them. This crate
//! starts it and talks to it in lines of JSON. The server therefore links none of the clients.

mod account;
mod agent_process;
mod protocol;
mod providers;

pub use account::{HostedAccount, InvalidAccount, dns_name};
pub use agent_process::{ANSWER_LIMIT, AgentProgram, DnsAgent, PASSED_VARIABLES};
pub use protocol::{
    FailureKind, HostedAnswer, HostedError, HostedJob, HostedRecords, InvalidLine, LineError, MAX_LINE, read_line,
};
pub use providers::{CredentialField, PROVIDERS, ProviderInfo, provider};
