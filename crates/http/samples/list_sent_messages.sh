curl "http://127.0.0.1:8080/api/v1/mail/sent?from=alice@example.test&limit=20" \
  -H "X-MAILAPI-TOKEN: $MAILAPI_TOKEN"
