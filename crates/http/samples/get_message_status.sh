curl "http://127.0.0.1:8080/api/v1/mail/$MESSAGE_ID/status" \
  -H "X-MAILAPI-TOKEN: $MAILAPI_TOKEN"
