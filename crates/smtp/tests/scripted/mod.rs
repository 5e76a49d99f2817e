//! A host with simple rules for a session, all in memory.

use std::collections::VecDeque;

use mailapi_smtp::server::{Answer, Config, Message, Question, Role, Session, Step};
use mailapi_smtp::{Credentials, MailFrom, RcptTo, Reply};
use mailapi_testkit::dialog::Peer;

/// Accepts mail for `here.example`, except for `unknown@here.example` and temporarily `busy@here.example`,
/// from any sender but `refused@…`. The only user is `ann@here.example` with the password `secret`.
pub(crate) struct ScriptedHost {
    session: Session,
    /// The client's bytes arrive in pieces of this size.
    chunk: usize,
    replies: Vec<u8>,
    events: VecDeque<String>,
    closed: bool,
    handshake: bool,
}

impl ScriptedHost {
    pub(crate) fn new(settings: &[(String, String)], chunk: usize) -> Self {
        let session = Session::new(config(settings));
        Self {
            replies: session.greeting().encode(),
            session,
            chunk,
            events: VecDeque::new(),
            closed: false,
            handshake: false,
        }
    }

    fn run(&mut self) {
        loop {
            match self.session.step() {
                Step::NeedMore => return,
                Step::Reply(reply) => reply.encode_into(&mut self.replies),
                Step::Keep(_) => unreachable!("messages come as a whole"),
                Step::Ask(question) => {
                    let answer = self.decide(question);
                    self.session.answer(answer);
                }
                Step::StartTls => {
                    self.handshake = true;
                    return;
                }
                Step::Close => {
                    self.closed = true;
                    return;
                }
            }
        }
    }

    fn decide(&mut self, question: Question) -> Answer {
        match question {
            Question::Mail(mail) => may_send(&mail),
            Question::Rcpt(rcpt) => may_receive(&rcpt),
            Question::Authenticate(credentials) => self.log_in(&credentials),
            Question::Message(message) => self.take(&message),
        }
    }

    fn log_in(&mut self, credentials: &Credentials) -> Answer {
        let right = credentials.username == "ann@here.example" && credentials.password.expose() == "secret";
        self.events.push_back(format!("login {} {right}", credentials.username));
        match right {
            true => Answer::Accept,
            false => Answer::bad_credentials(),
        }
    }

    fn take(&mut self, message: &Message) -> Answer {
        let recipients: Vec<String> =
            message.envelope.recipients.iter().map(|rcpt| format!("<{}>", rcpt.forward_path)).collect();
        self.events.push_back(format!(
            "message {} {} <{}> {} \"{}\"",
            message.protocol,
            message.client_name,
            message.envelope.mail.reverse_path,
            recipients.join(","),
            message.data.escape_ascii()
        ));
        Answer::Queued(format!("Q{}", self.events.len()))
    }
}

impl Peer for ScriptedHost {
    fn send(&mut self, bytes: &[u8]) {
        for piece in bytes.chunks(self.chunk) {
            self.session.push(piece);
            self.run();
        }
    }

    fn line(&mut self) -> Option<String> {
        let end = self.replies.windows(2).position(|pair| pair == b"\r\n")?;
        let line: Vec<u8> = self.replies.drain(..end + 2).collect();
        Some(String::from_utf8_lossy(&line[..end]).into_owned())
    }

    fn is_closed(&mut self) -> bool {
        self.closed
    }

    fn start_tls(&mut self) -> bool {
        if std::mem::take(&mut self.handshake) {
            self.session.tls_established();
            return true;
        }
        false
    }

    fn host_event(&mut self) -> Option<String> {
        self.events.pop_front()
    }
}

fn config(settings: &[(String, String)]) -> Config {
    let mut config = Config::new("mx.here.example", Role::Inbound);
    for (key, value) in settings {
        let number = || value.parse().expect("the setting is a number");
        match (key.as_str(), value.as_str()) {
            ("role", "inbound") => config.role = Role::Inbound,
            ("role", "submission") => config.role = submission(true),
            ("role", "submission-tls") => config.role = submission(false),
            ("tls", "available") => config.tls_available = true,
            ("max-message", _) => config.max_message_bytes = number(),
            ("max-recipients", _) => config.max_recipients = number(),
            ("max-line", _) => config.max_line_bytes = number(),
            ("max-refused-recipients", _) => config.max_refused_recipients = value.parse().expect("a number"),
            ("max-idle-commands", _) => config.max_idle_commands = value.parse().expect("a number"),
            ("max-errors", _) => config.max_errors = value.parse().expect("a number"),
            _ => panic!("unknown setting {key} {value}"),
        }
    }
    config
}

fn submission(auth_without_tls: bool) -> Role {
    Role::Submission { auth_without_tls }
}

fn may_send(mail: &MailFrom) -> Answer {
    match mail.reverse_path.starts_with("refused@") {
        true => Answer::Refuse(Reply::new(550, (5, 7, 1), "Not from you")),
        false => Answer::Accept,
    }
}

fn may_receive(rcpt: &RcptTo) -> Answer {
    match rcpt.forward_path.as_str() {
        "unknown@here.example" => Answer::Refuse(Reply::new(550, (5, 1, 1), "No such user")),
        "busy@here.example" => Answer::Refuse(Reply::new(451, (4, 3, 0), "Try again later")),
        path if path.ends_with("@here.example") => Answer::Accept,
        path if path.eq_ignore_ascii_case("postmaster") => Answer::Accept,
        _ => Answer::Refuse(Reply::new(554, (5, 7, 1), "Relaying denied")),
    }
}
