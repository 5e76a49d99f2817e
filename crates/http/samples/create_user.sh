curl http://127.0.0.1:8080/api/v1/users \
  -H "X-MAILAPI-TOKEN: $MAILAPI_TOKEN" \
  -H "Content-Type: application/json" \
  -d '{
    "email": "alice@example.test",
    "password": "correct horse battery staple",
    "name": "Alice Lee"
  }'
