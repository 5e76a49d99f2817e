//! The security analysis of mail from outside. It decides nothing: rules and people see its verdict.

use std::net::IpAddr;

use bytes::Bytes;
use mailapi_backend::{InboundAction, InboundMail, Judgement};
use mailapi_model::{Blob, ClientNetwork, SecurityMark};

use crate::Service;

impl Service {
    /// Adds the verdict to a judgement. A message that cannot be analyzed passes without.
    pub(super) async fn with_verdict(
        &self,
        mut judgement: Judgement,
        client: IpAddr,
        mail: &InboundMail<'_>,
    ) -> Judgement {
        let is_kept = matches!(judgement.action, InboundAction::Deliver | InboundAction::Junk);
        if self.may_analyze().is_err() || !is_kept {
            return judgement;
        }
        // Rules believe the field, so those that arrive are removed.
        judgement.own_fields.push(SecurityMark::FIELD);
        let results = Blob::from(Bytes::from(judgement.fields.clone()));
        let message = Blob::joined([results, mail.message.clone()]);
        match self.analyze_arriving(&ClientNetwork::of(client), message, mail.hostname).await {
            Ok(mark) => {
                judgement.fields.push_str(&mark.to_string());
                judgement.security = Some(mark);
            }
            Err(error) => tracing::warn!(queue_id = %mail.queue_id, %error, "message could not be analyzed; it passes"),
        }
        judgement
    }
}
