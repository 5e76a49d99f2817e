//! The program against imitations of the APIs of three providers, behind an HTTPS proxy.

mod children;
mod cloudflare;
mod desec;
mod misbehaviour;
mod product;
mod proxy;
mod route53;
mod secrets;
mod store;
mod stories;
mod world;
