//! The error codes: status, cause, and what a client can do. `docs/errors.md` shows the same table.

use axum::http::StatusCode;

macro_rules! error_codes {
    ($(
        #[doc = $cause:literal]
        $variant:ident = $code:literal, $status:ident, $message:literal, $action:literal, $retry:literal;
    )+) => {
        /// Error code, for programs.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum ErrorCode { $(#[doc = $cause] $variant,)+ }

        impl ErrorCode {
            /// All codes.
            pub(crate) const ALL: [Self; [$($code),+].len()] = [$(Self::$variant),+];

            /// The code as clients see it.
            pub(crate) const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $code,)+ }
            }

            /// The HTTP status.
            pub(crate) const fn status(self) -> StatusCode {
                match self { $(Self::$variant => StatusCode::$status,)+ }
            }

            /// The message, unless the error at hand has a more specific one.
            pub(crate) const fn message(self) -> &'static str {
                match self { $(Self::$variant => $message,)+ }
            }

            /// When the error occurs.
            pub(crate) const fn cause(self) -> &'static str {
                match self { $(Self::$variant => $cause.trim_ascii(),)+ }
            }

            /// What the client can do.
            pub(crate) const fn action(self) -> &'static str {
                match self { $(Self::$variant => $action,)+ }
            }

            /// Whether repeating the same request may succeed.
            #[cfg(test)]
            const fn retry(self) -> &'static str {
                match self { $(Self::$variant => $retry,)+ }
            }
        }
    };
}

error_codes! {
    /// The header `X-MAILAPI-TOKEN` is missing or empty.
    NoApiToken = "NO_API_TOKEN", UNAUTHORIZED, "The header X-MAILAPI-TOKEN is missing.",
        "Send a token in the header `X-MAILAPI-TOKEN`.", "no";
    /// The token does not exist, or the request has two headers `X-MAILAPI-TOKEN`.
    InvalidToken = "INVALID_TOKEN", UNAUTHORIZED, "Invalid token.",
        "Check the token, or create a new one.", "no";
    /// The token was revoked or has expired, the session has ended, or the user is disabled or deleted.
    TokenExpired = "TOKEN_EXPIRED", UNAUTHORIZED, "The token has expired or is inactive.",
        "Log in again, or create a new token.", "no";
    /// The address is unknown, the password is wrong, or the mailbox is disabled.
    InvalidCredentials = "INVALID_CREDENTIALS", UNAUTHORIZED, "Invalid address or password.",
        "Check the address and the password.", "no";
    /// The token has no permission for this operation.
    AccessDenied = "ACCESS_DENIED", FORBIDDEN, "Permission denied.",
        "Use an admin token, or ask an admin for the permission.", "no";
    /// The domain of `from` does not exist here, is inactive, or is pending approval.
    DomainNotAllowed = "DOMAIN_NOT_ALLOWED", FORBIDDEN, "The sender's domain is not allowed to send.",
        "Use an active domain, or ask an admin to activate it.", "no";
    /// The token may not send as `from`.
    SenderNotAuthorized = "SENDER_NOT_AUTHORIZED", FORBIDDEN, "The token is not authorized to send as this address.",
        "Send as the token's own mailbox, or ask an admin for `send_mail` on the domain, or for the mailbox to be a sender of the alias.",
        "no";
    /// The mailbox does not exist.
    MailboxNotFound = "MAILBOX_NOT_FOUND", NOT_FOUND, "Mailbox not found.",
        "Check the address.", "no";
    /// The message does not exist, or the caller may not see it.
    MessageNotFound = "MESSAGE_NOT_FOUND", NOT_FOUND, "Message not found.",
        "Check the identifier or the UID, and the folder.", "no";
    /// The message has no such attachment.
    AttachmentNotFound = "ATTACHMENT_NOT_FOUND", NOT_FOUND, "Attachment not found.",
        "Check the index or the name; `attachments` of the message lists both.", "no";
    /// The event does not exist, is no longer kept, or the caller may not see it.
    EventNotFound = "EVENT_NOT_FOUND", NOT_FOUND, "Event not found.",
        "Check the identifier; `GET /events?after=start` lists all.", "no";
    /// The user does not exist.
    UserNotFound = "USER_NOT_FOUND", NOT_FOUND, "User not found.",
        "Check the address.", "no";
    /// The alias does not exist.
    AliasNotFound = "ALIAS_NOT_FOUND", NOT_FOUND, "Alias not found.",
        "Check the address; `GET /aliases` lists all.", "no";
    /// The domain does not exist.
    DomainNotFound = "DOMAIN_NOT_FOUND", NOT_FOUND, "Domain not found.",
        "Check the name, or create the domain first.", "no";
    /// The domain has no DNS provider.
    DnsProviderNotFound = "DNS_PROVIDER_NOT_FOUND", NOT_FOUND, "The domain has no DNS provider.",
        "Set one with `PUT /domains/{domain}/dns/provider`, or publish the records of `/domains/{domain}/dns` by hand.", "no";
    /// The token number does not exist, or the caller may not see it.
    TokenNotFound = "TOKEN_NOT_FOUND", NOT_FOUND, "Token not found.",
        "Check the number; `GET /tokens` lists all.", "no";
    /// The user has no app password with this number.
    AppPasswordNotFound = "APP_PASSWORD_NOT_FOUND", NOT_FOUND, "App password not found.",
        "Check the number; `GET /users/{email}/app-passwords` lists all.", "no";
    /// The permission number does not exist.
    PermissionNotFound = "PERMISSION_NOT_FOUND", NOT_FOUND, "Permission not found.",
        "Check the number; `GET /permissions` lists all.", "no";
    /// The webhook number does not exist.
    WebhookNotFound = "WEBHOOK_NOT_FOUND", NOT_FOUND, "Webhook not found.",
        "Check the number; `GET /webhooks` lists all.", "no";
    /// The mail server's queue does not contain the message.
    QueueMessageNotFound = "QUEUE_MESSAGE_NOT_FOUND", NOT_FOUND, "The queue does not contain the message.",
        "Check the identifier; `GET /queue` lists all. The message may be finished.", "no";
    /// The path does not exist, or the domain has no DKIM key yet.
    NotFound = "NOT_FOUND", NOT_FOUND, "Not found.",
        "Check the path; `/api/v1` is part of it.", "no";
    /// The path does not support the method.
    MethodNotAllowed = "METHOD_NOT_ALLOWED", METHOD_NOT_ALLOWED, "Method not allowed; see the Allow header.",
        "Use a method from the `Allow` header.", "no";
    /// The body arrived too slowly.
    RequestTimeout = "REQUEST_TIMEOUT", REQUEST_TIMEOUT, "The request body arrived too slowly.",
        "Send the request again over a faster connection.", "yes";
    /// The folder does not exist.
    InvalidFolder = "INVALID_FOLDER", BAD_REQUEST, "Folder not found.",
        "Check the name; `GET /mailbox/{email}/folders` lists all.", "no";
    /// The request is not valid HTTP, for example without `Host`. With 414 or 431, its target or fields are too large.
    BadRequest = "BAD_REQUEST", BAD_REQUEST, "The request must have exactly one Host header.",
        "Use a standard HTTP client, and send less with 414 or 431.", "no";
    /// The body is not valid JSON.
    InvalidJson = "INVALID_JSON", BAD_REQUEST, "The body is not valid JSON.",
        "Send one JSON object in UTF-8.", "no";
    /// The body is not declared as JSON, or as a message where one is expected; or it is compressed.
    UnsupportedMediaType = "UNSUPPORTED_MEDIA_TYPE", UNSUPPORTED_MEDIA_TYPE,
        "The body must be application/json without a Content-Encoding.",
        "Send the `Content-Type` that the message names, and no `Content-Encoding`.", "no";
    /// The request or the message exceeds the size limit, or the mailbox has no room for the draft.
    PayloadTooLarge = "PAYLOAD_TOO_LARGE", PAYLOAD_TOO_LARGE, "The request is too large.",
        "Send less, for example smaller attachments.", "no";
    /// A parameter or a member of the body is invalid.
    ValidationError = "VALIDATION_ERROR", UNPROCESSABLE_ENTITY, "Validation failed; see details.",
        "Correct every field that `details` lists.", "no";
    /// The user already exists.
    UserExists = "USER_EXISTS", CONFLICT, "The user already exists.",
        "Use another address, or update the user.", "no";
    /// An alias has the address, or a user has the address of the new alias.
    AliasExists = "ALIAS_EXISTS", CONFLICT, "An alias or a user has the address.",
        "Use another address, or update the alias.", "no";
    /// The domain already exists.
    DomainExists = "DOMAIN_EXISTS", CONFLICT, "The domain already exists.",
        "Use another domain, or update the domain.", "no";
    /// The domain still has users.
    DomainNotEmpty = "DOMAIN_NOT_EMPTY", CONFLICT, "The domain still has users; use force=true to delete them too.",
        "Delete the users first, or set `force=true`. Remove users of an external user database there.", "no";
    /// DNS, the domain or the settings have changed since the plan was made, or another plan is the newest one.
    DnsPlanChanged = "DNS_PLAN_CHANGED", CONFLICT, "The plan has changed since it was seen; nothing was changed.",
        "Get the plan again, look at it, and apply that one. For a rollback, see the history.", "no";
    /// DNS has no zone of the domain, or no address of the name server.
    DnsZoneNotFound = "DNS_ZONE_NOT_FOUND", CONFLICT, "DNS has no zone of the domain, or no address of the name server.",
        "Register the domain, or check the setting `dns.servers`; see `message`.", "no";
    /// The name server does not accept the key or the change.
    DnsRefused = "DNS_REFUSED", CONFLICT, "The name server or provider refused.",
        "See the reason in `message`; check the key or account, and what it may change.", "no";
    /// The user already has this permission on the domain.
    PermissionExists = "PERMISSION_EXISTS", CONFLICT, "The user already has this permission.",
        "Nothing to do.", "no";
    /// The queued message is being delivered.
    QueueMessageBusy = "QUEUE_MESSAGE_BUSY", CONFLICT, "A delivery attempt is in progress; try again after it.",
        "Try again after the attempt. The built-in mail server can hold the message at once.", "yes";
    /// The queued message is on hold.
    QueueMessageHeld = "QUEUE_MESSAGE_HELD", CONFLICT, "The message is on hold; release it instead.",
        "Release the message.", "no";
    /// The `Idempotency-Key` was used with a different body, or the first request is still in progress.
    IdempotencyConflict = "IDEMPOTENCY_CONFLICT", CONFLICT, "The Idempotency-Key was used with a different body.",
        "With `Retry-After`, repeat the same request later. Otherwise use a new key.", "with `Retry-After`";
    /// The token or the client address exceeded a limit for requests, logins, messages a day or event streams.
    RateLimitExceeded = "RATE_LIMIT_EXCEEDED", TOO_MANY_REQUESTS, "Too many requests; see Retry-After.",
        "Wait for the seconds in `Retry-After`.", "after `Retry-After`";
    /// The address is locked after too many failed logins.
    AccountLocked = "ACCOUNT_LOCKED", TOO_MANY_REQUESTS, "Too many failed logins; see Retry-After.",
        "Wait for the seconds in `Retry-After`.", "after `Retry-After`";
    /// The mail server did not accept the message, or its reply is unknown.
    SendFailed = "SEND_FAILED", INTERNAL_SERVER_ERROR, "The mail server did not accept the message.",
        "If `retryable` is true, send again with a new `Idempotency-Key`. Otherwise check the status of `message_id`.",
        "if `retryable`";
    /// The mailbox server is unavailable.
    ImapError = "IMAP_ERROR", INTERNAL_SERVER_ERROR, "The mailbox server is unavailable.",
        "Try again later; the operator finds the cause in the log.", "yes";
    /// Unexpected error.
    InternalError = "INTERNAL_ERROR", INTERNAL_SERVER_ERROR, "Internal error; the log has it under X-Request-Id.",
        "Report the `X-Request-Id` to the operator.", "no";
    /// The operator has not switched the security analysis on.
    AnalysisOff = "ANALYSIS_OFF", FORBIDDEN, "The security analysis is off.",
        "Ask the operator to set `security.analysis`.", "no";
    /// The operator has not configured access to the mail server's queue.
    QueueUnsupported = "QUEUE_UNSUPPORTED", NOT_IMPLEMENTED, "The mail server's queue is not accessible here.",
        "Configure the setting that `message` names.", "no";
    /// The mail server's queue could not be read or changed.
    QueueUnavailable = "QUEUE_UNAVAILABLE", SERVICE_UNAVAILABLE, "The mail server's queue is not available.",
        "See the reason in `message`.", "yes";
    /// The name servers do not answer.
    DnsUnavailable = "DNS_UNAVAILABLE", SERVICE_UNAVAILABLE, "The name servers are not available.",
        "See the reason in `message`.", "yes";
    /// The account database is unavailable, or the server has no capacity for a large request, response or stream.
    ServiceUnavailable = "SERVICE_UNAVAILABLE", SERVICE_UNAVAILABLE, "Service unavailable; try again later.",
        "Try again later; with `Retry-After`, wait for those seconds.", "yes";
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const HEAD: &str = "\
# Error codes

Every error response is JSON with `success: false`, a code in `error`, and a sentence in `message`. Programs should
compare the code only. `VALIDATION_ERROR` adds `details` with one entry for each invalid field. `SEND_FAILED` adds
`message_id` and `retryable`. *Retry* shows whether repeating the same request may succeed.

| code | status | when | what to do | retry |
|---|---|---|---|---|
";

    fn page() -> String {
        let row = |code: ErrorCode| {
            let (name, status) = (code.as_str(), code.status().as_u16());
            format!("| `{name}` | {status} | {} | {} | {} |\n", code.cause(), code.action(), code.retry())
        };
        HEAD.to_owned() + &ErrorCode::ALL.map(row).concat()
    }

    #[test]
    fn the_page_of_error_codes_is_fresh() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors.md");
        if !path.exists() {
            std::fs::write(&path, page()).unwrap();
            panic!("docs/errors.md is new: read it, and run the test again");
        }
        let kept = std::fs::read_to_string(&path).unwrap();
        assert!(kept == page(), "docs/errors.md is stale: remove it, run the test, and look at what changed");
    }
}
