curl "http://127.0.0.1:8080/api/v1/mailbox/bob@example.test/messages?folder=INBOX&limit=20" \
  -H "X-MAILAPI-TOKEN: $MAILAPI_TOKEN"
