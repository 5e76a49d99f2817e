//! Writes ENVELOPE.

use super::{header_ntext, header_text};
use crate::server::mime::{Address, Envelope};
use crate::token::Writer;

pub(super) fn write(writer: &mut Writer, envelope: &Envelope) {
    // An empty Sender or Reply-To is written as From (RFC 3501 section 7.4.2).
    let or_from =
        |addresses: &'_ Vec<Address>| if addresses.is_empty() { envelope.from.clone() } else { addresses.clone() };
    writer.raw("(");
    header_ntext(writer, envelope.date.as_deref());
    writer.raw(" ");
    header_ntext(writer, envelope.subject.as_deref());
    let lists = [
        &envelope.from,
        &or_from(&envelope.sender),
        &or_from(&envelope.reply_to),
        &envelope.to,
        &envelope.cc,
        &envelope.bcc,
    ];
    for addresses in lists {
        writer.raw(" ");
        address_list(writer, addresses);
    }
    writer.raw(" ");
    header_ntext(writer, envelope.in_reply_to.as_deref());
    writer.raw(" ");
    header_ntext(writer, envelope.message_id.as_deref());
    writer.raw(")");
}

/// Writes addresses; no spaces separate them (RFC 3501 section 9, `env-from`).
fn address_list(writer: &mut Writer, addresses: &[Address]) {
    if addresses.is_empty() {
        writer.raw("NIL");
        return;
    }
    writer.raw("(");
    for entry in addresses {
        address(writer, entry);
    }
    writer.raw(")");
}

fn address(writer: &mut Writer, address: &Address) {
    match address {
        Address::Mailbox { name, route, local_part, domain } => {
            writer.raw("(");
            header_ntext(writer, name.as_deref());
            writer.raw(" ");
            header_ntext(writer, route.as_deref());
            writer.raw(" ").string(local_part.as_bytes()).raw(" ").string(domain.as_bytes()).raw(")");
        }
        Address::GroupStart(name) => {
            writer.raw("(NIL NIL ");
            header_text(writer, name);
            writer.raw(" NIL)");
        }
        Address::GroupEnd => {
            writer.raw("(NIL NIL NIL NIL)");
        }
    }
}
