curl "http://127.0.0.1:8080/api/v1/mailbox/bob@example.test/search?q=minutes&folder=*" \
  -H "X-MAILAPI-TOKEN: $MAILAPI_TOKEN"
