//! The memory of envelopes: each has a limit, and all together have one.

use mailapi_smtp::server::{Answer, Config, MessageBudget, Question, Role, Session, Step};

/// A session after MAIL, whose host accepts all.
struct Client {
    session: Session,
    envelope: usize,
}

impl Client {
    fn new(budget: &MessageBudget) -> Self {
        let config = Config { budget: Some(budget.clone()), ..Config::new("mx.example", Role::Inbound) };
        let mut client = Self { session: Session::new(config), envelope: 0 };
        client.say("EHLO client.example");
        client.begin();
        client
    }

    fn begin(&mut self) {
        assert_eq!(self.say("MAIL FROM:<ann@remote.example>"), 250);
    }

    /// Sends a line, and returns the code of the last reply. Recipients of `refused.example` are refused.
    fn say(&mut self, line: &str) -> u16 {
        self.session.push(format!("{line}\r\n").as_bytes());
        let mut code = 0;
        loop {
            match self.session.step() {
                Step::Reply(reply) => code = reply.code,
                Step::Ask(Question::Rcpt(recipient)) if recipient.forward_path.ends_with("@refused.example") => {
                    self.session.answer(Answer::Refuse(mailapi_smtp::Reply::new(450, (4, 2, 0), "later")));
                }
                Step::Ask(Question::Message(message)) => {
                    self.envelope = message.envelope.recipients.len();
                    self.session.answer(Answer::Queued("1".to_owned()));
                }
                Step::Ask(_) => self.session.answer(Answer::Accept),
                Step::NeedMore | Step::Close => return code,
                Step::Keep(_) | Step::StartTls => unreachable!("not asked for"),
            }
        }
    }

    fn recipient(&mut self, number: usize, domain: &str) -> u16 {
        self.say(&format!("RCPT TO:<r{number}@{domain}> ORCPT=rfc822;{}@x.example", "o".repeat(450)))
    }

    fn send(&mut self) -> u16 {
        assert_eq!(self.say("DATA"), 354);
        self.say("Subject: x\r\n\r\nhello\r\n.")
    }
}

#[test]
fn recipients_beyond_the_limit_go_in_another_transaction() {
    let budget = MessageBudget::new(10 << 20);
    let mut client = Client::new(&budget);
    let mut sent = 0;
    for _ in 0..3 {
        let taken = (sent..1000).take_while(|number| client.recipient(*number, "here.example") == 250).count();
        sent += taken;
        assert!(budget.used() <= 256 * 1024 && (sent == 1000 || taken > 400), "{taken} recipients");
        assert_eq!((client.send(), client.envelope), (250, taken));
        assert_eq!(budget.used(), 0, "the message is stored");
        client.begin();
    }
    assert_eq!(sent, 1000);
}

#[test]
fn envelopes_share_the_budget_and_give_it_back_in_every_way() {
    let budget = MessageBudget::new(300_000);
    for end in ["RSET", "EHLO again.example", "QUIT"] {
        let (mut one, mut two) = (Client::new(&budget), Client::new(&budget));
        for client in [&mut one, &mut two] {
            while client.recipient(0, "here.example") == 250 {}
        }
        assert!(budget.used() > 290_000 && two.recipient(0, "here.example") == 452);
        let mut usual = Client::new(&budget);
        assert_eq!(usual.say("RCPT TO:<ann@here.example>"), 250, "a usual recipient needs no room");
        one.say(end);
        assert_eq!(two.recipient(0, "here.example"), 250, "after {end}");
        drop((one, two));
        assert_eq!(budget.used(), 0);
    }
}

#[test]
fn refused_recipients_take_no_room() {
    let budget = MessageBudget::new(10 << 20);
    let mut client = Client::new(&budget);
    for number in 0..2000 {
        assert_eq!(client.recipient(number, "refused.example"), 450);
    }
    assert_eq!((client.recipient(0, "here.example"), budget.used()), (250, 0));
}
