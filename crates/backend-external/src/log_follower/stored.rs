//! Serde for the types of `model`, which does not depend on it: `#[serde(with = "stored")]` on a field.

use std::sync::Arc;
use std::time::Duration;

use mailapi_model::{
    DeliveryEvent, EmailAddress, EnhancedCode, Evidence, MessageId, Outcome, QueueId, Reply, ReversePath, Timestamp,
};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A value with a form that serde knows.
pub(super) trait Stored: Sized {
    type Form: Serialize + DeserializeOwned;

    fn form(&self) -> Self::Form;

    fn of_form(form: Self::Form) -> Option<Self>;
}

pub(super) fn serialize<T: Stored, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    value.form().serialize(serializer)
}

pub(super) fn deserialize<'de, T: Stored, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    T::of_form(T::Form::deserialize(deserializer)?).ok_or_else(|| D::Error::custom("invalid value"))
}

macro_rules! stored {
    ($($type:ty as $form:ty: $to:expr, $of:expr;)*) => {$(
        impl Stored for $type {
            type Form = $form;

            fn form(&self) -> Self::Form {
                let to: fn(&Self) -> $form = $to;
                to(self)
            }

            fn of_form(form: Self::Form) -> Option<Self> {
                let of: fn($form) -> Option<Self> = $of;
                of(form)
            }
        }
    )*};
}

stored! {
    // As given: the log's later lines and the events keep the sender's letter case.
    EmailAddress as String: |address| address.shown().to_owned(), |text| Self::as_given(&text).ok();
    MessageId as String: ToString::to_string, |text| text.parse().ok();
    QueueId as String: |id| id.0.clone(), |text| Some(Self(text));
    EnhancedCode as String: ToString::to_string, |text| text.parse().ok();
    // Every event of the follower is the mail server's.
    Evidence as (): |_| (), |()| Some(Self::MailServer);
    Outcome as String: |outcome| outcome.as_str().to_owned(), |text| text.parse().ok();
    Arc<str> as String: |text| text.as_ref().to_owned(), |text| Some(Self::from(text));
    String as String: Self::clone, Some;
    Timestamp as i64: |at| at.as_millis(), |millis| Some(Self::from_millis(millis));
    Duration as u64: |time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX), |millis| Some(Self::from_millis(millis));
    Reply as (u16, Vec<String>, String): |reply| (reply.code, reply.enhanced.form(), reply.text.clone()),
        |(code, enhanced, text)| Some(Self { code, enhanced: Stored::of_form(enhanced)?, text });
}

/// A delivery event.
#[derive(Serialize, Deserialize)]
#[serde(remote = "DeliveryEvent")]
pub(super) struct StoredEvent {
    #[serde(with = "super::stored")]
    at: Timestamp,
    #[serde(with = "super::stored")]
    message_id: Option<MessageId>,
    #[serde(with = "super::stored")]
    queue_id: QueueId,
    #[serde(with = "super::stored")]
    sender: ReversePath,
    #[serde(with = "super::stored")]
    recipient: EmailAddress,
    #[serde(with = "super::stored")]
    final_recipient: Option<EmailAddress>,
    #[serde(with = "super::stored")]
    outcome: Outcome,
    #[serde(with = "super::stored")]
    evidence: Evidence,
    #[serde(with = "super::stored")]
    dsn: Option<EnhancedCode>,
    response: String,
    relay: Option<String>,
    #[serde(with = "super::stored")]
    delay: Duration,
    /// The log does not have it.
    #[serde(skip)]
    next_attempt_at: Option<Timestamp>,
}

/// A list of at most one value: options nest, and JSON has one null.
impl<T: Stored> Stored for Option<T> {
    type Form = Vec<T::Form>;

    fn form(&self) -> Self::Form {
        self.iter().map(T::form).collect()
    }

    fn of_form(mut form: Self::Form) -> Option<Self> {
        match form.pop() {
            None => Some(None),
            Some(value) => T::of_form(value).map(Some),
        }
    }
}

impl<T: Stored> Stored for Vec<T> {
    type Form = Vec<T::Form>;

    fn form(&self) -> Self::Form {
        self.iter().map(T::form).collect()
    }

    fn of_form(form: Self::Form) -> Option<Self> {
        form.into_iter().map(T::of_form).collect()
    }
}

impl<A: Stored, B: Stored> Stored for (A, B) {
    type Form = (A::Form, B::Form);

    fn form(&self) -> Self::Form {
        (self.0.form(), self.1.form())
    }

    fn of_form((a, b): Self::Form) -> Option<Self> {
        Some((A::of_form(a)?, B::of_form(b)?))
    }
}
