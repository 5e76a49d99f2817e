curl http://127.0.0.1:8080/api/v1/tokens \
  -H "X-MAILAPI-TOKEN: $MAILAPI_TOKEN" \
  -H "Content-Type: application/json" \
  -d '{
    "name": "Newsletter",
    "email": "alice@example.test"
  }'
