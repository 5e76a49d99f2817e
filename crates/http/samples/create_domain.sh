curl http://127.0.0.1:8080/api/v1/domains \
  -H "X-MAILAPI-TOKEN: $MAILAPI_TOKEN" \
  -H "Content-Type: application/json" \
  -d '{
    "domain": "example.test"
  }'
