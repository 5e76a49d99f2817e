//! The client's commands in wire format.

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::capabilities::Capabilities;
use crate::envelope::{BodyType, MailFrom, RcptTo};
use crate::path;
use crate::secret::Credentials;
use crate::xtext;

/// Returns EHLO or HELO, as given by `verb`.
pub(super) fn hello(verb: &str, name: &str) -> Vec<u8> {
    // A configured name must not inject another command.
    let name: String = name.chars().filter(|&c| is_visible(c)).collect();
    format!("{verb} {name}\r\n").into_bytes()
}

pub(super) fn auth_plain(credentials: &Credentials) -> Vec<u8> {
    let plain = format!("\0{}\0{}", credentials.username, credentials.password.expose());
    format!("AUTH PLAIN {}\r\n", STANDARD.encode(plain)).into_bytes()
}

/// Returns MAIL with the parameters that the server supports. `body` describes the actual message.
pub(super) fn mail(
    mail: &MailFrom,
    message_bytes: usize,
    body: BodyType,
    smtputf8: bool,
    offered: Capabilities,
) -> String {
    let mut line = format!("MAIL FROM:<{}>", mail.reverse_path);
    if offered.size {
        push(&mut line, format_args!(" SIZE={message_bytes}"));
    }
    if offered.eight_bit_mime && body == BodyType::EightBitMime {
        line.push_str(" BODY=8BITMIME");
    }
    if smtputf8 {
        line.push_str(" SMTPUTF8");
    }
    if offered.dsn {
        if let Some(ret) = mail.ret {
            push(&mut line, format_args!(" RET={ret}"));
        }
        if let Some(envid) = &mail.envid {
            push(&mut line, format_args!(" ENVID={}", xtext::encode(envid)));
        }
    }
    line.push_str("\r\n");
    line
}

/// Returns RCPT with the parameters that the server supports. `smtputf8` is true if MAIL announced SMTPUTF8.
pub(super) fn rcpt(rcpt: &RcptTo, smtputf8: bool, offered: Capabilities) -> String {
    let mut line = format!("RCPT TO:<{}>", rcpt.forward_path);
    if offered.dsn {
        if let Some(notify) = rcpt.notify {
            push(&mut line, format_args!(" NOTIFY={notify}"));
        }
        // An international ORCPT is allowed with SMTPUTF8 only (RFC 6533 section 3).
        let fits = |orcpt: &&String| orcpt.chars().all(is_visible) && (smtputf8 || orcpt.is_ascii());
        if let Some(orcpt) = rcpt.orcpt.as_ref().filter(fits) {
            push(&mut line, format_args!(" ORCPT={orcpt}"));
        }
    }
    line.push_str("\r\n");
    line
}

/// Returns whether `address` is valid between angle brackets and cannot inject another parameter or command.
pub(super) fn is_address(address: &str) -> bool {
    path::parse(&format!("<{address}>")).is_some_and(|(_, rest)| rest.is_empty())
}

fn is_visible(character: char) -> bool {
    !character.is_control() && !character.is_whitespace()
}

fn push(line: &mut String, text: std::fmt::Arguments<'_>) {
    line.write_fmt(text).expect("writing into a String cannot fail");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envelope::{Notify, Ret};

    fn all() -> Capabilities {
        Capabilities {
            pipelining: true,
            eight_bit_mime: true,
            smtputf8: true,
            dsn: true,
            starttls: false,
            auth_plain: false,
            size: true,
            ..Capabilities::default()
        }
    }

    #[test]
    fn nothing_is_smuggled_behind_an_address_or_a_parameter() {
        for wrong in ["a@b> X=1", "a@b\r\nRSET", "a@b>\r\nDATA", "a b@c", "<a@b>"] {
            assert!(!is_address(wrong), "{wrong:?}");
        }
        let recipient = RcptTo { orcpt: Some("rfc822;a@b\r\nRSET".to_owned()), ..RcptTo::new("a@b") };
        assert_eq!(rcpt(&recipient, true, all()), "RCPT TO:<a@b>\r\n");
        assert_eq!(hello("EHLO", "a\r\nRSET"), b"EHLO aRSET\r\n");
        let sender = MailFrom { envid: Some("a\r\nb".to_owned()), ..MailFrom::new("") };
        let line = mail(&sender, 3, BodyType::SevenBit, false, all());
        assert_eq!(line, "MAIL FROM:<> SIZE=3 ENVID=a+0D+0Ab\r\n");
    }

    #[test]
    fn parameters_go_only_where_they_are_understood() {
        let sender = MailFrom { ret: Some(Ret::Headers), envid: Some("x=1".to_owned()), ..MailFrom::new("a@b") };
        let recipient =
            RcptTo { notify: Some(Notify::NEVER), orcpt: Some("rfc822;c@d".to_owned()), ..RcptTo::new("e@f") };
        let eight_bit = BodyType::EightBitMime;
        assert_eq!(
            mail(&sender, 9, eight_bit, true, all()),
            "MAIL FROM:<a@b> SIZE=9 BODY=8BITMIME SMTPUTF8 RET=HDRS ENVID=x+3D1\r\n"
        );
        assert_eq!(rcpt(&recipient, true, all()), "RCPT TO:<e@f> NOTIFY=NEVER ORCPT=rfc822;c@d\r\n");
        let nothing = Capabilities::default();
        assert_eq!(mail(&sender, 9, eight_bit, false, nothing), "MAIL FROM:<a@b>\r\n");
        assert_eq!(rcpt(&recipient, false, nothing), "RCPT TO:<e@f>\r\n");
    }
}
